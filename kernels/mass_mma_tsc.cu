// The published form for TSC: node pairs of a support group as 16 x 16 x 8 products on TF32 tensor cores
// (Pennati & Markidis 2026, arXiv 2604.19286, Algorithm 1). Kept to be measured against.
//
// variants: DIM=1,2,3 ORDER=2 POS=float,double GATHER=float,double COLUMNS=0,1,9
//
// A support group is a run of particles that share their nodes: those of one half (quarter, octant) of a cell where
// particles are sorted by cell, all of a support cell where they are sorted by nearest node. A block owns one group. Its
// 27 nodes are padded to 32: tiles (rows 0-15, columns 0-15), (0-15, 16-31), (16-31, 16-31); the fourth is left out by
// symmetry, each tile being two 16 x 8 products. Every warp stages 32 particles; then each multiplies all of them for its
// three components, batches of 8 padded with zeros. The moments stay in FP64: lane -> node.
#define REAL double
#include "stencil.cuh"
#include "tensor_core.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr int WARPS = COMPONENTS == 9 ? 3 : 1, EACH = COMPONENTS / WARPS, PITCH = 40, TILES = 6;

struct __align__(16) Stage {  // of one warp
    float W[32 * PITCH], S[COMPONENTS * PITCH];
    double weights[PLASMA ? NODES * 33 : 1], m[PLASMA ? 4 * 33 : 1];
};

struct __align__(16) Shared {
    Stage stage[WARPS];
    GATHER coef[PLASMA ? 3 * NODES : 1];
    double scratch[PLASMA ? 3 * NODES : 1];
};

// Of a launch: threads and groups of a block, bytes of shared memory.
extern "C" {
__constant__ int launch_sizes[8] = {32 * WARPS, 1, (int)sizeof(Shared)};
}

// first[r], count[r], cell[r]: particles of support group r and its support cell; cell = null: r itself.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    mass_mma_tsc(const POS* s, const double* values, const double* w, long long pitch, const long long* first, const int* count,
                 const int* cell, int nx, int ny, int nz, const double* B, double beta, double mass, double moment,
                 double* stencil, double* moments) {
    extern __shared__ __align__(16) char memory[];
    Shared& shared = *(Shared*)memory;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q2 = lane % 4 * 2, group = blockIdx.x;
    const Grid grid = {nx, ny, nz};
    const Particles particles = {s, values, w, pitch};
    const int n = count[group], of = cell ? cell[group] : group;
    if (n == 0) return;
    if (PLASMA && warp == 0) {
        NodalField<32> field;
        field.load(B, grid, of, lane);
        field.polynomials(beta, shared.scratch, shared.coef, lane, ALL);
    }
    __syncthreads();

    Stage& own = shared.stage[warp];
    for (int k = lane; k < (32 - NODES) * PITCH; k += 32) own.W[NODES * PITCH + k] = 0.0f;
    float sum[EACH][TILES][4];
#pragma unroll
    for (int k = 0; k < EACH * TILES * 4; ++k) sum[k / (4 * TILES)][k / 4 % TILES][k % 4] = 0.0f;
    double sum_moments[4] = {0.0, 0.0, 0.0, 0.0};

    for (int base = 0; base < n; base += 32 * WARPS) {
        const int mine = base + 32 * warp + lane;
        Stored p;
        load(particles, first[group] + mine, mine < n, p);
        double S[COMPONENTS], m[4], W[NODES];
        columns(p, shared.coef, S, m);
        node_weights(p, W);
#pragma unroll
        for (int a = 0; a < NODES; ++a) {
            own.W[a * PITCH + lane] = rounded((float)W[a]);
            if (PLASMA) own.weights[PLASMA ? a * 33 + lane : 0] = W[a];
        }
#pragma unroll
        for (int c = 0; c < COMPONENTS; ++c) own.S[c * PITCH + lane] = (float)S[c];
#pragma unroll
        for (int k = 0; PLASMA && k < 4; ++k) own.m[PLASMA ? k * 33 + lane : 0] = m[k];
        __syncthreads();
        for (int batch = 0; batch < 32 * WARPS && base + batch < n; batch += 8) {
            const Stage& stage = shared.stage[batch / 32];
            const int at = batch % 32 + q2;
            float2 Wg[4];  // nodes g, g + 8, g + 16, g + 24
#pragma unroll
            for (int k = 0; k < 4; ++k) Wg[k] = *(const float2*)(stage.W + (g + 8 * k) * PITCH + at);
#pragma unroll
            for (int c = 0; c < EACH; ++c) {
                const float2 Sc = *(const float2*)(stage.S + (warp * EACH + c) * PITCH + at);
#pragma unroll
                for (int k = 0; k < 4; ++k) mma_16x8x8(sum[c][k], Sc * Wg[0], Sc * Wg[1], Wg[k]);
#pragma unroll
                for (int k = 2; k < 4; ++k) mma_16x8x8(sum[c][k + 2], Sc * Wg[2], Sc * Wg[3], Wg[k]);
            }
        }
        for (int k = 0; PLASMA && k < 32 && base + 32 * warp + k < n; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum_moments[i] += own.m[i * 33 + k] * own.weights[min(lane, NODES - 1) * 33 + k];
        __syncthreads();
    }

    const long long node0 = grid.first_node(of), nodes = grid.nodes();
    if (PLASMA && lane < NODES) {
#pragma unroll
        for (int i = 0; i < 4; ++i) atomicAdd(moments + i * nodes + node0 + grid.support_node(lane), moment * sum_moments[i]);
    }
#pragma unroll
    for (int k = 0; k < 4 * TILES; ++k) {
        const int tile = k / 4, i = k % 4;
        const int a = g + 8 * (i / 2) + (tile < 4 ? 0 : 16), b = q2 + i % 2 + 8 * (tile < 4 ? tile : tile - 2);
        if (!is_stored(a, b)) continue;
        double* to = stencil + ((b - a) * COMPONENTS + warp * EACH) * nodes + node0 + grid.support_node(a);
#pragma unroll
        for (int c = 0; c < EACH; ++c) atomicAdd(to + c * nodes, mass * sum[c][tile][i]);
    }
}
