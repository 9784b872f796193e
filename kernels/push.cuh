// Velocity and position update of one particle from the fields of its cell.
//
// Macros: those of particles.cuh, ORDER, and GATHER (float, double), in which B is evaluated at the particle; the mass
// matrix must use the same, so that the magnetic force does no work. E is always evaluated in double.
#pragma once

#include "particles.cuh"

constexpr int FIELD_VALUES = 6 * NODES;                        // E, then B, on the support of a cell
constexpr int VALUES_PER_LANE = (FIELD_VALUES + 31) / 32;

// βE and βB on the support of one cell, as polynomials in t = 2s.
struct Fields {
    double E[3 * NODES];
    GATHER B[3 * NODES];
};

// This lane's share of the padded nodal values E and B on the support of `cell`.
__device__ inline void load_fields(const double* E, const double* B, const Grid& grid, int cell, int lane,
                                   double values[VALUES_PER_LANE]) {
    const long long base = grid.first_node(cell), step = grid.nodes();
#pragma unroll
    for (int r = 0; r < VALUES_PER_LANE; ++r) {
        const int q = lane + 32 * r, component = q / NODES;
        const double* F = component < 3 ? E : B;
        if (q < FIELD_VALUES) values[r] = F[component % 3 * step + base + grid.support_node(q % NODES)];
    }
}

// The warp's values as polynomials of βE and βB, the same bits as field_coefficients; scratch holds FIELD_VALUES.
__device__ inline void to_polynomials(const double values[VALUES_PER_LANE], double beta, double* scratch, Fields& f, int lane) {
    __syncwarp();
#pragma unroll
    for (int r = 0; r < VALUES_PER_LANE; ++r)
        if (lane + 32 * r < FIELD_VALUES) scratch[lane + 32 * r] = beta * values[r];
    __syncwarp();
#pragma unroll
    for (int k = 0, stride = 1; k < DIM; ++k, stride *= SUPPORT) {
        for (int line = lane; line < FIELD_VALUES / SUPPORT; line += 32)
            nodes_to_powers(scratch + line / stride * (stride * SUPPORT) + line % stride, stride);
        __syncwarp();
    }
    for (int q = lane; q < 3 * NODES; q += 32) {
        f.E[q] = scratch[q];
        f.B[q] = (GATHER)scratch[3 * NODES + q];
    }
    __syncwarp();
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
