// Ghost layers: both verbs of the halo in one launch each for a block that is its own neighbour on every side, owned values
// with ghosts around them, and the packing of faces that travel to other blocks.
//
// variants: DIM=1,2,3 ORDER=1,2
//
// Periodic: one thread owns one of the `shell` nodes near the faces of one component. Ghost indices are taken modulo the
// number of cells, so blocks thinner than their ghost layers are right too.
// Faces: one thread owns one node of a face of one component; the faces of all components lie one after another.
#include "shell.cuh"

INLINE int inside(int i, int n) { return (i % n + n) % n; }

// Ghosts of `a` (components, *padded) = their owners.
extern "C" __global__ void __launch_bounds__(256)
    fill_periodic(double* a, long long components, long long shell, int nx, int ny, int nz) {
    const long long item = blockIdx.x * 256LL + threadIdx.x;
    if (item >= components * shell) return;
    const Grid grid = {nx, ny, nz};
    const int n[3] = {nx, ny, nz};
    Shell ghosts = {{nx, ny, nz}, {0, 0, 0}};
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) ghosts.n[k] += 2 * GHOSTS, ghosts.layers[k] = 2 * GHOSTS;
    int i[3], owner[3] = {0, 0, 0};
    ghosts.node(item % shell, i);
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) i[k] -= GHOSTS, owner[k] = inside(i[k], n[k]);
    double* component = a + item / shell * grid.nodes();
    component[index_of(grid, i)] = component[index_of(grid, owner)];
}

// a (components, *padded) = x (components, *cells) with ghosts around it, except those along axes that are cut, which stay.
// One thread owns one node of all components.
extern "C" __global__ void __launch_bounds__(128) pad(const double* __restrict__ x, double* __restrict__ a, int components,
                                                      int nx, int ny, int nz, int cut_x, int cut_y, int cut_z) {
    const Grid grid = {nx, ny, nz};
    const unsigned node = blockIdx.x * 128u + threadIdx.x, row = node / (unsigned)grid.stride_y();
    if (node >= grid.nodes()) return;
    const int n[3] = {nx, ny, nz}, cut[3] = {cut_x, cut_y, cut_z};
    const unsigned rows = DIM > 1 ? ny + 2 * GHOSTS : 1;
    const int at[3] = {(int)(row / rows), (int)(row % rows), (int)(node - row * (unsigned)grid.stride_y())};
    long long owner = 0;
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) {
        int i = at[k] - GHOSTS;
        if (i < 0 || i >= n[k]) {
            if (cut[k]) return;
            i = inside(i, n[k]);
        }
        owner = owner * n[k] + i;
    }
    for (int c = 0; c < components; ++c) a[c * grid.nodes() + node] = x[(long long)c * grid.ncells() + owner];
}

// Owners of `a` (components, *padded) += their ghosts, in the C order of the ghosts; the ghosts stay as they are.
extern "C" __global__ void __launch_bounds__(256)
    add_periodic(double* a, long long components, long long shell, int nx, int ny, int nz) {
    const long long item = blockIdx.x * 256LL + threadIdx.x;
    if (item >= components * shell) return;
    const Grid grid = {nx, ny, nz};
    const int n[3] = {nx, ny, nz};
    Shell owners = {{nx, ny, nz}, {0, 0, 0}};
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) owners.layers[k] = min(n[k], 2 * GHOSTS);
    int i[3], low[3] = {0, 0, 0}, high[3] = {0, 0, 0};  // the node, and its outermost images along each dimension
    owners.node(item % shell, i);
#pragma unroll
    for (int k = 3 - DIM; k < 3; ++k) {
        low[k] = i[k] - (i[k] + GHOSTS) / n[k] * n[k];
        high[k] = i[k] + (n[k] - 1 + GHOSTS - i[k]) / n[k] * n[k];
    }
    double* component = a + item / shell * grid.nodes();
    const long long owner = index_of(grid, i);
    double sum = component[owner];
    int at[3];
    for (at[0] = low[0]; at[0] <= high[0]; at[0] += n[0])
        for (at[1] = low[1]; at[1] <= high[1]; at[1] += n[1])
            for (at[2] = low[2]; at[2] <= high[2]; at[2] += n[2])
                if (index_of(grid, at) != owner) sum += component[index_of(grid, at)];
    component[owner] = sum;
}

// The GHOSTS layers from `first` on along an axis: nodes before it, times layers, times `inner` nodes after it.
struct Face {
    long long extent, inner, size;  // nodes of the array along the axis, nodes after it, nodes of a face

    INLINE long long node(long long t, int first) const {
        const long long layers = GHOSTS * inner;
        return (t / layers * extent + first) * inner + t % layers;
    }
};

// low, high (components, size) = the faces of `a` (components, nodes) whose layers begin at first_low and first_high; here
// and below either may be null.
extern "C" __global__ void __launch_bounds__(256)
    pack_faces(const double* a, double* low, double* high, long long components, long long nodes, long long extent,
               long long inner, long long size, int first_low, int first_high) {
    const long long item = blockIdx.x * 256LL + threadIdx.x, c = item / size, t = item % size;
    if (item >= components * size) return;
    const Face face = {extent, inner, size};
    if (low) low[item] = a[c * nodes + face.node(t, first_low)];
    if (high) high[item] = a[c * nodes + face.node(t, first_high)];
}

// The inverse: the faces of `a` = low, high.
extern "C" __global__ void __launch_bounds__(256)
    unpack_faces(double* a, const double* low, const double* high, long long components, long long nodes, long long extent,
                 long long inner, long long size, int first_low, int first_high) {
    const long long item = blockIdx.x * 256LL + threadIdx.x, c = item / size, t = item % size;
    if (item >= components * size) return;
    const Face face = {extent, inner, size};
    if (low) a[c * nodes + face.node(t, first_low)] = low[item];
    if (high) a[c * nodes + face.node(t, first_high)] = high[item];
}

// The faces of `a` += low, high. One of them a launch: in a thin block a layer belongs to both.
extern "C" __global__ void __launch_bounds__(256)
    add_faces(double* a, const double* low, const double* high, long long components, long long nodes, long long extent,
              long long inner, long long size, int first_low, int first_high) {
    const long long item = blockIdx.x * 256LL + threadIdx.x, c = item / size, t = item % size;
    if (item >= components * size) return;
    const Face face = {extent, inner, size};
    if (low) a[c * nodes + face.node(t, first_low)] += low[item];
    if (high) a[c * nodes + face.node(t, first_high)] += high[item];
}
