// From cell to cell: the directions a particle can leave in, and where they lead.
#pragma once

#include "particles.cuh"

constexpr int BINS = DIM == 1 ? 3 : DIM == 2 ? 9 : 27;  // directions of a step to a neighbouring cell, C order
constexpr int STAY = BINS / 2;                          // the bin of those that stay; in an outbox, of far leavers

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
    bool near = true;
#pragma unroll
    for (int k = 0; k < DIM; ++k) {
        bin = 3 * bin + 1 + (s[k] >= half) - (s[k] < -half);
        near = near && s[k] < 3 * half && s[k] >= -3 * half;
    }
    far = lost = false;
    if (near) return bin;
#pragma unroll
    for (int k = 0; k < DIM; ++k) lost = lost || !(s[k] < (POS)1e9 && s[k] > (POS)-1e9);
    far = !lost;
    return STAY;
}

// Cells that a block numbers, for those that wander out of it: of the whole box, of which the block begins at `origin`.
struct Box {
    int cells[3], origin[3];
};

// Coordinate of flat cell `cell` along `axis` (0, 1, 2 for x, y, z).
__device__ inline int coordinate(const Grid& g, int cell, int axis) {
    return axis == 2 ? cell % g.nz : axis == 1 ? cell / g.nz % g.ny : cell / (g.nz * g.ny);
}

// Flat cell of the periodic box reached from the block's `cell` by `step` cells along each active dimension.
__device__ inline int wandered(const Grid& g, const Box& box, int cell, const int step[DIM]) {
    int flat = 0;
#pragma unroll
    for (int axis = 3 - DIM; axis < 3; ++axis) {
        const int n = box.cells[axis], i = (box.origin[axis] + coordinate(g, cell, axis) + step[axis - (3 - DIM)]) % n;
        flat = flat * n + (i < 0 ? i + n : i);
    }
    return flat;
}

// A cell and its coordinates on a walk through the cells of a block, in C order.
struct Walk {
    int cell, x, y, z;

    __device__ static Walk at(const Grid& g, int cell) { return {cell, cell / (g.nz * g.ny), cell / g.nz % g.ny, cell % g.nz}; }
    // `stride`: where this step would lead from cell 0.
    __device__ void step(const Grid& g, const Walk& stride) {
        cell += stride.cell;
        z += stride.z;
        const int carry_y = z >= g.nz;
        if (carry_y) z -= g.nz;
        y += stride.y + carry_y;
        const int carry_x = y >= g.ny;
        if (carry_x) y -= g.ny;
        x += stride.x + carry_x;
    }
};

// Does a step in direction `bin` from `cell` leave the block where it is cut? Bit k of `cut`: it is along axis k.
__device__ inline bool leads_out(const Grid& g, int cell, int bin, int cut) {
    const int n[3] = {g.nx, g.ny, g.nz};
    bool out = false;
#pragma unroll
    for (int axis = 3 - DIM; axis < 3; ++axis) {
        const int i = coordinate(g, cell, axis) + step_of(bin, axis - (3 - DIM));
        out = out || ((cut >> axis & 1) && (i < 0 || i >= n[axis]));
    }
    return out;
}
