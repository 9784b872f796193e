// The nodes near the faces of a box, numbered one after the other.
#pragma once

#include "cell.cuh"

// A box of nodes with n along each axis, of which `layers` (both sides together) belong to the shell. Its nodes are counted
// slab by slab: those in the outermost layers along x, then of the others those along y, then along z.
struct Shell {
    int n[3], layers[3];

    INLINE long long slab(int axis) const {
        long long count = layers[axis];
        for (int k = 3 - DIM; k < 3; ++k)
            if (k != axis) count *= k < axis ? n[k] - layers[k] : n[k];
        return count;
    }
    // Indices of node number t of the shell.
    INLINE void node(long long t, int i[3]) const {
        i[0] = i[1] = i[2] = 0;
#pragma unroll
        for (int axis = 3 - DIM; axis < 3; ++axis) {
            if (t >= slab(axis)) {
                t -= slab(axis);
                continue;
            }
#pragma unroll
            for (int k = 2; k >= 3 - DIM; --k) {
                const int width = k == axis ? layers[k] : k < axis ? n[k] - layers[k] : n[k];
                i[k] = (int)(t % width);
                t /= width;
                const int low = layers[k] / 2, inner = n[k] - layers[k];
                if (k == axis && i[k] >= low) i[k] += inner;  // the far side
                if (k < axis) i[k] += low;                    // neither side
            }
            return;
        }
    }
};

// Where node i (owned nodes count from 0) lies in a padded array.
INLINE long long index_of(const Grid& grid, const int i[3]) {
    return (DIM > 2 ? (i[0] + GHOSTS) * grid.stride_x() : 0) + (DIM > 1 ? (i[1] + GHOSTS) * grid.stride_y() : 0) + i[2] +
           GHOSTS;
}
