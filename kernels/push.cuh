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

// The warp's values as polynomials of βE and βB, the same bits as NodalField::polynomials. scratch holds FIELD_VALUES; it is not
// used where B is double: E and B follow each other, and are transformed where they are.
__device__ inline void to_polynomials(const double values[VALUES_PER_LANE], double beta, double* scratch, Fields& f, int lane) {
    constexpr bool in_place = sizeof(GATHER) == sizeof(double);
    if (in_place) scratch = f.E;
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
    if constexpr (!in_place) {
        for (int q = lane; q < 3 * NODES; q += 32) {
            f.E[q] = scratch[q];
            f.B[q] = (GATHER)scratch[3 * NODES + q];
        }
        __syncwarp();
    }
}

// v' = 2 α (v + βE) - v with α of b = βB at the particle, for N particles of a lane at a time: each coefficient is read once.
template <int N>
__device__ inline void kick(const Fields& f, Particle (&p)[N]) {
    double t[N][DIM], u[N][3], b[N][3];
    GATHER tg[N][DIM];
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int k = 0; k < DIM; ++k) {
            t[n][k] = 2.0 * to_double(p[n].s[k]);
            tg[n][k] = (GATHER)t[n][k];
        }
#pragma unroll
    for (int k = 0; k < 3; ++k)
#pragma unroll
        for (int n = 0; n < N; ++n) {
            b[n][k] = polynomial<DIM, GATHER>(f.B + k * NODES, tg[n]);
            u[n][k] = p[n].v[k] + polynomial<DIM, double>(f.E + k * NODES, t[n]);
        }
#pragma unroll
    for (int n = 0; n < N; ++n) {
        double mean[3];
        rotate(b[n], u[n], mean);
#pragma unroll
        for (int k = 0; k < 3; ++k) p[n].v[k] = 2.0 * mean[k] - p[n].v[k];
    }
}

// x' = x + Δt v' in cell widths, not yet wrapped; h = Δt/Δ along the active dimensions.
__device__ inline void push(const double h[3], Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) from_double(fma(h[k], p.v[k], to_double(p.s[k])), p.s[k]);
}
