// Product of the stored stencil with a vector, alone or as part of the field operator.
//
// variants: DIM=1,2,3 ORDER=1,2 FORM=0,1 SHELL=0
// variants: DIM=1,2,3 ORDER=1,2 FORM=2 SHELL=0,1
//
// FORM 0: scalar matrix, out_k = M x_k.  FORM 1: 3×3 matrix, out = M x.  FORM 2: out = x + κ ∇×∇×x + μ M x, the left side
// of the field equation with κ = (θΔt)², μ = θΔt (Lapenta 2017, eq. 33).
//
// One thread owns one node g: for each neighbour g + s it reads values[|s|][c][min(g, g + s)], which has one number for all
// pairs of nodes across the same box. Threads walk over the padded array from the first owned node to the last, so that a
// warp's reads are contiguous; those on ghosts idle. Memory sends each number once; that it goes to several nodes is up to the
// caches, and of these the L2 is the narrow one. So neighbours of the same |s| come together, and those that differ in the
// sign along z, which find the same lines in the L1 cache, next to each other.
//
// SHELL 0: the nodes of a box, which may be all. SHELL 1: all others, in one launch; the box is in the middle of the block.
#include "shell.cuh"

constexpr int OFFSETS = power(SUPPORT, DIM);
// Threads of a block, known to ecsim.backend.cuda.fields too. In 3D as many as several rows of nodes: these share a L1 cache.
constexpr int THREADS = DIM < 3 ? 128 : ORDER == 1 ? 448 : 512;
constexpr int BLOCKS = (ORDER == 1 ? 896 : 512) / THREADS;  // on a multiprocessor, for which there are registers
constexpr int COMPONENTS = FORM == 0 ? 1 : 9;

// κ times the blocks of ∇×∇× between a node and its neighbour at offset d: component i couples to itself by
// same[i][4|d_0| + 2|d_1| + |d_2|], and the components i < j to each other by sign(d_i d_j) mixed[i + j - 1][|d_k|] with k
// the third one, zero unless d_i d_j ≠ 0.
struct CurlCurl {
    double same[3][8];
    double mixed[3][2];
};

// A box of owned nodes, low <= index < high along each axis (0 and 1 along those there are not), and where its first one lies
// in padded arrays.
struct Box {
    int low[3], high[3];
    long long first;
};

// Place of the node of thread number t in padded arrays, and its number among the owned ones; -1 if it has none.
INLINE int node_of(const Grid& grid, const Box& box, long long t, long long& g) {
    int i[3];
    bool within = true;
    if constexpr (SHELL == 1) {
        const Shell shell = {{grid.nx, grid.ny, grid.nz}, {2 * box.low[0], 2 * box.low[1], 2 * box.low[2]}};
        long long size = 0;
        for (int axis = 3 - DIM; axis < 3; ++axis) size += shell.slab(axis);
        if (t >= size) return -1;
        shell.node(t, i);
        g = index_of(grid, i);
    } else {
        g = box.first + t;
        within = g < grid.nodes();
        const unsigned sy = grid.stride_y(), sx = grid.stride_x(), place = g;
        i[0] = DIM > 2 ? (int)(place / sx) - GHOSTS : 0;
        i[1] = DIM > 1 ? (int)(place % sx / sy) - GHOSTS : 0;
        i[2] = (int)(place % sy) - GHOSTS;
#pragma unroll
        for (int k = 3 - DIM; k < 3; ++k) within = within && i[k] >= box.low[k] && i[k] < box.high[k];
    }
    return within ? (i[0] * grid.ny + i[1]) * grid.nz + i[2] : -1;
}

INLINE int magnitude(int a) { return a < 0 ? -a : a; }

// y += κ (block of ∇×∇× at offset d) x; after inlining every index and sign is a constant.
INLINE void add_curl_curl(const CurlCurl& c, const int d[3], const double x[3], double y[3]) {
    const int corner = 4 * magnitude(d[0]) + 2 * magnitude(d[1]) + magnitude(d[2]);
#pragma unroll
    for (int i = 0; i < 3; ++i) y[i] = fma(c.same[i][corner], x[i], y[i]);
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
        for (int j = i + 1; j < 3; ++j) {
            if (d[i] * d[j] == 0) continue;
            const double block = c.mixed[i + j - 1][magnitude(d[3 - i - j])];
            y[i] = fma(d[i] * d[j] > 0 ? block : -block, x[j], y[i]);
            y[j] = fma(d[i] * d[j] > 0 ? block : -block, x[i], y[j]);
        }
}

// The same pointer, of which the compiler does not know where it comes from: it would keep hundreds of them in registers.
INLINE const double* opaque(const double* p) {
#ifdef __CUDACC__
    asm("" : "+l"(p));
#endif
    return p;
}

// y += M x, M the entries at `m`, one every `pitch`.
INLINE void add_entries(const double* m, long long pitch, const double* x, double* y) {
    if (FORM == 0) {
        y[0] = fma(m[0], x[0], y[0]);
    } else {
#pragma unroll
        for (int i = 0; i < 3; ++i)
#pragma unroll
            for (int j = 0; j < 3; ++j) y[i] = fma(m[(3 * i + j) * pitch], x[j], y[i]);
    }
}

// values (offsets, COMPONENTS, *padded), x (components, *padded), out (components, *cells); blockIdx.y: vector k of FORM 0.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    matvec(const double* __restrict__ values, const double* __restrict__ x, double* __restrict__ out, int nx, int ny, int nz,
           double mu, const CurlCurl curls, const Box box) {
    const Grid grid = {nx, ny, nz};
    const int sy = (int)grid.stride_y(), sx = (int)grid.stride_x();
    const long long nodes = grid.nodes();
    long long g;
    const int owned = node_of(grid, box, blockIdx.x * (long long)THREADS + threadIdx.x, g);
    if (owned < 0) return;
    constexpr int rows = FORM == 0 ? 1 : 3;
    if (FORM == 0) {
        x += blockIdx.y * nodes;
        out += (long long)blockIdx.y * grid.ncells();
    }
    double response[rows] = {}, curl[3] = {}, here[rows], ahead[rows], behind[rows];
    auto vector = [&](long long node, double* value) {
#pragma unroll
        for (int i = 0; i < rows; ++i) value[i] = opaque(x + node)[i * nodes];
    };
    vector(g, here);
    add_entries(values + g, nodes, here, response);
    if constexpr (FORM == 2) {
        const int d[3] = {0, 0, 0};
        add_curl_curl(curls, d, here, curl);
    }

#pragma unroll
    for (int o = 1; o < OFFSETS; ++o) {
        const int oz = o % SUPPORT, oy = DIM > 1 ? o / SUPPORT % SUPPORT : 0, ox = DIM > 2 ? o / (SUPPORT * SUPPORT) : 0;
#pragma unroll
        for (int signs = 0; signs < 4; ++signs) {  // of the steps of which the first that is not 0 is positive
            const bool first_y = ox == 0, first_z = first_y && oy == 0;
            if ((signs / 2 && (first_y || oy == 0)) || (signs % 2 && (first_z || oz == 0))) continue;
            const int dx = ox, dy = signs / 2 ? -oy : oy, dz = signs % 2 ? -oz : oz;
            const int step = dx * sx + dy * sy + dz, down = (signs / 2 ? dy * sy : 0) + (signs % 2 ? dz : 0);
            const double* m = values + (long long)o * COMPONENTS * nodes + g + down;  // at the lowest corner of g and g + step
            vector(g + step, ahead);
            vector(g - step, behind);
            add_entries(opaque(m), nodes, ahead, response);
            add_entries(opaque(m - step), nodes, behind, response);
            if constexpr (FORM == 2) {
                if (ox < 2 && oy < 2 && oz < 2) {
                    const int d[3] = {DIM == 3 ? dx : DIM == 2 ? dy : dz, DIM == 3 ? dy : DIM == 2 ? dz : 0, DIM == 3 ? dz : 0};
                    double both[3];
#pragma unroll
                    for (int i = 0; i < 3; ++i) both[i] = ahead[i] + behind[i];
                    add_curl_curl(curls, d, both, curl);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i)
        out[(long long)i * grid.ncells() + owned] = FORM == 2 ? here[i] + fma(mu, response[i], curl[i]) : response[i];
}
