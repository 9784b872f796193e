// Ghost layers of a block that is its own neighbour on every side: both verbs of the halo in one launch each.
//
// variants: DIM=1,2,3 ORDER=1,2
//
// One thread owns one node of the padded array, blockIdx.y the component. Ghost indices are taken modulo the number of
// cells, so blocks thinner than their ghost layers are right too.
#include "cell.cuh"

struct Node {
    int i[3], n[3];  // index without ghosts and owned nodes along x, y, z
};

INLINE Node node_of(const Grid& grid, long long g) {
    const long long sy = grid.stride_y(), sx = grid.stride_x();
    return {{DIM > 2 ? (int)(g / sx) - GHOSTS : 0, DIM > 1 ? (int)(g % sx / sy) - GHOSTS : 0, (int)(g % sy) - GHOSTS},
            {grid.nx, grid.ny, grid.nz}};
}

INLINE int inside(int i, int n) { return (i % n + n) % n; }

// Ghosts of `a` (components, *padded) = their owners.
extern "C" __global__ void __launch_bounds__(256) fill_periodic(double* a, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const long long g = blockIdx.x * 256LL + threadIdx.x;
    if (g >= grid.nodes()) return;
    const Node at = node_of(grid, g);
    long long owner = 0;
    const long long stride[3] = {grid.stride_x(), grid.stride_y(), 1};
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) owner += (inside(at.i[k], at.n[k]) + GHOSTS) * stride[k];
    if (owner != g) a[blockIdx.y * grid.nodes() + g] = a[blockIdx.y * grid.nodes() + owner];
}

// Owners of `a` (components, *padded) += their ghosts, in the C order of the ghosts; the ghosts stay as they are.
extern "C" __global__ void __launch_bounds__(256) add_periodic(double* a, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const long long g = blockIdx.x * 256LL + threadIdx.x;
    if (g >= grid.nodes()) return;
    const Node at = node_of(grid, g);
    const long long stride[3] = {grid.stride_x(), grid.stride_y(), 1};
    int low[3] = {0, 0, 0}, step[3] = {1, 1, 1}, high[3] = {0, 0, 0};  // all images of the node along each dimension
    bool alone = true;
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) {
        if (at.i[k] < 0 || at.i[k] >= at.n[k]) return;
        step[k] = at.n[k];
        low[k] = at.i[k] - (at.i[k] + GHOSTS) / at.n[k] * at.n[k];
        high[k] = at.i[k] + (at.n[k] - 1 + GHOSTS - at.i[k]) / at.n[k] * at.n[k];
        alone = alone && low[k] == high[k];
    }
    if (alone) return;
    double* component = a + blockIdx.y * grid.nodes();
    double sum = component[g];
    for (int x = low[0]; x <= high[0]; x += step[0])
        for (int y = low[1]; y <= high[1]; y += step[1])
            for (int z = low[2]; z <= high[2]; z += step[2]) {
                long long image = z + GHOSTS;
                if (DIM > 1) image += (y + GHOSTS) * stride[1];
                if (DIM > 2) image += (x + GHOSTS) * stride[0];
                if (image != g) sum += component[image];
            }
    component[g] = sum;
}
