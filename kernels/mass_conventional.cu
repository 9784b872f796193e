// Mass matrix and moments of sorted particles without tensor cores: the sums D[u, c] of a cell in registers.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double GATHER=float,double COLUMNS=0,1,9
//
// A warp owns a cell. Nine components and moments: chunks of 32 particles are staged in shared memory, then
//     lane = 16 h + c  ->  column c (0 ... 8 S, 9 ... 12 w and J), CIC: all monomials of particle 2k + h,
//                                                              TSC: yz monomials 13 h ... 13 h + 12 of particle k.
// One component: lane -> particle, all monomials (TSC: two x powers at a time), and a sum over the lanes at the end.
#define REAL double
#include "cell_matrix.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr int WARPS = 4;

// y^j z^k by yz pair number n < POWERS^2.
INLINE void yz_monomials(const double t[3], double* yz) {
    double y[POWERS], z[POWERS];
    y[0] = z[0] = 1.0;
#pragma unroll
    for (int k = 1; k < POWERS; ++k) y[k] = y[k - 1] * t[1], z[k] = z[k - 1] * t[2];
#pragma unroll
    for (int j = 0; j < POWERS; ++j)
#pragma unroll
        for (int k = 0; k < POWERS; ++k) yz[yz_number(j, k)] = y[j] * z[k];
}

// launch_sizes: threads and cells of a block, bytes of shared memory, numbers of a cell's D.
#if COLUMNS != 1
constexpr int LANES = 16, PER_STEP = ORDER == 1 ? 2 : 1, SHARE = ORDER == 1 ? YZ + 1 : (YZ + 2) / 2;
constexpr int COLUMN_PITCH = 17, MONOMIAL_PITCH = YZ + 6;  // x stands at YZ + 2

struct __align__(16) Shared {
    double monomials[32 * MONOMIAL_PITCH];
    double column[32 * COLUMN_PITCH];
    GATHER coef[PLASMA ? 3 * NODES : 1];
};

extern "C" {
__constant__ int launch_sizes[8] = {32 * WARPS, WARPS, WARPS * (int)sizeof(Shared), CELL_SIZE};
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    mass_conventional(const POS* s, const double* values, const double* w, long long pitch, const long long* first,
                      const int* count, int nx, int ny, int nz, const double* B, double beta, double mass, double moment,
                      double* D, int add) {
    extern __shared__ __align__(16) char memory[];
    const int lane = threadIdx.x % 32, cell = blockIdx.x * WARPS + threadIdx.x / 32, c = lane % LANES, h = lane / LANES;
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
    if (PLASMA) field.polynomials(beta, shared.monomials, shared.coef, lane, ALL);

    double sum[X_POWERS][SHARE];
#pragma unroll
    for (int i = 0; i < X_POWERS * SHARE; ++i) sum[i / SHARE][i % SHARE] = 0.0;
    for (int base = 0; base < n; base += 32) {
        const Stored p = next;
        load(particles, begin + base + 32 + lane, base + 32 + lane < n, next);
        double t[3], S[COMPONENTS], m[4], yz[YZ + 1];
        coordinates(p, t);
        columns(p, shared.coef, S, m);
        yz_monomials(t, yz);
        double *column = shared.column + lane * COLUMN_PITCH, *monomial = shared.monomials + lane * MONOMIAL_PITCH;
#pragma unroll
        for (int k = 0; k < 13; ++k) column[k] = k < 9 ? S[k < 9 ? k : 0] : m[k < 9 ? 0 : k - 9];
#pragma unroll
        for (int k = 0; k <= YZ; ++k) monomial[k] = yz[k];
        monomial[YZ + 2] = t[0];
        __syncwarp();
        const int steps = min(32, n - base);
#pragma unroll 2
        for (int k = 0; k < steps; k += PER_STEP) {
            const int particle = PER_STEP == 2 ? k + h : k;
            const double2* from = (const double2*)(shared.monomials + particle * MONOMIAL_PITCH);
            double own[SHARE + 2];
#pragma unroll
            for (int j = 0; j < SHARE + 1; j += 2) {
                const double2 two = from[j / 2 + (PER_STEP == 1 ? h * (SHARE - 1) / 2 : 0)];
                own[j] = two.x, own[j + 1] = two.y;
            }
            double power = shared.column[particle * COLUMN_PITCH + c];
            const double x = shared.monomials[particle * MONOMIAL_PITCH + YZ + 2];
#pragma unroll
            for (int i = 0; i < X_POWERS; ++i, power *= x)
#pragma unroll
                for (int j = 0; j < SHARE; ++j) sum[i][j] = fma(power, own[j], sum[i][j]);
        }
        __syncwarp();
    }

    double* out = D + (long long)cell * CELL_SIZE;
#pragma unroll
    for (int i = 0; i < X_POWERS; ++i)
#pragma unroll
        for (int j = 0; j < SHARE; ++j) {
            double value = sum[i][j];
            if (PER_STEP == 2) value += __shfl_xor_sync(ALL, value, LANES);
            const int number = PER_STEP == 2 ? j : j + h * (SHARE - 1);
            if ((PER_STEP == 2 && h > 0) || (PER_STEP == 1 && h > 0 && j == 0)) continue;
            int place = -1;
            if (c < 9) place = mass_place(c, i, number);
            if (PLASMA && c >= 9 && c < 13 && i < X_SUPPORT && number < SUPPORT * SUPPORT)
                place = moment_place(c - 9, i, number);
            if (place >= 0) out[place] = (add ? out[place] : 0.0) + (c < 9 ? mass : moment) * value;
        }
}
#else
extern "C" {
__constant__ int launch_sizes[8] = {32 * WARPS, WARPS, 0, CELL_SIZE};
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    mass_conventional(const POS* s, const double* values, const double* w, long long pitch, const long long* first,
                      const int* count, int nx, int ny, int nz, const double* B, double beta, double mass, double moment,
                      double* D, int add) {
    const int lane = threadIdx.x % 32, cell = blockIdx.x * WARPS + threadIdx.x / 32;
    const Grid grid = {nx, ny, nz};
    if (cell >= grid.ncells()) return;
    constexpr int TOGETHER = ORDER == 1 ? X_POWERS : 2;
    double* out = D + (long long)cell * CELL_SIZE;
    for (int i0 = 0; i0 < X_POWERS; i0 += TOGETHER) {
        double sum[TOGETHER][YZ + 1];
#pragma unroll
        for (int i = 0; i < TOGETHER * (YZ + 1); ++i) sum[i / (YZ + 1)][i % (YZ + 1)] = 0.0;
        for (int k = lane; k < count[cell]; k += 32) {
            Stored p;
            load({s, values, w, pitch}, first[cell] + k, true, p);
            double t[3], yz[YZ + 1], power = p.values[0];
            coordinates(p, t);
            yz_monomials(t, yz);
            for (int i = 0; i < i0; ++i) power *= t[0];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i, power *= t[0])
#pragma unroll
                for (int j = 0; j <= YZ; ++j) sum[i][j] = fma(power, yz[j], sum[i][j]);
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
#pragma unroll
            for (int j = 0; j <= YZ; ++j) {
                double value = sum[i][j];
#pragma unroll
                for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
                const int place = mass_place(0, i0 + i, j);
                if (lane == 0 && i0 + i < X_POWERS) out[place] = (add ? out[place] : 0.0) + mass * value;
            }
    }
}
#endif
