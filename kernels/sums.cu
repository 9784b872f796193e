// Sums over all particles of a species, and column sums in a fixed order.
//
// variants: DIM=1 POS=float WEIGHTS=0,1 IDS=0
#define ORDER 1
#include "particles.cuh"

// sums (n_cells, 5): [Σ w v²/2, Σ w v, Σ w] of each cell. One warp owns one cell, lane -> particle.
extern "C" __global__ void __launch_bounds__(256)
    sum_cells(const double* v, const double* w, long long pitch, const long long* first, const int* count, int n_cells,
              double uniform, double* sums) {
    const int lane = threadIdx.x & 31, cell = blockIdx.x * 8 + (threadIdx.x >> 5);
    if (cell >= n_cells) return;
    Sums total;
    for (int j = lane; j < count[cell]; j += 32) {
        const long long slot = first[cell] + j;
        Particle p;
#pragma unroll
        for (int k = 0; k < 3; ++k) p.v[k] = v[k * pitch + slot];
#if WEIGHTS
        p.w = w[slot];
#endif
        total.add(p, uniform, false);
    }
    total.write(sums, cell, lane);
}

// partial (blocks, 5) = sums of the rows that each block of 160 threads = 32 rows × 5 columns walks over. Launched again
// with one block on the result it leaves the total: the order of the additions depends on the sizes alone.
extern "C" __global__ void __launch_bounds__(160) sum_rows(const double* rows, long long n_rows, double* partial) {
    __shared__ double part[160];
    double sum = 0.0;
    for (long long q = blockIdx.x * 160LL + threadIdx.x; q < 5 * n_rows; q += gridDim.x * 160LL) sum += rows[q];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 5) {
        for (int r = 1; r < 32; ++r) sum += part[5 * r + threadIdx.x];
        partial[5 * blockIdx.x + threadIdx.x] = sum;
    }
}
