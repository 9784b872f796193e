"""Elementary functions for the loops of loading.

They are IEEE additions, products and quotients in a fixed order, without a branch: the compiler can make vector
instructions of them, and the bits are the same on any machine and at any place in a loop, which those of a mathematical
library need not be. The coefficients are those of fdlibm (e_exp.c, e_log.c).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

formula = njit(forceinline=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""Compile a function into whoever calls it; a division asks no question, which would end the vectors."""

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
TO_INTEGER = 1.5 * 2.0**52
_52, BIAS = np.uint64(52), np.uint64(1023)
ABOVE_2_52 = np.uint64(0x4330000000000000)
ONE, ROOT_HALF, MANTISSA = (np.uint64(n) for n in (0x3FF0000000000000, 0x3FE6A09E00000000, 0x000FFFFFFFFFFFFF))


@intrinsic
def float_of(typingctx, bits):
    """The float64 that consists of ``bits``, a uint64."""

    def _generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), _generate


@intrinsic
def bits_of(typingctx, x):
    """The bits of a float64, as uint64."""

    def _generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), _generate


@formula
def half_above(word):
    """word + ½ as float64, for a uint64 below 2⁵²."""
    return float_of(word | ABOVE_2_52) - (2.0**52 - 0.5)


@formula
def sech_squared(u):
    """sech²(u) to 4 units in the last place; not below 4 exp(−700).

    With −2|u| = n ln 2 + r, |r| ≤ ½ ln 2: e = exp(−2|u|) = 2ⁿ (b + 2r)/b, b = 2 − r + r² P(r²); sech² = 4e/(1 + e)².
    """
    x = max(-2.0 * abs(u), -700.0)
    shifted = x * LOG2_E + TO_INTEGER
    n = shifted - TO_INTEGER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    t = r * r
    p = 4.13813679705723846039e-08 * t - 1.65339022054652515390e-06
    p = p * t + 6.61375632143793436117e-05
    p = p * t - 2.77777777770155933842e-03
    p = p * t + 1.66666666666666019037e-01
    b = (2.0 - r) + t * p
    a = (b + 2.0 * r) * float_of((bits_of(shifted) + BIAS) << _52)
    return 4.0 * a * b / ((a + b) * (a + b))


@formula
def log(x):
    """ln x to 0.6 units in the last place, for normal x > 0.

    With x = 2ⁿ (1 + f), √½ ≤ 1 + f < √2, and s = f/(2 + f): ln(1 + f) = f − ½f² + s (½f² + Q(s²)).
    """
    shifted = bits_of(x) + (ONE - ROOT_HALF)
    n = float_of((shifted >> _52) | ABOVE_2_52) - (2.0**52 + 1023.0)
    f = float_of((shifted & MANTISSA) + ROOT_HALF) - 1.0
    s, half = f / (2.0 + f), 0.5 * f * f
    t = s * s
    q = 1.479819860511658591e-01 * t + 1.531383769920937332e-01
    q = q * t + 1.818357216161805012e-01
    q = q * t + 2.222219843214978396e-01
    q = q * t + 2.857142874366239149e-01
    q = q * t + 3.999999999940941908e-01
    q = q * t + 6.666666666666735130e-01
    return n * LN2_HIGH - ((half - (s * (half + q * t) + n * LN2_LOW)) - f)
