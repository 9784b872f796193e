"""Small work arrays on the stack: no allocation, and the compiler knows that they overlap with nothing."""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array


@intrinsic(prefer_literal=True)
def stack_array(typingctx, rows, columns):
    """An uninitialised float64 array (rows, columns); both must be compile-time constants."""
    if not isinstance(rows, types.IntegerLiteral) or not isinstance(columns, types.IntegerLiteral):
        return None
    result = types.Array(types.float64, 2, "C")

    def generate(context, builder, signature, args):
        shape = [rows.literal_value, columns.literal_value]
        item = context.get_data_type(types.float64)
        buffer = cgutils.alloca_once(builder, item, size=shape[0] * shape[1])
        buffer.align = 64
        intp = context.get_constant
        array = make_array(result)(context, builder)
        populate_array(array, data=buffer, shape=[intp(types.intp, n) for n in shape],
                       strides=[intp(types.intp, 8 * shape[1]), intp(types.intp, 8)],
                       itemsize=intp(types.intp, 8), meminfo=None)
        return array._getvalue()

    return result(rows, columns), generate
