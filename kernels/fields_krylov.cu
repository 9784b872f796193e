// Products with up to VECTORS Krylov vectors at once, in one pass over them.
//
// variants: VECTORS=8,16,32 SUBTRACT=0,1
//
// SUBTRACT 0: products basis_j · w and w · w. SUBTRACT 1: first w -= Σ h_j basis_j, then the same of the new w. One thread
// owns EACH elements of every vector, 128 apart, and a running sum for each vector. An element is subtracted from all
// vectors first and multiplied with them afterwards, when the L1 cache still holds what was read. A block leaves its part
// of every sum in partial[j][block], and finish_sums adds those up with one block a sum: the order of the additions
// depends on the sizes alone.
constexpr int EACH = 8;
constexpr unsigned ALL = 0xffffffffu;

__device__ inline double sum_of_warp(double x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(ALL, x, step);
    return x;
}

// basis (k, n), k <= VECTORS; h (k); w (n); partial (k + 1, blocks).
extern "C" __global__ void __launch_bounds__(128, 4)
    project(const double* __restrict__ basis, const double* __restrict__ h, double* w, int k, long long n, double* partial) {
    __shared__ double part[4][VECTORS + 1], minus[VECTORS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (SUBTRACT && threadIdx.x < k) minus[threadIdx.x] = -h[threadIdx.x];
    __syncthreads();
    double sum[VECTORS + 1] = {};
#pragma unroll 1
    for (int e = 0; e < EACH; ++e) {
        const long long at = (blockIdx.x * (long long)EACH + e) * 128 + threadIdx.x;
        if (at >= n) break;
        double x = w[at];
        if (SUBTRACT) {
#pragma unroll 8
            for (int j = 0; j < k; ++j) x = fma(minus[j], basis[j * n + at], x);
            w[at] = x;
        }
#pragma unroll
        for (int j = 0; j < VECTORS; ++j)
            if (j < k) sum[j] = fma(basis[j * n + at], x, sum[j]);
        sum[VECTORS] = fma(x, x, sum[VECTORS]);
    }
#pragma unroll
    for (int j = 0; j <= VECTORS; ++j) {
        sum[j] = sum_of_warp(sum[j]);
        if (lane == 0) part[warp][j] = sum[j];
    }
    __syncthreads();
    if (threadIdx.x <= k) {
        const int j = threadIdx.x == k ? VECTORS : threadIdx.x;
        partial[(long long)threadIdx.x * gridDim.x + blockIdx.x] = (part[0][j] + part[1][j]) + (part[2][j] + part[3][j]);
    }
}

// out[j] = Σ partial[j][·].
extern "C" __global__ void __launch_bounds__(128) finish_sums(const double* partial, int parts, double* out) {
    __shared__ double part[4];
    double sum = 0.0;
    for (int b = threadIdx.x; b < parts; b += 128) sum += partial[(long long)blockIdx.x * parts + b];
    sum = sum_of_warp(sum);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = (part[0] + part[1]) + (part[2] + part[3]);
}
