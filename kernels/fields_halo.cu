// Ghost layers of a block that is its own neighbour on every side: both verbs of the halo in one launch each.
//
// variants: DIM=1,2,3 ORDER=1,2
//
// One thread owns one node near the faces, blockIdx.y the component. Ghost indices are taken modulo the number of cells,
// so blocks thinner than their ghost layers are right too. Nodes near the faces are counted shell by shell: those that
// lie in `layers` outermost layers along x, then of the others those along y, then along z.
#include "cell.cuh"

// A box of nodes with n along each axis, of which `layers` (both sides together) belong to the shell.
struct Shell {
    int n[3], layers[3];

    INLINE long long slab(int axis) const {
        long long count = layers[axis];
        for (int k = 3 - DIM; k < 3; ++k)
            if (k != axis) count *= k < axis ? n[k] - layers[k] : n[k];
        return count;
    }
    // Indices of node number t of the shell; false beyond the last.
    INLINE bool node(long long t, int i[3]) const {
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
            return true;
        }
        return false;
    }
};

INLINE int inside(int i, int n) { return (i % n + n) % n; }

INLINE long long index_of(const Grid& grid, const int i[3]) {
    return (DIM > 2 ? (i[0] + GHOSTS) * grid.stride_x() : 0) + (DIM > 1 ? (i[1] + GHOSTS) * grid.stride_y() : 0) + i[2] +
           GHOSTS;
}

// Ghosts of `a` (components, *padded) = their owners.
extern "C" __global__ void __launch_bounds__(256) fill_periodic(double* a, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const int n[3] = {nx, ny, nz};
    Shell ghosts = {{nx, ny, nz}, {0, 0, 0}};
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) ghosts.n[k] += 2 * GHOSTS, ghosts.layers[k] = 2 * GHOSTS;
    int i[3], owner[3] = {0, 0, 0};
    if (!ghosts.node(blockIdx.x * 256LL + threadIdx.x, i)) return;
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) i[k] -= GHOSTS, owner[k] = inside(i[k], n[k]);
    double* component = a + blockIdx.y * grid.nodes();
    component[index_of(grid, i)] = component[index_of(grid, owner)];
}

// Owners of `a` (components, *padded) += their ghosts, in the C order of the ghosts; the ghosts stay as they are.
extern "C" __global__ void __launch_bounds__(256) add_periodic(double* a, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const int n[3] = {nx, ny, nz};
    Shell owners = {{nx, ny, nz}, {0, 0, 0}};
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) owners.layers[k] = min(n[k], 2 * GHOSTS);
    int i[3], low[3] = {0, 0, 0}, high[3] = {0, 0, 0};  // the node, and its outermost images along each dimension
    if (!owners.node(blockIdx.x * 256LL + threadIdx.x, i)) return;
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) {
        low[k] = i[k] - (i[k] + GHOSTS) / n[k] * n[k];
        high[k] = i[k] + (n[k] - 1 + GHOSTS - i[k]) / n[k] * n[k];
    }
    double* component = a + blockIdx.y * grid.nodes();
    const long long owner = index_of(grid, i);
    double sum = component[owner];
    int at[3];
    for (at[0] = low[0]; at[0] <= high[0]; at[0] += n[0])
        for (at[1] = low[1]; at[1] <= high[1]; at[1] += n[1])
            for (at[2] = low[2]; at[2] <= high[2]; at[2] += n[2])
                if (index_of(grid, at) != owner) sum += component[index_of(grid, at)];
    component[owner] = sum;
}
