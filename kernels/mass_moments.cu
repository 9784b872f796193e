// From the D of cells to the moments at nodes: one writer a number, cells in a fixed order.
//
// variants: DIM=1,2,3 ORDER=1,2
//
// A block owns a tile of nodes and one moment.
//   1  thread -> cell of the tile and its halo: powers to the sums of W over the cell's nodes, left in shared memory
//   2  thread -> node: sum over the cells that reach it
#define POS double
#define GATHER double
#define REAL double
#define COLUMNS 0
#include "cell_matrix.cuh"

constexpr int TX = DIM > 2 ? 4 : 1, TY = DIM > 1 ? 4 : 1, TZ = ORDER == 1 ? 16 : 8, THREADS = 128;
constexpr int CY = TY + Y_REACH, CZ = TZ + Z_REACH, CELLS = (TX + X_REACH) * CY * CZ, TILE = CELLS | 1;

// Of a launch: threads, bytes of shared memory, nodes of a block in x, y and z.
extern "C" {
__constant__ int launch_sizes[8] = {THREADS, NODES * TILE * (int)sizeof(double), TX, TY, TZ};
}

// In place: powers of t, `apart` from each other, to sums of phi over the support nodes.
__device__ __forceinline__ void line_step(double* m, int apart) {
    double sum[SUPPORT];
#pragma unroll
    for (int a = 0; a < SUPPORT; ++a) {
        sum[a] = shape_power(a, 0) * m[0];
#pragma unroll
        for (int k = 1; k < SUPPORT; ++k) sum[a] = fma(shape_power(a, k), m[k * apart], sum[a]);
    }
#pragma unroll
    for (int a = 0; a < SUPPORT; ++a) m[a * apart] = sum[a];
}

// m[NODES]: a moment's sums of W over the nodes of one cell, C order.
__device__ __forceinline__ void node_sums(const double* cell, int moment, double m[NODES]) {
    constexpr int LINES = NODES / SUPPORT;
#pragma unroll
    for (int i = 0; i < X_SUPPORT; ++i) {
        double value[MOMENT_YZ + 1];
#pragma unroll
        for (int n = 0; n < MOMENT_YZ; n += 2) {
            const double2 two = *(const double2*)(cell + moment_place(moment, i, n));
            value[n] = two.x, value[n + 1] = two.y;
        }
        if (ORDER == 2) value[MOMENT_YZ] = cell[moment_place(moment, i, MOMENT_YZ)];
#pragma unroll
        for (int n = 0; n < NODES / X_SUPPORT; ++n) m[i * (NODES / X_SUPPORT) + n] = value[yz_number(n / SUPPORT, n % SUPPORT)];
    }
#pragma unroll
    for (int k = 0, apart = 1; k < DIM; ++k, apart *= SUPPORT)
#pragma unroll
        for (int line = 0; line < LINES; ++line) line_step(m + line / apart * (apart * SUPPORT) + line % apart, apart);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    expand_moments(const double* __restrict__ D, double* __restrict__ moments, int nx, int ny, int nz) {
    extern __shared__ __align__(16) char memory[];
    double* sums = (double*)memory;  // [node of the cell][cell]
    const Grid grid = {nx, ny, nz};
    const int tiles_z = (nz + Z_REACH + TZ - 1) / TZ, tiles_y = (ny + Y_REACH + TY - 1) / TY, tile = blockIdx.x / 4;
    const int moment = blockIdx.x % 4, z0 = tile % tiles_z * TZ, y0 = tile / tiles_z % tiles_y * TY;
    const int x0 = tile / (tiles_z * tiles_y) * TX;

    for (int item = threadIdx.x; item < CELLS; item += THREADS) {
        const int x = x0 + item / (CY * CZ) - X_REACH, y = y0 + item / CZ % CY - Y_REACH, z = z0 + item % CZ - Z_REACH;
        double m[NODES] = {};
        if (x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz)
            node_sums(D + (long long)((x * ny + y) * nz + z) * CELL_SIZE, moment, m);
#pragma unroll
        for (int a = 0; a < NODES; ++a) sums[a * TILE + item] = m[a];
    }
    __syncthreads();
    for (int item = threadIdx.x; item < TX * TY * TZ; item += THREADS) {
        const int tx = item / (TY * TZ), ty = item / TZ % TY, tz = item % TZ, x = x0 + tx, y = y0 + ty, z = z0 + tz;
        if (x >= nx + X_REACH || y >= ny + Y_REACH || z >= nz + Z_REACH) continue;
        double sum = 0.0;
#pragma unroll
        for (int a = 0; a < NODES; ++a) {
            const int ax = X_REACH - a / (NODES / X_SUPPORT), ay = Y_REACH - a / SUPPORT % (Y_REACH + 1),
                      az = Z_REACH - a % SUPPORT;
            sum += sums[a * TILE + ((tx + ax) * CY + ty + ay) * CZ + tz + az];
        }
        moments[moment * grid.nodes() + grid.first_node(x, y, z)] += sum;
    }
}
