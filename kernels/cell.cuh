// The block of cells a kernel works on, and a nodal field brought to one cell as polynomials.
#pragma once

#include "formulas.cuh"

constexpr int GHOSTS = ORDER;
constexpr int REACH = ORDER;  // a particle's support spans REACH + 1 nodes of each active dimension

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
    INLINE long long first_node(int cell) const {
        return first_node(cell / (ny * nz), cell / nz % ny, cell % nz);
    }
    // Step from the first support node to support node u (C order of the active dimensions).
    INLINE long long support_node(int u) const {
        long long step = u % SUPPORT;
        if (DIM > 1) step += u / SUPPORT % SUPPORT * stride_y();
        if (DIM > 2) step += u / (SUPPORT * SUPPORT) * stride_x();
        return step;
    }
};

// coef[3 * NODES], in shared memory: polynomials in t of scale * F on a cell's support, for field_at.
// F: three components of padded nodes. `lanes` lanes (those of `mask`, this one `lane`) share the work of one cell.
// scratch[3 * NODES]: shared memory too; may be coef itself where T is double.
template <class T>
INLINE void field_coefficients(const double* F, const Grid& grid, int cell, double scale, double* scratch, T* coef, int lane,
                               int lanes, unsigned mask) {
    const long long base = grid.first_node(cell), step = grid.nodes();
    for (int q = lane; q < 3 * NODES; q += lanes)
        scratch[q] = scale * F[q / NODES * step + base + grid.support_node(q % NODES)];
    __syncwarp(mask);
#pragma unroll
    for (int k = 0, stride = 1; k < DIM; ++k, stride *= SUPPORT) {
        for (int line = lane; line < 3 * NODES / SUPPORT; line += lanes)
            nodes_to_powers(scratch + line / stride * (stride * SUPPORT) + line % stride, stride);
        __syncwarp(mask);
    }
    if constexpr (sizeof(T) == sizeof(double)) {
        if ((void*)coef == (void*)scratch) return;
    }
    for (int q = lane; q < 3 * NODES; q += lanes) coef[q] = (T)scratch[q];
    __syncwarp(mask);
}
