"""Eight float64 side by side as one value, so that a kernel says itself what runs in vector registers.

LLVM maps them to one AVX-512, two AVX or four NEON registers. Formulas written for numbers take Lanes just as well.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8
VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
ZERO = ir.Constant(VECTOR, [0.0] * WIDTH)


class LanesType(types.Type):
    """The compiler's type of eight float64."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    """Lanes are kept as one LLVM vector."""

    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, VECTOR)


def _splat(builder, scalar):
    """A vector whose items are all ``scalar``."""
    nothing = ir.Constant(ir.VectorType(scalar.type, WIDTH), ir.Undefined)
    first = builder.insert_element(nothing, scalar, ir.IntType(32)(0))
    return shuffle(builder, first, nothing, [0] * WIDTH)


def shuffle(builder, a, b, picks):
    """A vector of items of a (numbered from 0) and of b (numbered on)."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(picks)), picks))


@intrinsic
def spread(typingctx, x):
    """Lanes that all hold the number x."""

    def _generate(context, builder, signature, args):
        return _splat(builder, context.cast(builder, args[0], signature.args[0], types.float64))

    return lanes(x), _generate


def _operation(name):
    """The intrinsic a ∘ b of two Lanes, for the arithmetic instruction ``name`` of LLVM."""

    @intrinsic
    def apply(typingctx, a, b):
        """a ∘ b, lane by lane."""

        def _generate(context, builder, signature, args):
            return getattr(builder, name)(*args)

        return lanes(lanes, lanes), _generate

    return apply


def _define(python_operator, apply):
    """Teach the compiler a ∘ b for Lanes with Lanes, and with numbers on either side."""

    @overload(python_operator)
    def binary(a, b):
        """What to compile for these types; None leaves them to others."""
        if isinstance(a, LanesType) and isinstance(b, LanesType):
            return lambda a, b: apply(a, b)
        if isinstance(a, LanesType) and isinstance(b, types.Float):
            return lambda a, b: apply(a, spread(b))
        if isinstance(a, types.Float) and isinstance(b, LanesType):
            return lambda a, b: apply(spread(a), b)


for _python_operator, _name in ((operator.add, "fadd"), (operator.iadd, "fadd"), (operator.sub, "fsub"),
                                (operator.mul, "fmul"), (operator.truediv, "fdiv")):
    _define(_python_operator, _operation(_name))


@intrinsic
def floor(typingctx, x):
    """The largest whole number not above, lane by lane."""

    def _generate(context, builder, signature, args):
        """Call LLVM's own floor of a vector."""
        kind = ir.FunctionType(VECTOR, [VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.floor.v{WIDTH}f64")
        return builder.call(function, args)

    return lanes(lanes), _generate


@intrinsic
def where_less(typingctx, a, b, x, y):
    """x in the lanes where a < b, y elsewhere."""

    def _generate(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return lanes(lanes, lanes, lanes, lanes), _generate


@intrinsic
def all_less(typingctx, a, b):
    """True if a < b in every lane (a NaN is less than nothing)."""

    def _generate(context, builder, signature, args):
        """Compare, take the truth values as the bits of a byte, and ask whether all are set."""
        bits = builder.bitcast(builder.fcmp_ordered("<", args[0], args[1]), ir.IntType(WIDTH))
        return builder.icmp_unsigned("==", bits, ir.IntType(WIDTH)(2**WIDTH - 1))

    return types.boolean(lanes, lanes), _generate


@intrinsic
def first_lanes(typingctx, count, x):
    """x in the first ``count`` lanes, 0 beyond."""

    def _generate(context, builder, signature, args):
        """Select x where the lane's number is below ``count``."""
        lane = ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH)))
        return builder.select(builder.icmp_signed("<", lane, _splat(builder, args[0])), args[1], ZERO)

    return lanes(types.int64, lanes), _generate


@intrinsic(prefer_literal=True)
def shift(typingctx, x, by):
    """x moved up by ``by`` lanes (down if negative; a compile-time constant), zeros moving in."""
    places = by.literal_value

    def _generate(context, builder, signature, args):
        """Shuffle x with zeros; which lanes is known when compiling."""
        picks = [k - places if 0 <= k - places < WIDTH else WIDTH for k in range(WIDTH)]
        return shuffle(builder, args[0], ZERO, picks)

    return lanes(x, by), _generate


@intrinsic
def total(typingctx, x):
    """The sum over the lanes."""

    def _generate(context, builder, signature, args):
        """Add the upper half to the lower one until one item is left."""
        value, width = args[0], WIDTH
        while width > 1:
            width //= 2
            low, high = (shuffle(builder, value, value, list(range(a, a + width))) for a in (0, width))
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float64(lanes), _generate


_EVEN, _ODD = [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15]
_LOW, _HIGH = [0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 14, 15]


def _fold(builder, vectors, low, high):
    """Half as many vectors: sums of neighbouring items (or pairs of items) of each two, side by side."""
    return [builder.fadd(shuffle(builder, a, b, low), shuffle(builder, a, b, high))
            for a, b in zip(vectors[0::2], vectors[1::2], strict=True)]


@intrinsic
def totals(typingctx, a, b, c, d, e, f, g, h):
    """Lanes of the eight sums over lanes."""

    def _generate(context, builder, signature, args):
        """Fold eight vectors to four, to two, to one."""
        four = _fold(builder, args, _EVEN, _ODD)
        return _fold(builder, _fold(builder, four, _LOW, _HIGH), _LOW, _HIGH)[0]

    return lanes(*(lanes,) * WIDTH), _generate
