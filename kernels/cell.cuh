// The block of cells a kernel works on, and a nodal field brought to one cell as polynomials.
#pragma once

#include "formulas.cuh"

constexpr int GHOSTS = ORDER;
constexpr int REACH = ORDER;  // a particle's support spans REACH + 1 nodes of each active dimension
constexpr int X_REACH = DIM > 2 ? REACH : 0, Y_REACH = DIM > 1 ? REACH : 0, Z_REACH = REACH;

// Owned cells, right-aligned: nx (and ny) is 1 and has no ghosts where DIM < 3 (DIM < 2).
struct Grid {
    int nx, ny, nz;

    INLINE int ncells() const { return nx * ny * nz; }
    // Steps between neighbouring nodes of a padded array.
    INLINE long long stride_y() const { return nz + 2 * GHOSTS; }
    INLINE long long stride_x() const { return DIM > 1 ? stride_y() * (ny + 2 * GHOSTS) : stride_y(); }
    // Nodes of a padded array: the step between its components.
    INLINE long long nodes() const { return DIM > 2 ? stride_x() * (nx + 2 * GHOSTS) : stride_x(); }

    // Padded index of the first support node of the particles of owned cell (ix, iy, iz).
    INLINE long long first_node(int ix, int iy, int iz) const {
        return (DIM > 2 ? (ix + 1) * stride_x() : 0) + (DIM > 1 ? (iy + 1) * stride_y() : 0) + iz + 1;
    }
    INLINE long long first_node(int cell) const { return first_node(cell / (ny * nz), cell / nz % ny, cell % nz); }
    // Step from the first support node to support node u (C order of the active dimensions).
    INLINE long long support_node(int u) const {
        long long step = u % SUPPORT;
        if (DIM > 1) step += u / SUPPORT % SUPPORT * stride_y();
        if (DIM > 2) step += u / (SUPPORT * SUPPORT) * stride_x();
        return step;
    }
};

// How LANES lanes (this one is `lane`) bring a nodal field to one cell: loaded first, made polynomials of once needed.
template <int LANES>
struct NodalField {
    static constexpr int VALUES = 3 * NODES, LINES = VALUES / SUPPORT;
    static constexpr int ROUNDS = (VALUES + LANES - 1) / LANES;
    double value[ROUNDS];

    // F: three components of padded nodes.
    INLINE void load(const double* F, const Grid& grid, int cell, int lane) {
        const long long base = grid.first_node(cell), step = grid.nodes();
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r) {
            const int q = lane + r * LANES;
            value[r] = q < VALUES ? F[q / NODES * step + base + grid.support_node(q % NODES)] : 0.0;
        }
    }

    // coef[VALUES], in shared memory: coefficients in t of scale * F, for field_at. scratch[VALUES]: shared memory too; may
    // be coef itself where T is double. `mask`: the lanes that take part.
    template <class T>
    INLINE void polynomials(double scale, double* scratch, T* coef, int lane, unsigned mask) const {
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r)
            if (lane + r * LANES < VALUES) scratch[lane + r * LANES] = scale * value[r];
        __syncwarp(mask);
#pragma unroll
        for (int k = 0, stride = 1; k < DIM; ++k, stride *= SUPPORT) {
#pragma unroll
            for (int r = 0; r < (LINES + LANES - 1) / LANES; ++r) {
                const int line = lane + r * LANES;
                if (line < LINES) nodes_to_powers(scratch + line / stride * (stride * SUPPORT) + line % stride, stride);
            }
            __syncwarp(mask);
        }
        if ((void*)coef == (void*)scratch) return;
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r)
            if (lane + r * LANES < VALUES) coef[lane + r * LANES] = (T)scratch[lane + r * LANES];
        __syncwarp(mask);
    }
};
