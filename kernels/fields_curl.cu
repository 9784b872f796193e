// Curl and mean between nodes and centres, at the owned points of a block.
//
// variants: DIM=1,2,3 ORDER=1,2 TO_NODES=0,1
//
// One thread owns one point and reads the 2^DIM points of the other lattice around it: ∂_μ is the difference along μ
// averaged over the other dimensions (Lapenta 2017, eqs. 20 to 24).
#include "cell.cuh"

constexpr int CORNERS = 1 << DIM;

// Padded index of the corner with the lowest coordinates around owned point number `point`.
INLINE long long lowest(const Grid& grid, int point) {
    return grid.first_node(point) +
           (ORDER - 1 - TO_NODES) * (1 + (DIM > 1 ? grid.stride_y() : 0) + (DIM > 2 ? grid.stride_x() : 0));
}

// Step from the lowest corner to corner u; bit DIM - 1 - k of u: the high side along active dimension k.
INLINE long long corner(const Grid& grid, int u) {
    return (u & 1) + (DIM > 1 ? (u >> 1 & 1) * grid.stride_y() : 0) + (DIM > 2 ? (u >> 2 & 1) * grid.stride_x() : 0);
}

// out (3, *cells) = ∇× a, a (3, *padded) with valid ghosts; r0 … r2 = 2^(1 - DIM)/Δ along the active dimensions.
extern "C" __global__ void __launch_bounds__(128)
    curl(const double* __restrict__ a, double* __restrict__ out, int nx, int ny, int nz, double r0, double r1, double r2) {
    const Grid grid = {nx, ny, nz};
    const int point = blockIdx.x * 128 + threadIdx.x;
    if (point >= grid.ncells()) return;
    const long long base = lowest(grid, point);
    const double r[3] = {r0, r1, r2};
    double along[3][3] = {};  // ∂_μ a_i
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
        for (int u = 0; u < CORNERS; ++u) {
            const double value = a[i * grid.nodes() + base + corner(grid, u)];
#pragma unroll
            for (int mu = 0; mu < DIM; ++mu) along[mu][i] += u >> (DIM - 1 - mu) & 1 ? value : -value;
        }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        out[(long long)i * grid.ncells() + point] = r[j] * along[j][k] - r[k] * along[k][j];
    }
}

// out (components, *cells) = mean of the surrounding points of a (components, *padded); blockIdx.y: component.
extern "C" __global__ void __launch_bounds__(128)
    mean(const double* __restrict__ a, double* __restrict__ out, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const int point = blockIdx.x * 128 + threadIdx.x;
    if (point >= grid.ncells()) return;
    const double* from = a + blockIdx.y * grid.nodes() + lowest(grid, point);
    double sum = 0.0;
#pragma unroll
    for (int u = 0; u < CORNERS; ++u) sum += from[corner(grid, u)];
    out[(long long)blockIdx.y * grid.ncells() + point] = sum / CORNERS;
}
