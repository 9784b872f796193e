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

INLINE void load(const Particles& from, long long slot, bool valid, Stored& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) p.s[k] = valid ? from.s[k * from.pitch + slot] : (POS)0;
#pragma unroll
    for (int k = 0; k < VALUES; ++k) p.values[k] = valid ? from.values[k * from.pitch + slot] : 0.0;
    p.w = !valid ? 0.0 : PLASMA && from.w ? from.w[slot] : 1.0;
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
