// What one particle contributes: nine columns S of the mass matrix (or one) and four of the moments, w and w alpha v.
//
// Macros: POS (float, double: stored positions), GATHER (float, double: B at the particle), REAL (double; float for TF32),
// COLUMNS: 0 particles of a plasma, 9 or 1 any given coefficients of a tensorial or a scalar mass matrix.
#pragma once

#include "cell.cuh"

constexpr int COMPONENTS = COLUMNS == 1 ? 1 : 9;
constexpr bool PLASMA = COLUMNS == 0;
constexpr int VALUES = PLASMA ? 3 : COLUMNS;

// Particles of one species, or of none: components in rows of `pitch` slots.
struct Particles {
    const POS* s;
    const double* values;  // v, or the given columns
    const double* w;       // charges; null where all are alike (then they count as 1 here)
    long long pitch;
};

// A particle as it is stored, on its way to registers.
struct Stored {
    POS s[DIM];
    double values[VALUES];
    double w;
};

// *from, or 0. The load is issued right here: the compiler would put it off, and what comes before would not hide it.
#ifdef __CUDACC__
INLINE double fetch(const double* from, bool valid) {
    double x = 0.0;
    if (valid) asm volatile("ld.global.nc.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
    return x;
}
INLINE float fetch(const float* from, bool valid) {
    float x = 0.0f;
    if (valid) asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
    return x;
}
#else
template <class T>
T fetch(const T* from, bool valid) {
    return valid ? *from : T(0);
}
#endif

INLINE void load(const Particles& from, long long slot, bool valid, Stored& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) p.s[k] = fetch(from.s + k * from.pitch + slot, valid);
#pragma unroll
    for (int k = 0; k < VALUES; ++k) p.values[k] = fetch(from.values + k * from.pitch + slot, valid);
    p.w = PLASMA && from.w ? fetch(from.w + slot, valid) : valid;
}

// t along x, y, z; missing dimensions are 0.
INLINE void coordinates(const Stored& p, REAL t[3]) {
#pragma unroll
    for (int k = 0; k < 3; ++k) t[k] = k < 3 - DIM ? (REAL)0 : (REAL)((POS)2 * p.s[k < 3 - DIM ? 0 : k - (3 - DIM)]);
}

// S = w alpha and m = (w, w alpha v) of a plasma particle, b = beta B from the cell's polynomials; or S as given.
INLINE void columns(const Stored& p, const GATHER* coef, REAL S[COMPONENTS], REAL m[4]) {
    if constexpr (PLASMA) {
        GATHER t[DIM], gathered[3];
        REAL b[3], v[3];
#pragma unroll
        for (int k = 0; k < DIM; ++k) t[k] = (GATHER)((POS)2 * p.s[k]);
        field_at(coef, t, gathered);
#pragma unroll
        for (int k = 0; k < 3; ++k) b[k] = (REAL)gathered[k], v[k] = (REAL)p.values[k];
        m[0] = (REAL)p.w;
        rotation(b, m[0], S);
        multiply(S, v, m + 1);
    } else {
#pragma unroll
        for (int k = 0; k < COMPONENTS; ++k) S[k] = (REAL)p.values[k];
        m[0] = m[1] = m[2] = m[3] = (REAL)0;
    }
}
