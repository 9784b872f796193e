// From the D of cells to the stored stencil of the mass matrix: one writer a number, cells in a fixed order.
//
// variants: DIM=1,2,3 ORDER=1,2 COLUMNS=0,1,9 FRESH=0
// variants: DIM=1,2,3 ORDER=1,2 COLUMNS=0 FRESH=1
//
// A block owns a tile of TY x TZ nodes in y and z and marches along x, for CHUNK components. (A single component left over
// is done for CHUNK tiles, one above the other in y, instead.) Per plane of cells:
//   0  the next plane's D of tile and halo starts on its way to shared memory, asynchronously: sums[x power]
//   1  thread -> (lane, power of y), lane = (component, cell of the tile): x powers to x pairs, summed over the two (three)
//      planes of cells that a node plane touches, what later planes still need stays in registers (carry); then z powers to
//      z pairs
//   2  thread -> (lane, z pair): y powers to y pairs, in place
//   3  thread -> (node and component), for every SHARE-th offset: sum over the cells that hold both nodes
// Shared memory: sums[x power][y power][z power][lane], pairs[x offset][y power, then pair][z pair][lane].
// FRESH 0: adds to what is in the stencil. FRESH 1: sets it, at all nodes that particles reach.
// Blocks of the same tile run side by side, so that a memory line with several chunks is read once.
#define POS double
#define GATHER double
#define REAL double
#include "cell_matrix.cuh"

// The outermost nodes are one or two more than the cells: tiles of 17 nodes fit 16, 32, ... cells.
constexpr int TZ = ORDER == 1 ? 17 : 8, TY = DIM == 1 ? 1 : ORDER == 1 ? 3 : 4, BLOCKS = ORDER == 1 ? 1 : 2;
constexpr int CHUNK = ORDER == 1 && COMPONENTS == 9 ? 4 : 1, CHUNKS = (COMPONENTS + CHUNK - 1) / CHUNK;
constexpr int Y_POWERS = DIM > 1 ? POWERS : 1, Y_PAIRS = DIM > 1 ? PAIRS : 1;
constexpr int CY = TY + Y_REACH, CZ = TZ + Z_REACH, CELLS = CY * CZ, TILE = CELLS | 1;  // odd: no bank conflicts
constexpr int YZ_POWERS = Y_POWERS * POWERS, YZ_PAIRS = Y_PAIRS * PAIRS;
constexpr int LANES = CHUNK * TILE, ITEMS = YZ_POWERS * LANES, SHEET = YZ_PAIRS * LANES;
constexpr int THREADS = (LANES * Y_POWERS + 31) / 32 * 32;
constexpr int STRIDE = THREADS / (CHUNK * YZ_POWERS), FETCHES = (CELLS + STRIDE - 1) / STRIDE;  // cells fetched at a time
constexpr int CARRIES = X_REACH * (X_REACH + 1) / 2;
constexpr int OFFSETS = power(SUPPORT, DIM);
constexpr int SHARE = THREADS / (TY * TZ * CHUNK), OWN_OFFSETS = (OFFSETS + SHARE - 1) / SHARE;

// Of a launch: threads, bytes of shared memory, nodes of a block in y and z, components of a block, numbers of a cell's D.
extern "C" {
__constant__ int launch_sizes[8] = {THREADS,  (X_POWERS * ITEMS + (X_REACH + 1) * SHEET) * (int)sizeof(double), TY, TZ, CHUNK,
                                    CELL_SIZE};
}

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

#ifdef __CUDACC__
// Start to copy one number to shared memory, or 0 unless `valid`; wait until all copies of this thread are there.
__device__ __forceinline__ void copy_start(double* to, const double* from, bool valid) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(valid ? 8 : 0) : "memory");
}
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
inline void copy_start(double* to, const double* from, bool valid) { *to = valid ? *from : 0.0; }
inline void copies_wait() {}
#endif

// Sum over the cells that hold a node and the one `offset` further on; `at` is the cell whose last node the first is.
__device__ __forceinline__ double cells_sum(const double* at, int offset) {
    const int oz = offset % SUPPORT, oy = DIM > 1 ? offset / SUPPORT % SUPPORT : 0,
              ox = DIM > 2 ? offset / (SUPPORT * SUPPORT) : 0;
    double sum = 0.0;
#pragma unroll
    for (int j = 0; j <= Y_REACH; ++j)  // j, k: cells from there; a, b: local numbers of the two nodes in such a cell
#pragma unroll
        for (int k = 0; k <= Z_REACH; ++k) {
            const int ay = Y_REACH - j, by = ay + oy, az = Z_REACH - k, bz = az + oz;
            if (by > Y_REACH || bz > Z_REACH) continue;
            const int pair = pair_index(ay, by) * PAIRS + pair_index(az, bz);
            sum += at[ox * SHEET + pair * LANES + j * CZ + k];
        }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    expand_stencil(const double* __restrict__ D, double* __restrict__ values, int nx, int ny, int nz, int planes) {
    extern __shared__ __align__(16) char memory[];
    double *sums = (double*)memory, *pairs = sums + X_POWERS * ITEMS;
    const Grid grid = {nx, ny, nz};
    const int tiles_z = (nz + Z_REACH + TZ - 1) / TZ, tile = blockIdx.x / CHUNKS, tile_y = tile / tiles_z;
    const int x0 = blockIdx.y * planes, x1 = min(x0 + planes, nx + X_REACH);  // node planes of the block
    const int c0 = blockIdx.x % CHUNKS * CHUNK, z0 = tile % tiles_z * TZ;
    const bool single = c0 + CHUNK > COMPONENTS;
    auto component = [=](int c) { return single ? c0 : c0 + c; };
    auto first_y = [=](int c) { return (single ? tile_y * CHUNK + c : tile_y) * TY; };  // first node of the tile
    if (first_y(0) >= ny + Y_REACH) return;
    const long long nodes = grid.nodes(), apart = nodes * COMPONENTS * SHARE;

    // Step 0: this thread's component and yz powers, for every STRIDE-th cell; its place in D of plane 0, -1: outside.
    const int c1 = threadIdx.x % CHUNK, n1 = threadIdx.x / CHUNK % YZ_POWERS, first = threadIdx.x / (CHUNK * YZ_POWERS);
    const int number = yz_number(n1 / POWERS, n1 % POWERS), place = mass_place(component(c1), 0, number);
    const int step = mass_place(component(c1), 1, number) - place;
    int source[FETCHES];
#pragma unroll
    for (int r = 0; r < FETCHES; ++r) {
        const int cell = first + r * STRIDE, y = first_y(c1) + cell / CZ - Y_REACH, z = z0 + cell % CZ - Z_REACH;
        source[r] = y >= 0 && y < ny && z >= 0 && z < nz ? (y * nz + z) * CELL_SIZE + place : -1;
    }
    auto fetch = [&](int x) {
        if (first >= STRIDE) return;
        double* to = sums + n1 * LANES + c1 * TILE;
#pragma unroll
        for (int r = 0; r < FETCHES; ++r) {
            const int cell = first + r * STRIDE;
            const bool inside = x < nx && source[r] >= 0;
            const double* from = D + (inside ? (long long)x * ny * nz * CELL_SIZE + source[r] : 0);
            if (cell >= CELLS) break;
#pragma unroll
            for (int i = 0; i < X_POWERS; ++i) copy_start(to + i * ITEMS + cell, from + (inside ? i * step : 0), inside);
        }
    };
    // Steps 1 and 2: a lane of shared memory, and a power of y, then pairs of z.
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const bool works = group < Y_POWERS;
    double carry[POWERS][CARRIES + 1];
#pragma unroll
    for (int r = 0; r < POWERS * (CARRIES + 1); ++r) carry[r / (CARRIES + 1)][r % (CARRIES + 1)] = 0.0;
    // Step 3: one node and component, and the offsets share, share + SHARE, ...
    const int iz = threadIdx.x % TZ, iy = threadIdx.x / TZ % TY, c3 = threadIdx.x / (TZ * TY) % CHUNK;
    const int share = threadIdx.x / (TZ * TY * CHUNK), y3 = first_y(c3) + iy;
    const bool writes = y3 < ny + Y_REACH && z0 + iz < nz + Z_REACH && share < SHARE;
    const double* cells = pairs + c3 * TILE + iy * CZ + iz;

    // Node plane x is complete with cell plane x, both counted from 0 at the first cell's first node.
    const int begin = max(x0 - X_REACH, 0);
    fetch(begin);
    for (int x = begin; x < x1; ++x) {
        double* to = values + (share * COMPONENTS + component(c3)) * nodes + grid.first_node(x, y3, z0 + iz);
        double before[OWN_OFFSETS] = {};
        if (FRESH == 0 && x >= x0 && writes) {
#pragma unroll
            for (int k = 0; k < OWN_OFFSETS; ++k)
                if (share + k * SHARE < OFFSETS) before[k] = to[k * apart];
        }
        copies_wait();
        __syncthreads();
        if (works) {
            const double* from = sums + group * POWERS * LANES + lane;
            double done[POWERS][X_REACH + 1];
#pragma unroll
            for (int k = 0; k < POWERS; ++k) {
                double m[X_POWERS];
#pragma unroll
                for (int i = 0; i < X_POWERS; ++i) m[i] = from[i * ITEMS + k * LANES];
                x_step(m, carry[k], done[k]);
            }
#pragma unroll
            for (int o = 0; o <= X_REACH; ++o) {
                double m[POWERS], q[PAIRS];
#pragma unroll
                for (int k = 0; k < POWERS; ++k) m[k] = done[k][o];
                pair_products(m, q);
#pragma unroll
                for (int k = 0; k < PAIRS; ++k) pairs[o * SHEET + (group * PAIRS + k) * LANES + lane] = q[k];
            }
        }
        __syncthreads();
        if (x + 1 < x1) fetch(x + 1);
        if (x < x0) continue;
        if (DIM > 1) {
            for (int k = group; works && k < PAIRS; k += Y_POWERS)
#pragma unroll
                for (int o = 0; o <= X_REACH; ++o) {
                    double m[POWERS], q[PAIRS], *at = pairs + o * SHEET + k * LANES + lane;
#pragma unroll
                    for (int j = 0; j < POWERS; ++j) m[j] = at[j * PAIRS * LANES];
                    pair_products(m, q);
#pragma unroll
                    for (int j = 0; j < PAIRS; ++j) at[j * PAIRS * LANES] = q[j];
                }
            __syncthreads();
        }
        if (!writes) continue;
#pragma unroll
        for (int k = 0; k < OWN_OFFSETS; ++k) {
            double sum = 0.0;
#pragma unroll
            for (int s = 0; s < SHARE; ++s)  // so that the offset is known when this is compiled
                if (s == share && s + k * SHARE < OFFSETS) sum = cells_sum(cells, s + k * SHARE);
            if (share + k * SHARE < OFFSETS) to[k * apart] = before[k] + sum;
        }
    }
}
