// From the D of cells to the moments at nodes: one writer a number, cells in a fixed order.
//
// variants: DIM=1,2,3 ORDER=1,2
#define POS double
#define GATHER double
#define REAL double
#define COLUMNS 0
#include "cell_matrix.cuh"

// moments[m] at the nodes: thread -> (node, moment), the cells around the node in C order.
extern "C" __global__ void __launch_bounds__(256)
    expand_moments(const double* __restrict__ D, double* __restrict__ moments, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const long long item = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const int wz = nz + Z_REACH, wy = ny + Y_REACH, m = item % 4;
    const int z = item / 4 % wz, y = item / (4 * wz) % wy, x = item / (4LL * wz * wy);
    if (x >= nx + X_REACH) return;
    double sum = 0.0;
#pragma unroll
    for (int a = X_REACH; a >= 0; --a)
#pragma unroll
        for (int b = Y_REACH; b >= 0; --b)
#pragma unroll
            for (int c = Z_REACH; c >= 0; --c) {
                const int ix = x - a, iy = y - b, iz = z - c;
                if (ix < 0 || ix >= nx || iy < 0 || iy >= ny || iz < 0 || iz >= nz) continue;
                const double* cell = D + (long long)((ix * ny + iy) * nz + iz) * CELL_SIZE;
#pragma unroll
                for (int i = 0; i <= X_REACH; ++i) {
                    double value[MOMENT_YZ + 1];
#pragma unroll
                    for (int n = 0; n < MOMENT_YZ; n += 2) {
                        const double2 two = *(const double2*)(cell + moment_place(m, i, n));
                        value[n] = two.x, value[n + 1] = two.y;
                    }
                    if (ORDER == 2) value[MOMENT_YZ] = cell[moment_place(m, i, MOMENT_YZ)];
#pragma unroll
                    for (int j = 0; j <= Y_REACH; ++j)
#pragma unroll
                        for (int k = 0; k <= Z_REACH; ++k) {
                            const double along_x = DIM > 2 ? shape_power(a, i) : 1.0;
                            const double along_y = DIM > 1 ? shape_power(b, j) : 1.0;
                            sum += along_x * along_y * shape_power(c, k) * value[yz_number(j, k)];
                        }
                }
            }
    moments[m * grid.nodes() + grid.first_node(x, y, z)] += sum;
}
