// Quantities that only an output asks for: ten velocity moments at the nodes, and the charge at the cell centres.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double WEIGHTS=0,1 IDS=0 CENTRES=0,1
//
// One warp owns one cell. Thirty-two particles at a time leave their shape values and quantities in shared memory; then
// lane -> outputs (node, quantity) lane, lane + 32, …, each summed over the particles in order. Cells whose supports
// overlap are never worked on by the same launch: a launch takes the cells of one colour, one out of SPAN along each
// dimension, and adds to the padded array without atomics. The colours follow each other, so the sums are deterministic.
#include "particles.cuh"

// Points reached along a dimension: the shape's nodes, or the centres that CIC spreads to around the support cell.
constexpr int SPAN = CENTRES ? 4 - ORDER : SUPPORT;
constexpr int POINTS = SPAN * (DIM > 1 ? SPAN : 1) * (DIM > 2 ? SPAN : 1);
constexpr int QUANTITIES = CENTRES ? 1 : 10;  // w; w v (3); w v v (xx xy xz yy yz zz)
constexpr int OUTPUTS = POINTS * QUANTITIES, ROUNDS = (OUTPUTS + 31) / 32;

struct Shared {
    double shape[POINTS][33];
    double quantity[QUANTITIES][33];
};

// Weights of the SPAN points along one dimension. Centres: CIC around x, which is s (ORDER 1: centres i-1, i, i+1) or
// s - 1/2 (ORDER 2: centres i-1, i) away from centre i.
__device__ inline void weights_along(double s, double* out) {
#pragma unroll
    for (int a = 0; a < SPAN; ++a) {
        if (!CENTRES)
            out[a] = shape(a, s);
        else if (ORDER == 1)
            out[a] = a == 0 ? fmax(0.0, -s) : a == 1 ? 1.0 - fabs(s) : fmax(0.0, s);
        else
            out[a] = a == 0 ? 0.5 - s : 0.5 + s;
    }
}

__device__ inline void quantities(const Particle& p, double q, double* out) {
    out[0] = q;
    if constexpr (!CENTRES) {
#pragma unroll
        for (int i = 0; i < 3; ++i) out[1 + i] = q * p.v[i];
#pragma unroll
        for (int i = 0, k = 4; i < 3; ++i)
#pragma unroll
            for (int j = i; j < 3; ++j) out[k++] = out[1 + i] * p.v[j];
    }
}

// out (QUANTITIES, *padded) += the particles of the cells cx + SPAN·i, cy + SPAN·j, cz + SPAN·k; scale = 1/V.
extern "C" __global__ void __launch_bounds__(64)
    deposit_colour(STORE_PARAMETERS, const long long* first, const int* count, double* out, int nx, int ny, int nz,
                   double uniform, double scale, int cx, int cy, int cz) {
    __shared__ Shared all[2];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const Grid grid = {nx, ny, nz};
    const int mx = (nx - cx + SPAN - 1) / SPAN, my = (ny - cy + SPAN - 1) / SPAN, mz = (nz - cz + SPAN - 1) / SPAN;
    const int number = blockIdx.x * 2 + warp;
    if (number >= mx * my * mz) return;
    const int ix = cx + SPAN * (number / (my * mz)), iy = cy + SPAN * (number / mz % my), iz = cz + SPAN * (number % mz);
    const int cell = (ix * ny + iy) * nz + iz;
    if (count[cell] == 0) return;
    const Store store = STORE;
    Shared& sh = all[warp];
    double sum[ROUNDS] = {};

    for (int done = 0; done < count[cell]; done += 32) {
        const int live = min(32, count[cell] - done);
        if (lane < live) {
            Particle p;
            load(store, (Slot)first[cell] + done + lane, p);
            double along[3][SPAN], q[QUANTITIES];
#pragma unroll
            for (int k = 0; k < DIM; ++k) weights_along(p.s[k], along[k]);
#pragma unroll
            for (int a = 0; a < POINTS; ++a) {
                double product = along[DIM - 1][a % SPAN];
                if (DIM > 1) product *= along[DIM > 1 ? DIM - 2 : 0][a / SPAN % SPAN];
                if (DIM > 2) product *= along[0][a / (SPAN * SPAN)];
                sh.shape[a][lane] = product;
            }
            quantities(p, charge_of(p, uniform), q);
#pragma unroll
            for (int k = 0; k < QUANTITIES; ++k) sh.quantity[k][lane] = q[k];
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROUNDS; ++r) {
            const int o = min(lane + 32 * r, OUTPUTS - 1);
            const double *a = sh.shape[o / QUANTITIES], *b = sh.quantity[o % QUANTITIES];
            for (int j = 0; j < live; ++j) sum[r] = fma(a[j], b[j], sum[r]);
        }
        __syncwarp();
    }
    // Centre i-1 for CENTRES with ORDER 1 is one before the first support node's index, else they are the same.
    const int shift = CENTRES && ORDER == 1 ? 1 : 0;
    const long long base =
        grid.first_node(ix, iy, iz) - shift * (1 + (DIM > 1 ? grid.stride_y() : 0) + (DIM > 2 ? grid.stride_x() : 0));
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
        const int o = lane + 32 * r, a = o / QUANTITIES;
        if (o >= OUTPUTS) continue;
        long long point = base + a % SPAN;
        if (DIM > 1) point += a / SPAN % SPAN * grid.stride_y();
        if (DIM > 2) point += a / (SPAN * SPAN) * grid.stride_x();
        out[o % QUANTITIES * grid.nodes() + point] += scale * sum[r];
    }
}
