// The vector work of a Krylov step, each in one launch and in one pass over the basis.
//
// variants: VECTORS=8,16,32 SUBTRACT=0,1
//
// project, with up to VECTORS basis vectors. SUBTRACT 0: products basis_j · w and w · w. SUBTRACT 1: first
// w -= Σ h_j basis_j, then the same of the new w. An element is subtracted from all vectors first and multiplied with them
// afterwards, when the L1 cache still holds what was read. A block leaves its part of every sum in partial[j][block], and
// the block that comes last adds those up: the order of the additions depends on the sizes alone.
// residual and normalise; close_step and add_up, with any number of vectors (SUBTRACT and VECTORS mean nothing to these).
constexpr unsigned ALL = 0xffffffffu;
constexpr double TINY = 2.2250738585072014e-308;

__device__ inline double sum_of_warp(double x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(ALL, x, step);
    return x;
}

// Σ over the threads of a block of 128, on all of them; part: shared memory.
__device__ inline double sum_of_block(double x, double part[4]) {
    x = sum_of_warp(x);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = x;
    __syncthreads();
    return (part[0] + part[1]) + (part[2] + part[3]);
}

// out[j] = Σ partial[j][·] for j < rows, by the last block that comes here; ends with *arrived = 0 for the next launch.
__device__ inline void add_up_parts(const double* partial, int rows, double* out, unsigned* arrived) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    const int lane = threadIdx.x & 31;
    for (int j = threadIdx.x >> 5; j < rows; j += 4) {
        const double* parts = partial + (long long)j * gridDim.x;
        double sum = 0.0;
#pragma unroll 8
        for (int b = lane; b < (int)gridDim.x; b += 32) sum += __ldcg(parts + b);
        sum = sum_of_warp(sum);
        if (lane == 0) out[j] = sum;
    }
    if (threadIdx.x == 0) *arrived = 0;
}

// basis (k, n), k <= VECTORS; h (k); w (n); partial (k + 1, blocks); out (k + 1).
extern "C" __global__ void __launch_bounds__(128, 4)
    project(const double* __restrict__ basis, const double* __restrict__ h, double* w, int k, long long n, double* partial,
            double* out, unsigned* arrived) {
    __shared__ double part[4][VECTORS + 1], minus[VECTORS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (SUBTRACT && threadIdx.x < k) minus[threadIdx.x] = -h[threadIdx.x];
    __syncthreads();
    double sum[VECTORS + 1] = {};
#pragma unroll 1
    for (long long at = blockIdx.x * 128LL + threadIdx.x; at < n; at += gridDim.x * 128LL) {
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
    add_up_parts(partial, k + 1, out, arrived);
}

// r = b - w; out = b · b, r · r, x · x. b, w, x, r (n); partial (3, blocks); out (3).
extern "C" __global__ void __launch_bounds__(128)
    residual(const double* __restrict__ b, const double* __restrict__ w, const double* __restrict__ x, long long n,
             double* __restrict__ r, double* partial, double* out, unsigned* arrived) {
    __shared__ double part[3][4];
    double sum[3] = {};
    for (long long at = blockIdx.x * 128LL + threadIdx.x; at < n; at += gridDim.x * 128LL) {
        const double values[3] = {b[at], b[at] - w[at], x[at]};
        r[at] = values[1];
#pragma unroll
        for (int j = 0; j < 3; ++j) sum[j] = fma(values[j], values[j], sum[j]);
    }
#pragma unroll
    for (int j = 0; j < 3; ++j) {
        sum[j] = sum_of_block(sum[j], part[j]);
        if (threadIdx.x == 0) partial[j * gridDim.x + blockIdx.x] = sum[j];
    }
    add_up_parts(partial, 3, out, arrived);
}

// r /= √squares[1]. r (n).
extern "C" __global__ void __launch_bounds__(128) normalise(double* r, const double* __restrict__ squares, long long n) {
    const double norm = fmax(sqrt(squares[1]), TINY);
    for (long long at = blockIdx.x * 128LL + threadIdx.x; at < n; at += gridDim.x * 128LL) r[at] /= norm;
}

// w + sign Σ h_j basis_j[at].
__device__ inline double sum_up(const double* basis, double sign, const double* h, int k, long long n, double w, long long at) {
#pragma unroll 8
    for (int j = 0; j < k; ++j) w = fma(sign * h[j], basis[j * n + at], w);
    return w;
}

// The end of an orthogonalisation: next = (w - Σ ends_j basis_j) / norm and column = first_j + ends_j, norm, where
// norm² = ends_k - Σ ends_j² by Pythagoras. basis (k, n); first (k); ends (k + 1); column (k + 1).
extern "C" __global__ void __launch_bounds__(128)
    close_step(const double* __restrict__ basis, const double* __restrict__ first, const double* __restrict__ ends,
               const double* __restrict__ w, int k, long long n, double* __restrict__ next, double* column) {
    __shared__ double part[4];
    double squares = 0.0;
    for (int j = threadIdx.x; j < k; j += 128) {
        squares = fma(ends[j], ends[j], squares);
        if (blockIdx.x == 0) column[j] = first[j] + ends[j];
    }
    const double norm = sqrt(fmax(ends[k] - sum_of_block(squares, part), 0.0));
    if (blockIdx.x == 0 && threadIdx.x == 0) column[k] = norm;
    const double scale = 1.0 / fmax(norm, TINY);
    for (long long at = blockIdx.x * 128LL + threadIdx.x; at < n; at += gridDim.x * 128LL)
        next[at] = scale * sum_up(basis, -1.0, ends, k, n, w[at], at);
}

// x += sign Σ y_j basis_j.
extern "C" __global__ void __launch_bounds__(128)
    add_up(const double* __restrict__ basis, double sign, const double* __restrict__ y, double* x, int k, long long n) {
    for (long long at = blockIdx.x * 128LL + threadIdx.x; at < n; at += gridDim.x * 128LL)
        x[at] = sum_up(basis, sign, y, k, n, x[at], at);
}
