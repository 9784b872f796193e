"""Counter-based random numbers: the draws of a particle are a pure function of who it is.

Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC'11) turns a
128-bit counter and a 64-bit key into four random 32-bit words without any state. With the counter made of
(index in cell, global cell, species and draw number) and the seed as the key, a particle gets the same
numbers on whatever rank or thread it is made:

    counter = (index in cell, cell low word, cell high word, species·2¹⁶ + draw), key = (seed low, seed high)
"""

from __future__ import annotations

import math

import numpy as np

from ecsim.particles.scalar import formula, half_above, log

POSITION_DRAW, VELOCITY_DRAW, SHIFT_DRAW = 0, 1, 2
"""Which of a particle's draws a Philox block serves (the draw number of the counter)."""

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _32, _16 = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(16)
NEAR = 5.0
_TEN, _TEN_BITS = np.uint64(10), np.uint64(1023)


@formula
def philox(c0, c1, c2, c3, k0, k1):
    """Four random 32-bit words for a counter (c0 … c3) and a key (k0, k1), all uint64 below 2³².

    Words are the low halves of 64 bits, whatever is in the high ones: that is what vector instructions multiply.
    """
    for _ in range(10):
        p0 = _M0 * (c0 & _LOW)
        p1 = _M1 * (c2 & _LOW)
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1, (p0 >> _32) ^ c3 ^ k1, p0
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW


@formula
def words_of(seed, species, cell, index, draw):
    """The four 32-bit words, as uint64, of one draw of one particle; every argument is a non-negative integer."""
    key, where = np.uint64(seed), np.uint64(cell)
    which = (np.uint64(species) << _16) | np.uint64(draw)
    return philox(np.uint64(index), where & _LOW, where >> _32, which, key & _LOW, key >> _32)


@formula
def unit32(word):
    """A uniform number inside (0, 1): the middle of one of 2³² equal intervals."""
    return half_above(word) * 2.0**-32


@formula
def unit42(word, extra):
    """A uniform number inside (0, 1) with 42 bits: those of ``word`` and the ten lowest of ``extra``."""
    return half_above((word << _TEN) | (extra & _TEN_BITS)) * 2.0**-42


@formula
def normal_quantile(u):
    """Inverse of the standard normal distribution function for 0 < u < 1, relative error below 1e-15.

    Wichura 1988, "Algorithm AS 241", Applied Statistics 37, 477 (PPND16).
    """
    if is_central(u):
        return central_quantiles((u, u, u))[0]
    r = tail_radius(u)
    return near_tail(r) if abs(r) <= NEAR else far_tail(r)


@formula
def is_central(u):
    """Whether the central formula holds, as it does for 85 % of all u."""
    return abs(u - 0.5) <= 0.425


@formula
def central_quantiles(u):
    """The normal quantiles of three numbers that are central."""
    p, q, r = u[0] - 0.5, u[1] - 0.5, u[2] - 0.5
    a, b, c = _ratios_centre((0.180625 - p * p, 0.180625 - q * q, 0.180625 - r * r))
    return p * a, q * b, r * c


@formula
def tail_radius(u):
    """r = √(−ln min(u, 1 − u)), with the sign of the quantile, which is a function of it."""
    r = math.sqrt(-log(u if u < 0.5 else 1.0 - u))
    return -r if u < 0.5 else r


@formula
def near_tail(r):
    """The normal quantile where u is not central and |r| at most NEAR."""
    z = _ratio_middle(abs(r) - 1.6)
    return -z if r < 0.0 else z


@formula
def far_tail(r):
    """The normal quantile where |r| is above NEAR."""
    z = _ratio_tail(abs(r) - NEAR)
    return -z if r < 0.0 else z


@formula
def _horner(sums, r, coefficient):
    """sums × r + coefficient of three polynomials side by side: one alone would wait for each of its terms."""
    return sums[0] * r[0] + coefficient, sums[1] * r[1] + coefficient, sums[2] * r[2] + coefficient


@formula
def _ratios_centre(r):
    """The ratio of polynomials of the centre, for three arguments."""
    one = 2.5090809287301226727e3
    top = _horner((one, one, one), r, 3.3430575583588128105e4)
    one = 5.2264952788528545610e3
    low = _horner((one, one, one), r, 2.8729085735721942674e4)
    top = _horner(top, r, 6.7265770927008700853e4)
    low = _horner(low, r, 3.9307895800092710610e4)
    top = _horner(top, r, 4.5921953931549871457e4)
    low = _horner(low, r, 2.1213794301586595867e4)
    top = _horner(top, r, 1.3731693765509461125e4)
    low = _horner(low, r, 5.3941960214247511077e3)
    top = _horner(top, r, 1.9715909503065514427e3)
    low = _horner(low, r, 6.8718700749205790830e2)
    top = _horner(top, r, 1.3314166789178437745e2)
    low = _horner(low, r, 4.2313330701600911252e1)
    top = _horner(top, r, 3.3871328727963666080e0)
    low = _horner(low, r, 1.0)
    return top[0] / low[0], top[1] / low[1], top[2] / low[2]


@formula
def _ratio_middle(r):
    top = 7.74545014278341407640e-4 * r + 2.27238449892691845833e-2
    top = top * r + 2.41780725177450611770e-1
    top = top * r + 1.27045825245236838258e0
    top = top * r + 3.64784832476320460504e0
    top = top * r + 5.76949722146069140550e0
    top = top * r + 4.63033784615654529590e0
    top = top * r + 1.42343711074968357734e0
    low = 1.05075007164441684324e-9 * r + 5.47593808499534494600e-4
    low = low * r + 1.51986665636164571966e-2
    low = low * r + 1.48103976427480074590e-1
    low = low * r + 6.89767334985100004550e-1
    low = low * r + 1.67638483018380384940e0
    low = low * r + 2.05319162663775882187e0
    return top / (low * r + 1.0)


@formula
def _ratio_tail(r):
    top = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
    top = top * r + 1.24266094738807843860e-3
    top = top * r + 2.65321895265761230930e-2
    top = top * r + 2.96560571828504891230e-1
    top = top * r + 1.78482653991729133580e0
    top = top * r + 5.46378491116411436990e0
    top = top * r + 6.65790464350110377720e0
    low = 2.04426310338993978564e-15 * r + 1.42151175831644588870e-7
    low = low * r + 1.84631831751005468180e-5
    low = low * r + 7.86869131145613259100e-4
    low = low * r + 1.48753612908506148525e-2
    low = low * r + 1.36929880922735805310e-1
    low = low * r + 5.99832206555887937690e-1
    return top / (low * r + 1.0)
