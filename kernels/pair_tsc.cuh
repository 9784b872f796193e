// The pair-product form for TSC: D[125 monomials, 9 + 4 columns] of a cell as eleven 16 x 8 tiles (Z = y^2 z^2).
//
//               rows g          rows g + 8        columns
//   body[r][n]  x^2r S[g]       x^(2r+1) S[g]     yz[8n ... 8n+7], n = 0, 1, 2; r = 0, 1 (S = S0 ... S7)
//   body[2][n]  x^4 S[g]        x^g S8            yz[8n ... 8n+7]
//   moments     {1, x} m        {x^2} m           yz[0 ... 7]       m = {w, J1, J2, J3}
//   corners     Z^2 S[g]        Z^2 S8, Z m       x^0 ... x^4
//
// yz: 1, y, z, y z, y^2, z^2, y^2 z, y z^2 | Z, y^3, z^3, ... y^3 z^4 as in cell_matrix.cuh. Without an x dimension only
// body[2] with rows S[g] and S8, and the lower rows of `moments` are not there.
#pragma once

#include "cell_matrix.cuh"
#include "tensor_core.cuh"

struct Tiles {
    static constexpr int PITCH = 40;
    // Where eight rows are read and fewer are meant, the others are the next ones here; their sums are not used.
    enum Row { M = 0, XXM = 8, LOW = 12, X = 17, LAST_ROW = 22, CORNER_ROW = 23, S = 24, YZ_ROW = 32, ROWS = 56 };
    using Two = typename Couple<REAL>::type;
    static constexpr int BODIES = DIM == 3 ? 3 : 1;

    REAL body[BODIES][3][4], moments[4], corners[4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            moments[k] = corners[k] = 0;
#pragma unroll
            for (int n = 0; n < 3 * BODIES; ++n) body[n / 3][n % 3][k] = 0;
        }
    }

    static __device__ __forceinline__ void prepare(REAL* to) { to[YZ_ROW * PITCH] = to[X * PITCH] = 1; }

    static __device__ __forceinline__ void stage(REAL* to, const REAL t[3], const REAL s[COMPONENTS], const REAL m[4]) {
        const REAL x = t[0], last = s[COMPONENTS - 1];
        const REAL y[5] = {1, t[1], t[1] * t[1], t[1] * t[1] * t[1], t[1] * t[1] * t[1] * t[1]};
        const REAL z[5] = {1, t[2], t[2] * t[2], t[2] * t[2] * t[2], t[2] * t[2] * t[2] * t[2]};
        auto put = [to](int row, REAL value) { to[row * PITCH] = rounded(value); };
#pragma unroll
        for (int j = 0; j < 5; ++j)
#pragma unroll
            for (int k = 0; k < 5; ++k)
                if (j + k > 0 && j + k < 8) put(YZ_ROW + yz_number(j, k), y[j] * z[k]);
        const REAL Z = y[2] * z[2], corner = Z * Z;
        put(CORNER_ROW, corner), put(LOW, corner * last), put(LAST_ROW, last);
        REAL power = x;
#pragma unroll
        for (int i = 1; i < 5; ++i, power *= x) put(X + i, power);
        if (COMPONENTS == 9) {
#pragma unroll
            for (int c = 0; c < 8; ++c) put(S + c, s[COMPONENTS == 9 ? c : 0]);
        }
        if (PLASMA) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                put(M + k, m[k]), put(LOW + 1 + k, Z * m[k]);
                if (DIM == 3) put(M + 4 + k, x * m[k]), put(XXM + k, x * x * m[k]);
            }
        }
    }

    static __device__ __forceinline__ Two read(const REAL* from, int row) { return *(const Two*)(from + row * PITCH); }

    __device__ __forceinline__ void multiply(const REAL* rows, int first, int lane, POS tx) {
        const int column = first + 2 * (lane % 4);
        const REAL *from = rows + column, *own = from + lane / 4 * PITCH;
        const Two yz[3] = {read(own, YZ_ROW), read(own, YZ_ROW + 8), read(own, YZ_ROW + 16)};
        const Two powers = read(own, X), low = read(own, LOW), last = read(from, LAST_ROW) * powers;
        Two s = last;
        if (COMPONENTS == 9) {
            s = read(own, S);
            mma_16x8x8(corners, read(from, CORNER_ROW) * s, low, powers);
            if (DIM == 3) {
                const Two x = neighbours(tx, column);
#pragma unroll
                for (int r = 0; r < BODIES - 1; ++r) {
                    const Two high = x * s;
#pragma unroll
                    for (int n = 0; n < 3; ++n) mma_16x8x8(body[r][n], s, high, yz[n]);
                    s = x * high;
                }
            }
        } else {
            mma_16x8x8(corners, low, low, powers);
        }
#pragma unroll
        for (int n = 0; n < 3; ++n) mma_16x8x8(body[BODIES - 1][n], s, last, yz[n]);
        if (PLASMA) mma_16x8x8(moments, read(own, M), read(own, DIM == 3 ? XXM : M), yz[0]);
    }

    template <class Emit>
    __device__ __forceinline__ void store(int lane, double mass, double moment, Emit emit) const {
        const int g = lane / 4, q2 = lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 3; ++n) {
            const int column = 8 * n + q2;
#pragma unroll
            for (int r = 0; r < BODIES; ++r) {
                const REAL* sum = body[r][n];
                if (COMPONENTS == 9) emit((16 * r + g) * YZ + column, mass * sum[0], mass * sum[1]);
                if (r < BODIES - 1) {
                    if (COMPONENTS == 9) emit((16 * r + 8 + g) * YZ + column, mass * sum[2], mass * sum[3]);
                } else if (g < X_POWERS) {
                    emit(LAST + g * YZ + column, mass * sum[2], mass * sum[3]);
                }
            }
        }
        if (PLASMA) {
            if (g < 4 * (DIM == 3 ? 2 : 1)) emit(MOMENTS + g * MOMENT_YZ + q2, moment * moments[0], moment * moments[1]);
            if (DIM == 3 && g < 4) emit(MOMENTS + (8 + g) * MOMENT_YZ + q2, moment * moments[2], moment * moments[3]);
        }
        if (q2 >= X_POWERS) return;
        if (COMPONENTS == 9) emit(CORNERS + g * 8 + q2, mass * corners[0], mass * corners[1]);
        const double scale = g == 0 ? mass : moment;
        if (g == 0 || (PLASMA && g < 5)) emit(CORNERS + (8 + g) * 8 + q2, scale * corners[2], scale * corners[3]);
    }
};
