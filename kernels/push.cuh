// Velocity and position update of one particle from the fields of its cell.
//
// Macros: those of particles.cuh, ORDER, and GATHER (float, double), in which B is evaluated at the particle; the mass
// matrix must use the same, so that the magnetic force does no work. E is always evaluated in double.
#pragma once

#include "particles.cuh"

// βE and βB on the support of one cell, as polynomials in t = 2s.
struct Fields {
    double E[3 * NODES];
    GATHER B[3 * NODES];
};

// One warp: the polynomials of `cell` from the padded nodal fields; scratch holds 3·NODES numbers.
__device__ inline void gather_fields(const double* E, const double* B, const Grid& grid, int cell, double beta,
                                     double* scratch, Fields& f, int lane) {
    field_coefficients(E, grid, cell, beta, scratch, f.E, lane, 32, ALL);
    field_coefficients(B, grid, cell, beta, scratch, f.B, lane, 32, ALL);
}

// v' = 2 α (v + βE) - v with α of b = βB at the particle; e and b are the gathered βE and βB.
__device__ inline void kick(const Fields& f, Particle& p) {
    double td[DIM], e[3], b[3];
    GATHER t[DIM], bg[3];
#pragma unroll
    for (int k = 0; k < DIM; ++k) {
        td[k] = 2.0 * p.s[k];
        t[k] = (GATHER)2 * (GATHER)p.s[k];
    }
    field_at(f.E, td, e);
    field_at(f.B, t, bg);
    double u[3], mean[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        b[k] = bg[k];
        u[k] = p.v[k] + e[k];
    }
    rotate(b, u, mean);
#pragma unroll
    for (int k = 0; k < 3; ++k) p.v[k] = 2.0 * mean[k] - p.v[k];
}

// x' = x + Δt v' in cell widths, not yet wrapped; h = Δt/Δ along the active dimensions.
__device__ inline void push(const double h[3], Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) p.s[k] = (POS)(p.s[k] + h[k] * p.v[k]);
}
