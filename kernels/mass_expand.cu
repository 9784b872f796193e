// From the D of cells to the stored stencil and the moments at nodes: one writer a number, cells in a fixed order.
//
// variants: DIM=1,2,3 ORDER=1,2 COLUMNS=0,1,9
//
// A block owns a tile of TY x TZ nodes in y and z and marches along x, for CHUNK components. Per plane of cells:
//   1  thread -> (cell of tile and halo, yz powers, component): x powers to x pairs, summed over the two (three) planes
//      of cells that a node plane touches; what later planes still need stays in registers (carry)
//   2  thread -> (cell, component, x offset): y and z powers to products of node pairs
//   3  thread -> (offset, node, component): sum over the cells that hold both nodes
// Shared memory between the steps: powers[x offset][yz][component][cell], pairs[x offset][y pair][z pair][component][cell].
#define POS double
#define GATHER double
#define REAL double
#include "cell_matrix.cuh"

#if ORDER == 1
constexpr int TY = 4, TZ = 16, CHUNK = COMPONENTS == 9 ? 4 : 1;
#else
constexpr int TY = 4, TZ = 8, CHUNK = 1;
#endif
constexpr int THREADS = 384;
constexpr int X_REACH = DIM > 2 ? REACH : 0, Y_REACH = DIM > 1 ? REACH : 0, Z_REACH = REACH;
constexpr int Y_POWERS = DIM > 1 ? POWERS : 1, Y_PAIRS = DIM > 1 ? PAIRS : 1;
constexpr int CY = (DIM > 1 ? TY : 1) + Y_REACH, CZ = TZ + Z_REACH, TILE = (CY * CZ) | 1;  // odd: no bank conflicts
constexpr int YZ_POWERS = Y_POWERS * POWERS, YZ_PAIRS = Y_PAIRS * PAIRS;
constexpr int ITEMS = (CY * CZ * YZ_POWERS * CHUNK + THREADS - 1) / THREADS;
constexpr int CARRIES = X_REACH * (X_REACH + 1) / 2;
constexpr int SPAN = 2 * REACH + 1, OFFSETS = (power(SPAN, DIM) + 1) / 2;

// Contributions of one plane of cells to x pairs (node j, node j + offset), j counted from the cell's first node.
// done[offset]: sums of the node plane that is now complete; carry: those of later planes.
__device__ __forceinline__ void x_step(const double m[X_POWERS], double carry[CARRIES + 1], double done[X_REACH + 1]) {
    if constexpr (DIM == 3) {
        double q[PAIRS];
        pair_products(m, q);
        done[0] = carry[0] + q[0];
        if (ORDER == 1) {
            done[1] = q[1];
            carry[0] = q[2];
        } else {
            done[1] = carry[1] + q[1], done[X_REACH] = q[2];
            carry[0] = carry[CARRIES - 1] + q[3], carry[1] = q[PAIRS - 2], carry[CARRIES - 1] = q[PAIRS - 1];
        }
    } else {
        done[0] = m[0];
    }
}

// Sum of the pairs of nodes (0, step) along one dimension: number of cells, the first one, and its pair; then the next
// cell has the pair of nodes one further down. `cell` is counted from the cell whose last node is the first node.
struct Couples {
    int cells, cell, a;
    __device__ __forceinline__ Couples(int step, int reach) {
        cells = reach + 1 - abs(step);
        cell = step < 0 ? 0 : step;  // the lowest cell that reaches the upper node
        a = reach - cell;            // local number of the first node there
    }
};

// Of a launch: threads, bytes of shared memory, nodes of a block in y and z, components of a block, numbers of a cell's D.
extern "C" {
__constant__ int launch_sizes[8] = {
    THREADS, (X_REACH + 1) * (YZ_POWERS + YZ_PAIRS) * CHUNK * TILE * (int)sizeof(double), DIM > 1 ? TY : 1, TZ, CHUNK, CELL_SIZE};
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    expand_stencil(const double* __restrict__ D, double* __restrict__ values, int nx, int ny, int nz, int planes) {
    extern __shared__ __align__(16) char memory[];
    double* powers = (double*)memory;                                          // [X_REACH + 1][YZ_POWERS][CHUNK][TILE]
    double* pairs = powers + (X_REACH + 1) * YZ_POWERS * CHUNK * TILE;         // [X_REACH + 1][YZ_PAIRS][CHUNK][TILE]
    const Grid grid = {nx, ny, nz};
    const int tiles_z = (nz + Z_REACH + TZ - 1) / TZ;
    const int z0 = blockIdx.x % tiles_z * TZ, y0 = blockIdx.x / tiles_z * (DIM > 1 ? TY : 1);  // first node of the tile
    const int x0 = blockIdx.y * planes, x1 = min(x0 + planes, nx + X_REACH);                   // node planes of the block
    const int c0 = blockIdx.z * CHUNK, chunk = min(CHUNK, COMPONENTS - c0);
    const long long nodes = grid.nodes();

    double carry[ITEMS][CARRIES + 1];
#pragma unroll
    for (int r = 0; r < ITEMS; ++r)
#pragma unroll
        for (int k = 0; k <= CARRIES; ++k) carry[r][k] = 0.0;

    // Node plane x is complete with cell plane x; node i and cell i are here those whose first (node of a) cell is i.
    for (int x = max(x0 - X_REACH, 0); x < x1; ++x) {
#pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            const int item = threadIdx.x + r * THREADS;
            const int c = item % CHUNK, n = item / CHUNK % YZ_POWERS, tile = item / (CHUNK * YZ_POWERS);
            const int y = y0 + tile / CZ - Y_REACH, z = z0 + tile % CZ - Z_REACH;
            if (tile >= CY * CZ || c >= chunk) continue;
            const int number = yz_number(n / POWERS, n % POWERS);
            const bool inside = x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
            const double* cell = D + (long long)((x * ny + y) * nz + z) * CELL_SIZE;
            double m[X_POWERS], done[X_REACH + 1];
#pragma unroll
            for (int i = 0; i < X_POWERS; ++i) m[i] = inside ? cell[mass_place(c0 + c, i, number)] : 0.0;
            x_step(m, carry[r], done);
#pragma unroll
            for (int o = 0; o <= X_REACH; ++o) powers[((o * YZ_POWERS + n) * CHUNK + c) * TILE + tile] = done[o];
        }
        __syncthreads();
        if (x >= x0) {
            for (int item = threadIdx.x; item < CY * CZ * CHUNK * (X_REACH + 1); item += THREADS) {
                const int tile = item % (CY * CZ), c = item / (CY * CZ) % CHUNK, o = item / (CY * CZ * CHUNK);
                if (c >= chunk) continue;
                const double* from = powers + (o * YZ_POWERS * CHUNK + c) * TILE + tile;
                double* to = pairs + (o * YZ_PAIRS * CHUNK + c) * TILE + tile;
                double half[Y_POWERS][PAIRS];
#pragma unroll
                for (int j = 0; j < Y_POWERS; ++j) {
                    double m[POWERS];
#pragma unroll
                    for (int k = 0; k < POWERS; ++k) m[k] = from[(j * POWERS + k) * CHUNK * TILE];
                    pair_products(m, half[j]);
                }
#pragma unroll
                for (int k = 0; k < PAIRS; ++k) {
                    double m[POWERS], q[PAIRS];
#pragma unroll
                    for (int j = 0; j < Y_POWERS; ++j) m[j] = half[j][k];
                    if (DIM > 1) pair_products(m, q);
#pragma unroll
                    for (int j = 0; j < Y_PAIRS; ++j) to[(j * PAIRS + k) * CHUNK * TILE] = DIM > 1 ? q[j] : half[j][k];
                }
            }
            __syncthreads();
            for (int item = threadIdx.x; item < OFFSETS * chunk * (DIM > 1 ? TY : 1) * TZ; item += THREADS) {
                const int iz = item % TZ, iy = item / TZ % (DIM > 1 ? TY : 1), rest = item / (TZ * (DIM > 1 ? TY : 1));
                const int c = rest % chunk, offset = rest / chunk, full = offset + OFFSETS - 1;
                const int oz = full % SPAN - REACH, oy = DIM > 1 ? full / SPAN % SPAN - REACH : 0;
                const int ox = DIM > 2 ? full / (SPAN * SPAN) - REACH : 0;
                const int y = y0 + iy, z = z0 + iz;
                if (y >= ny + Y_REACH || z >= nz + Z_REACH) continue;
                double& value = values[(offset * COMPONENTS + c0 + c) * nodes + grid.first_node(x, y, z)];
                const double before = value;
                const Couples along_y(oy, Y_REACH), along_z(oz, Z_REACH);
                double sum = 0.0;
                for (int j = 0; j < along_y.cells; ++j)
                    for (int k = 0; k < along_z.cells; ++k) {
                        const int ay = along_y.a - j, az = along_z.a - k;
                        const int py = pair_index(min(ay, ay + oy), max(ay, ay + oy));
                        const int pz = pair_index(min(az, az + oz), max(az, az + oz));
                        const int tile = (iy + along_y.cell + j) * CZ + iz + along_z.cell + k;
                        sum += pairs[(((ox * YZ_PAIRS + py * PAIRS + pz) * CHUNK) + c) * TILE + tile];
                    }
                value = before + sum;
            }
        }
        __syncthreads();
    }
}

// moments[m] at the nodes: thread -> (node, moment), the cells around the node in C order.
extern "C" __global__ void __launch_bounds__(256) expand_moments(const double* __restrict__ D, double* __restrict__ moments, int nx, int ny, int nz) {
    const Grid grid = {nx, ny, nz};
    const long long item = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const int wz = nz + Z_REACH, wy = ny + Y_REACH, m = item / wz % 4;
    const int z = item % wz, y = item / (4LL * wz) % wy, x = item / (4LL * wz * wy);
    if (x >= nx + X_REACH) return;
    double sum = 0.0;
    for (int a = X_REACH; a >= 0; --a)
        for (int b = Y_REACH; b >= 0; --b)
            for (int c = Z_REACH; c >= 0; --c) {
                const int ix = x - a, iy = y - b, iz = z - c;
                if (ix < 0 || ix >= nx || iy < 0 || iy >= ny || iz < 0 || iz >= nz) continue;
                const double* cell = D + (long long)((ix * ny + iy) * nz + iz) * CELL_SIZE;
                for (int i = 0; i <= X_REACH; ++i)
                    for (int j = 0; j <= Y_REACH; ++j)
                        for (int k = 0; k <= Z_REACH; ++k) {
                            const double along_x = DIM > 2 ? shape_power(a, i) : 1.0;
                            const double along_y = DIM > 1 ? shape_power(b, j) : 1.0;
                            sum += along_x * along_y * shape_power(c, k) * cell[moment_place(m, i, yz_number(j, k))];
                        }
            }
    moments[m * grid.nodes() + grid.first_node(x, y, z)] += sum;
}
