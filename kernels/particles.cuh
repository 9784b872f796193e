// A particle in registers, in the store and as a record of the outbox; the wandering of particles between cells.
//
// Macros: DIM (1, 2, 3), POS (float, double: stored positions), WEIGHTS (1: one charge a particle, 0: one for all),
// IDS (1: particle numbers are kept).
#pragma once

#include "cell.cuh"

typedef unsigned long long Word;

constexpr unsigned ALL = 0xffffffffu;
constexpr int BINS = DIM == 1 ? 3 : DIM == 2 ? 9 : 27;  // directions of a step to a neighbouring cell, C order
constexpr int STAY = BINS / 2;                          // the bin of those that stay; in an outbox, of far leavers
constexpr int S_WORDS = sizeof(POS) == 8 ? DIM : (DIM + 1) / 2;
constexpr int WORDS = S_WORDS + 3 + WEIGHTS + IDS;  // 8-byte words of a record

// Particles of one species: components in rows of `pitch` slots.
struct Store {
    POS* s;
    double* v;
    double* w;
    Word* id;
    long long pitch;
};

struct Particle {
    POS s[DIM];
    double v[3];
#if WEIGHTS
    double w;
#endif
#if IDS
    Word id;
#endif
};

// Charge of a particle: its own or the one all share.
__device__ inline double charge_of(const Particle& p, double uniform) {
#if WEIGHTS
    return p.w;
#else
    return uniform;
#endif
}

__device__ inline Word bits(float x) { return __float_as_uint(x); }
__device__ inline Word bits(double x) { return (Word)__double_as_longlong(x); }
__device__ inline void from_bits(Word b, float& x) { x = __uint_as_float((unsigned)b); }
__device__ inline void from_bits(Word b, double& x) { x = __longlong_as_double((long long)b); }

__device__ inline void load(const Store& from, long long slot, Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) p.s[k] = from.s[k * from.pitch + slot];
#pragma unroll
    for (int k = 0; k < 3; ++k) p.v[k] = from.v[k * from.pitch + slot];
#if WEIGHTS
    p.w = from.w[slot];
#endif
#if IDS
    p.id = from.id[slot];
#endif
}

__device__ inline void save(const Store& to, long long slot, const Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) to.s[k * to.pitch + slot] = p.s[k];
#pragma unroll
    for (int k = 0; k < 3; ++k) to.v[k * to.pitch + slot] = p.v[k];
#if WEIGHTS
    to.w[slot] = p.w;
#endif
#if IDS
    to.id[slot] = p.id;
#endif
}

__device__ inline void pack(const Particle& p, Word* record) {
#pragma unroll
    for (int k = 0; k < S_WORDS; ++k) {
        if (sizeof(POS) == 8) {
            record[k] = bits(p.s[k]);
        } else {
            record[k] = bits(p.s[2 * k]);
            if (2 * k + 1 < DIM) record[k] |= bits(p.s[2 * k + 1]) << 32;
        }
    }
#pragma unroll
    for (int k = 0; k < 3; ++k) record[S_WORDS + k] = bits(p.v[k]);
#if WEIGHTS
    record[S_WORDS + 3] = bits(p.w);
#endif
#if IDS
    record[S_WORDS + 3 + WEIGHTS] = p.id;
#endif
}

__device__ inline void unpack(const Word* record, Particle& p) {
#pragma unroll
    for (int k = 0; k < S_WORDS; ++k) {
        if (sizeof(POS) == 8) {
            from_bits(record[k], p.s[k]);
        } else {
            from_bits(record[k], p.s[2 * k]);
            if (2 * k + 1 < DIM) from_bits(record[k] >> 32, p.s[2 * k + 1]);
        }
    }
#pragma unroll
    for (int k = 0; k < 3; ++k) from_bits(record[S_WORDS + k], p.v[k]);
#if WEIGHTS
    from_bits(record[S_WORDS + 3], p.w);
#endif
#if IDS
    p.id = record[S_WORDS + 3 + WEIGHTS];
#endif
}

// Step of bin `bin` along active dimension k: -1, 0 or 1.
__device__ inline int step_of(int bin, int k) {
#pragma unroll
    for (int i = DIM - 1; i > k; --i) bin /= 3;
    return bin % 3 - 1;
}

// Bin of an unwrapped position: STAY for -1/2 <= s < 1/2 along every dimension. `far` is set where a component lies
// beyond the neighbouring cell, `lost` where one is not finite or absurdly far; a lost particle stays where it is.
__device__ inline int bin_of(const POS s[DIM], bool& far, bool& lost) {
    const POS half = (POS)0.5;
    int bin = 0;
    far = lost = false;
#pragma unroll
    for (int k = 0; k < DIM; ++k) {
        bin = 3 * bin + 1 + (s[k] >= half) - (s[k] < -half);
        far = far || !(s[k] < 3 * half && s[k] >= -3 * half);
        lost = lost || !(s[k] < (POS)1e9 && s[k] > (POS)-1e9);
    }
    far = far && !lost;
    return far || lost ? STAY : bin;
}

// Flat cell reached from `cell` by `step` cells along each active dimension, through the periodic faces.
__device__ inline int wandered(const Grid& g, int cell, const int step[DIM]) {
    const int n[3] = {g.nx, g.ny, g.nz};
    int flat = 0, stride = 1;
#pragma unroll
    for (int axis = 2; axis >= 3 - DIM; --axis) {
        int i = (cell % n[axis] + step[axis - (3 - DIM)]) % n[axis];
        flat += (i < 0 ? i + n[axis] : i) * stride;
        stride *= n[axis];
        cell /= n[axis];
    }
    return flat;
}

// Σ w v²/2, Σ w v, Σ w of the particles one lane has seen, and of a warp's cell.
struct Sums {
    double energy = 0.0, momentum[3] = {0.0, 0.0, 0.0}, charge = 0.0;

    // A lost particle makes the energy NaN, which the cycle looks for.
    __device__ void add(const Particle& p, double uniform, bool lost) {
        const double q = charge_of(p, uniform);
        energy += q * (p.v[0] * p.v[0] + p.v[1] * p.v[1] + p.v[2] * p.v[2]);
#pragma unroll
        for (int k = 0; k < 3; ++k) momentum[k] += q * p.v[k];
        charge += q;
        if (lost) energy = __longlong_as_double(0x7ff8000000000000LL);
    }

    __device__ void write(double* sums, int cell, int lane) {
        double total[5] = {0.5 * energy, momentum[0], momentum[1], momentum[2], charge};
#pragma unroll
        for (int k = 0; k < 5; ++k) {
#pragma unroll
            for (int step = 16; step > 0; step /= 2) total[k] += __shfl_down_sync(ALL, total[k], step);
            if (lane == 0) sums[5LL * cell + k] = total[k];
        }
    }
};
