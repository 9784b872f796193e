// A particle in registers, in the store and as a record of the outbox, and sums over particles.
//
// Macros: DIM (1, 2, 3), POS (float, double: stored positions), WEIGHTS (1: one charge a particle, 0: one for all),
// IDS (1: particle numbers are kept).
#pragma once

#include "cell.cuh"

typedef unsigned long long Word;

constexpr unsigned ALL = 0xffffffffu;
constexpr int S_WORDS = sizeof(POS) == 8 ? DIM : (DIM + 1) / 2;
constexpr int WORDS = S_WORDS + 3 + WEIGHTS + IDS;  // 8-byte words of a record

// What a record travels in: 16 bytes at a time where it can.
template <bool pairs>
struct PacketOf {
    typedef Word type;
};
template <>
struct PacketOf<true> {
    typedef ulonglong2 type;
};
typedef PacketOf<WORDS % 2 == 0>::type Packet;
constexpr int PACKETS = WORDS * sizeof(Word) / sizeof(Packet);

// Particles of one species, an array a component. Slots are counted in 32 bits: an address is one instruction.
typedef unsigned Slot;
struct Store {
    POS* s[3];
    double* v[3];
    double* w;
    Word* id;
};
// The same as parameters of a kernel, and the Store made of them.
#define STORE_PARAMETERS POS *s0, POS *s1, POS *s2, double *v0, double *v1, double *v2, double *w, Word *id
#define STORE {{s0, s1, s2}, {v0, v1, v2}, w, id}

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

// Between stored positions and double, denormal numbers kept whatever the compiler's options (CuPy's would flush them, and
// spend double-precision instructions on that).
__device__ inline double to_double(double x) { return x; }
__device__ inline void from_double(double x, double& y) { y = x; }
#ifdef __CUDACC__
__device__ inline double to_double(float x) {
    double y;
    asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x));
    return y;
}
__device__ inline void from_double(double x, float& y) { asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(x)); }
#else
inline double to_double(float x) { return x; }
inline void from_double(double x, float& y) { y = (float)x; }
#endif

__device__ inline void load(const Store& from, Slot slot, Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) p.s[k] = from.s[k][slot];
#pragma unroll
    for (int k = 0; k < 3; ++k) p.v[k] = from.v[k][slot];
#if WEIGHTS
    p.w = from.w[slot];
#endif
#if IDS
    p.id = from.id[slot];
#endif
}

__device__ inline void save(const Store& to, Slot slot, const Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) to.s[k][slot] = p.s[k];
#pragma unroll
    for (int k = 0; k < 3; ++k) to.v[k][slot] = p.v[k];
#if WEIGHTS
    to.w[slot] = p.w;
#endif
#if IDS
    to.id[slot] = p.id;
#endif
}

// A particle as a record of the outbox, and back; records lie on multiples of a Packet.
__device__ inline void pack(const Particle& p, Word* to) {
    Word record[WORDS];
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
    if constexpr (WORDS % 2 == 0) {
#pragma unroll
        for (int k = 0; k < WORDS; k += 2) ((ulonglong2*)to)[k / 2] = ulonglong2{record[k], record[k + 1]};
    } else {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) to[k] = record[k];
    }
}

__device__ inline void unpack(const Word* from, Particle& p) {
    Word record[WORDS];
    if constexpr (WORDS % 2 == 0) {
#pragma unroll
        for (int k = 0; k < WORDS; k += 2) {
            const ulonglong2 pair = ((const ulonglong2*)from)[k / 2];
            record[k] = pair.x, record[k + 1] = pair.y;
        }
    } else {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) record[k] = from[k];
    }
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

// Σ w v²/2, Σ w v, Σ w of the particles one lane has seen, and of its warp.
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

    // In the first three steps a lane gives half of what it has for the other half of what its partner has; the last two make
    // four lanes one.
    __device__ void write(double* sums, int row, int lane) {
        double total[8] = {0.5 * energy, momentum[0], momentum[1], momentum[2], charge, 0.0, 0.0, 0.0};
#pragma unroll
        for (int half = 4; half > 0; half /= 2) {
            const bool upper = lane & 4 * half;
#pragma unroll
            for (int k = 0; k < half; ++k) {
                const double given = upper ? total[k] : total[k + half], kept = upper ? total[k + half] : total[k];
                total[k] = kept + __shfl_xor_sync(ALL, given, 4 * half);
            }
        }
#pragma unroll
        for (int step = 2; step > 0; step /= 2) total[0] += __shfl_xor_sync(ALL, total[0], step);
        if (lane < 20 && lane % 4 == 0) sums[5LL * row + lane / 4] = total[0];
    }
};
