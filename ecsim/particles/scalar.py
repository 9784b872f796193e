"""Scalar functions from which the compiler can make vector instructions, for the loops of loading.

They are made of IEEE additions, products and quotients in a fixed order, so they give the same bits on any machine.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

formula = njit(forceinline=True, error_model="numpy", no_cfunc_wrapper=True)
"""Compile a function into whoever calls it; a division asks no question, which would end the vectors."""

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
TO_INTEGER = 1.5 * 2.0**52


@intrinsic
def float_of(typingctx, bits):
    """The float64 that consists of ``bits``, a uint64."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@intrinsic
def power_of_two(typingctx, x):
    """2ⁿ for an integer −1022 ≤ n ≤ 1023 that is given as x = n + TO_INTEGER: n is then the lowest bits of x."""

    def generate(context, builder, signature, args):
        number = ir.IntType(64)
        bits = builder.add(builder.bitcast(args[0], number), number(1023))
        return builder.bitcast(builder.shl(bits, number(52)), ir.DoubleType())

    return types.float64(types.float64), generate


@formula
def decay(x):
    """exp(x) for x ≤ 0, to 0.8 units in the last place; not below exp(−700).

    x = n ln 2 + r with |r| ≤ ½ ln 2, and exp(r) = 1 + 2r/(R(r) − r) with the polynomial R of fdlibm's e_exp.c.
    """
    x = max(x, -700.0)
    shifted = x * LOG2_E + TO_INTEGER
    n = shifted - TO_INTEGER
    high, low = x - n * LN2_HIGH, n * LN2_LOW
    r = high - low
    t = r * r
    c = 4.13813679705723846039e-08 * t - 1.65339022054652515390e-06
    c = c * t + 6.61375632143793436117e-05
    c = c * t - 2.77777777770155933842e-03
    c = c * t + 1.66666666666666019037e-01
    c = r - c * t
    return (1.0 - ((low - r * c / (2.0 - c)) - high)) * power_of_two(shifted)
