"""How kernels reach memory: Lanes in and out of arrays, work arrays on the stack, arrays without reference counts.

Indices count from the start and are not checked. (Python's indices from the end would cost a comparison an access and
keep loops from becoming vector instructions.)
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from ecsim.backend.cpu.lanes import VECTOR, WIDTH, ZERO, lanes, shuffle

_KINDS = {types.float64: ir.DoubleType(), types.float32: ir.FloatType(), types.int32: ir.IntType(32)}


def _item(context, builder, array_type, array, indices):
    """Pointer to an item."""
    data = make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, data, indices, wraparound=False)


def _indices(builder, index_type, index):
    """The numbers of an index, which is one number or a tuple of them."""
    return cgutils.unpack_tuple(builder, index) if isinstance(index_type, types.UniTuple) else [index]


def _load_vector(builder, place, array_type):
    """Eight neighbouring items from ``place`` on as float64, at any alignment of the items."""
    kind = ir.VectorType(_KINDS[array_type.dtype], WIDTH)
    value = builder.load(builder.bitcast(place, kind.as_pointer()))
    value.align = array_type.dtype.bitwidth // 8
    return _widened(builder, value)


def _store_vector(builder, value, place, array_type):
    """The inverse: eight float64 into ``place``, as the array keeps them."""
    value = _narrowed(builder, value, array_type)
    builder.store(value, builder.bitcast(place, value.type.as_pointer())).align = array_type.dtype.bitwidth // 8


def _widened(builder, value):
    """An item or a vector of items as float64."""
    kind = VECTOR if isinstance(value.type, ir.VectorType) else VECTOR.element
    return value if value.type == kind else builder.fpext(value, kind)


def _narrowed(builder, value, array_type):
    """The inverse: float64 as the array keeps it."""
    kind = _KINDS[array_type.dtype]
    kind = ir.VectorType(kind, WIDTH) if isinstance(value.type, ir.VectorType) else kind
    if value.type == kind:
        return value
    return builder.fptosi(value, kind) if array_type.dtype == types.int32 else builder.fptrunc(value, kind)


@intrinsic
def get(typingctx, array, index):
    """Lanes array[…, last : last + 8] of a C-ordered real array; ``index`` is a number or a pair of numbers."""

    def _generate(context, builder, signature, args):
        """Load eight neighbours."""
        place = _item(context, builder, array, args[0], _indices(builder, index, args[1]))
        return _load_vector(builder, place, array)

    return lanes(array, index), _generate


@intrinsic
def put(typingctx, array, index, x):
    """array[…, last : last + 8] = x, converted to what the array holds."""

    def _generate(context, builder, signature, args):
        """Store eight neighbours."""
        place = _item(context, builder, array, args[0], _indices(builder, index, args[1]))
        _store_vector(builder, args[2], place, array)
        return context.get_dummy_value()

    return types.void(array, index, lanes), _generate


@intrinsic
def put_nontemporal(typingctx, array, index, x):
    """As ``put``, straight to memory and without reading it first; the place must be a multiple of eight items.

    For a real array much larger than the caches. Other threads see it after ``fence``.
    """

    def _generate(context, builder, signature, args):
        """Store eight neighbours, marked as not to be kept in a cache."""
        place = _item(context, builder, array, args[0], [args[1]])
        value = _narrowed(builder, args[2], array)
        store = builder.store(value, builder.bitcast(place, value.type.as_pointer()))
        store.align = WIDTH * array.dtype.bitwidth // 8
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(array, index, lanes), _generate


@intrinsic
def fence(typingctx):
    """Wait until all that was put has reached memory."""

    def _generate(context, builder, signature, args):
        """A fence for stores of every kind."""
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), _generate


def _place(context, builder, array_type, array, index, visit_type, visit):
    """Pointer to the item at ``index``, or at visit[index] where there is a ``visit``."""
    if visit is not None:
        index = builder.load(_item(context, builder, visit_type, visit, [index]))
        index = builder.sext(index, ir.IntType(64)) if index.type.width < 64 else index
    return _item(context, builder, array_type, array, [index])


def _get_lane_by_lane(context, builder, array_type, array, first, count, visit_type=None, visit=None):
    """Lanes beyond ``count`` read the last item that counts once more, and are then set to 0."""
    value, last = ZERO, builder.sub(count, count.type(1))
    for lane in range(WIDTH):
        step = count.type(lane)
        counts = builder.icmp_signed("<", step, count)
        index = builder.add(first, builder.select(counts, step, last))
        item = _widened(builder, builder.load(_place(context, builder, array_type, array, index, visit_type, visit)))
        value = builder.insert_element(value, builder.select(counts, item, item.type(0.0)), ir.IntType(32)(lane))
    return value


def _put_lane_by_lane(context, builder, array_type, array, first, count, x, visit_type=None, visit=None):
    """Store the first ``count`` lanes of x one by one, from array[first] on, or from array[visit[first]] on."""
    for lane in range(WIDTH):
        with builder.if_then(builder.icmp_signed("<", count.type(lane), count)):
            place = _place(context, builder, array_type, array, builder.add(first, first.type(lane)), visit_type, visit)
            item = builder.extract_element(x, ir.IntType(32)(lane))
            builder.store(_narrowed(builder, item, array_type), place)
    return context.get_dummy_value()


@intrinsic
def get_some(typingctx, array, first, count):
    """The first ``count`` ≥ 1 lanes of array[first : first + 8], 0 beyond; reads nothing beyond."""

    def _generate(context, builder, signature, args):
        return _get_lane_by_lane(context, builder, array, *args)

    return lanes(array, types.intp, types.intp), _generate


@intrinsic
def get_visited(typingctx, array, visit, first, count):
    """As ``get_some`` for array[visit[first : first + 8]]."""

    def _generate(context, builder, signature, args):
        return _get_lane_by_lane(context, builder, array, args[0], args[2], args[3], visit, args[1])

    return lanes(array, visit, types.intp, types.intp), _generate


@intrinsic
def put_some(typingctx, array, first, count, x):
    """array[first : first + 8] = x for the first ``count`` lanes."""

    def _generate(context, builder, signature, args):
        return _put_lane_by_lane(context, builder, array, *args)

    return types.void(array, types.intp, types.intp, lanes), _generate


@intrinsic
def put_visited(typingctx, array, visit, first, count, x):
    """array[visit[first : first + 8]] = x for the first ``count`` lanes."""

    def _generate(context, builder, signature, args):
        return _put_lane_by_lane(context, builder, array, args[0], args[2], args[3], args[4], visit, args[1])

    return types.void(array, visit, types.intp, types.intp, lanes), _generate


@intrinsic
def get_item(typingctx, array, i):
    """array[i] of a one-dimensional array."""

    def _generate(context, builder, signature, args):
        return builder.load(_item(context, builder, array, args[0], [args[1]]))

    return array.dtype(array, types.intp), _generate


@intrinsic
def put_item(typingctx, array, i, x):
    """array[i] = x of a one-dimensional array."""

    def _generate(context, builder, signature, args):
        """Store one item."""
        builder.store(args[2], _item(context, builder, array, args[0], [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), _generate


@intrinsic
def rounded(typingctx, x, array):
    """x as it would be read back from ``array``."""

    def _generate(context, builder, signature, args):
        return _widened(builder, _narrowed(builder, args[0], array))

    return lanes(lanes, array), _generate


@intrinsic
def prefetch(typingctx, array, i):
    """Ask for the cache line of array[i], which need not exist."""

    def _generate(context, builder, signature, args):
        """Call LLVM's prefetch: to read, kept in all caches, data."""
        byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        place = builder.bitcast(_item(context, builder, array, args[0], [args[1]]), byte_pointer)
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), _generate


@intrinsic
def transpose(typingctx, source, column, target, row):
    """target[row + j, i] = source[i, column + j], i and j = 0 … 7."""

    def _generate(context, builder, signature, args):
        """Load eight rows, swap blocks of 1, 2 and 4 items between pairs of them, store eight rows."""
        number = ir.IntType(64)
        vectors = [_load_vector(builder, _item(context, builder, source, args[0], [number(i), args[1]]), source)
                   for i in range(WIDTH)]
        for step in (1, 2, 4):
            low = [(k & ~step) + (WIDTH if k & step else 0) for k in range(WIDTH)]
            high = [k + step for k in low]
            for i in range(WIDTH):
                if not i & step:
                    a, b = vectors[i], vectors[i + step]
                    vectors[i], vectors[i + step] = shuffle(builder, a, b, low), shuffle(builder, a, b, high)
        for j, vector in enumerate(vectors):
            place = _item(context, builder, target, args[2], [builder.add(args[3], number(j)), number(0)])
            _store_vector(builder, vector, place, target)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), _generate


@intrinsic
def borrow(typingctx, array):
    """The same array without its reference count, which would be touched at every use; the caller keeps it alive."""

    def _generate(context, builder, signature, args):
        """Copy the array's description, with its owner set to null."""
        view = make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), _generate


@intrinsic(prefer_literal=True)
def stack_array(typingctx, rows, columns):
    """An uninitialised float64 array (rows, columns) on the stack; both must be compile-time constants."""
    if not isinstance(rows, types.IntegerLiteral) or not isinstance(columns, types.IntegerLiteral):
        return None
    result = types.Array(types.float64, 2, "C")

    def _generate(context, builder, signature, args):
        """Reserve 64-byte aligned room in the function's frame, and describe it as a C-ordered array."""
        shape = [rows.literal_value, columns.literal_value]
        buffer = cgutils.alloca_once(builder, context.get_data_type(types.float64), size=shape[0] * shape[1])
        buffer.align = 64
        array = make_array(result)(context, builder)
        populate_array(array, data=buffer, shape=[context.get_constant(types.intp, n) for n in shape],
                       strides=[context.get_constant(types.intp, 8 * n) for n in (shape[1], 1)],
                       itemsize=context.get_constant(types.intp, 8), meminfo=None)
        return array._getvalue()

    return result(rows, columns), _generate
