// The published form for CIC: node pairs of a cell as 8 x 8 x 4 products on FP64 tensor cores, one warp a cell
// (Pennati & Markidis 2026, arXiv 2604.19286, Algorithm 1). Kept to be measured against.
//
// variants: DIM=1,2,3 ORDER=1 POS=float,double GATHER=float,double COLUMNS=0,1,9
//
// Per component c and four particles p:  M[a, b] += sum_p (W_a S_c)(p) W_b(p)   for the up to 8 nodes a, b of the cell;
// the moments are one more product with the rows w, J1, J2, J3. Chunks of 32 particles are staged in shared memory, one row
// a quantity; what a batch lacks of 4 particles counts as 0. Sums end in the stencil with atomics.
#define REAL double
#include "stencil.cuh"
#include "tensor_core.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr int WARPS = 4, PITCH = 40;
enum Row { W_ROW = 0, S_ROW = 8, M_ROW = S_ROW + COMPONENTS, ROWS = M_ROW + 8 };

struct __align__(16) Shared {
    double rows[ROWS * PITCH];
    GATHER coef[PLASMA ? 3 * NODES + NODES % 2 : 2];
};

// Of a launch: threads and cells of a block, bytes of shared memory.
extern "C" {
__constant__ int launch_sizes[8] = {32 * WARPS, WARPS, WARPS * (int)sizeof(Shared)};
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    mass_mma(const POS* s, const double* values, const double* w, long long pitch, const long long* first, const int* count,
             int nx, int ny, int nz, const double* B, double beta, double mass, double moment, double* stencil,
             double* moments) {
    extern __shared__ __align__(16) char memory[];
    const int lane = threadIdx.x % 32, g = lane / 4, q2 = lane % 4 * 2, cell = blockIdx.x * WARPS + threadIdx.x / 32;
    const Grid grid = {nx, ny, nz};
    if (cell >= grid.ncells()) return;
    Shared& shared = ((Shared*)memory)[threadIdx.x / 32];
    const Particles particles = {s, values, w, pitch};
    NodalField<32> field;
    if (PLASMA) field.load(B, grid, cell, lane);
    const long long begin = first[cell];
    const int n = count[cell];
    Stored next;
    load(particles, begin + lane, lane < n, next);
    if (PLASMA) field.polynomials(beta, shared.rows, shared.coef, lane, ALL);

    double sum[COMPONENTS][2], sum_moments[2] = {0.0, 0.0};
#pragma unroll
    for (int c = 0; c < COMPONENTS; ++c) sum[c][0] = sum[c][1] = 0.0;
    for (int base = 0; base < n; base += 32) {
        const Stored p = next;
        load(particles, begin + base + 32 + lane, base + 32 + lane < n, next);
        double S[COMPONENTS], m[4], W[NODES];
        columns(p, shared.coef, S, m);
        node_weights(p, W);
        double* to = shared.rows + lane;
#pragma unroll
        for (int a = 0; a < 8; ++a) to[(W_ROW + a) * PITCH] = a < NODES ? W[a < NODES ? a : 0] : 0.0;
#pragma unroll
        for (int c = 0; c < COMPONENTS; ++c) to[(S_ROW + c) * PITCH] = S[c];
#pragma unroll
        for (int k = 0; PLASMA && k < 4; ++k) to[(M_ROW + k) * PITCH] = m[k];
        __syncwarp();
#pragma unroll 2
        for (int k = 0; k < 32; k += 8) {
            if (base + k >= n) break;
            auto read = [&](int row) { return *(const double2*)(shared.rows + row * PITCH + k + q2); };
            const double2 Wg = read(W_ROW + g);
#pragma unroll
            for (int c = 0; c < COMPONENTS; ++c) {
                const double2 A = Wg * read(S_ROW + c);
                mma_8x8x4(sum[c], A.x, Wg.x);
                mma_8x8x4(sum[c], A.y, Wg.y);
            }
            if (PLASMA) {
                const double2 A = read(M_ROW + g);
                mma_8x8x4(sum_moments, A.x, Wg.x);
                mma_8x8x4(sum_moments, A.y, Wg.y);
            }
        }
        __syncwarp();
    }

    if (n == 0) return;
    const long long base = grid.first_node(cell), nodes = grid.nodes();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int a = g, b = q2 + i;
        if (PLASMA && a < 4 && b < NODES) atomicAdd(moments + a * nodes + base + grid.support_node(b), moment * sum_moments[i]);
        if (!is_stored(a, b)) continue;
        double* to = stencil + (b - a) * COMPONENTS * nodes + base + grid.support_node(a);
#pragma unroll
        for (int c = 0; c < COMPONENTS; ++c) atomicAdd(to + c * nodes, mass * sum[c][i]);
    }
}
