// The pair-product form for CIC: D[27 monomials, 9 + 4 columns] of a cell as three 16 x 8 tiles (Z = y^2 z^2).
//
//            rows g               rows g + 8              columns
//   sum[0]   yz[g]                x yz[g]                 S0 ... S7
//   sum[1]   x^2 yz[g]            Z, x Z, x^2 Z           S0 ... S7
//   sum[2]   row[g]               x row[g]                yz[0 ... 7]      row = {S8, w, J1, J2, J3, Z S8, x^2 S8, x^2 Z S8}
//
// yz = {1, y, z, y z, y^2, z^2, y^2 z, y z^2}. Without an x dimension sum[0] holds yz and Z, and sum[1] is not there.
#pragma once

#include "cell_matrix.cuh"
#include "tensor_core.cuh"

struct Tiles {
    static constexpr int PITCH = 40;  // particles of a row in shared memory: 32 and what keeps rows off each other's banks
    enum Row { YZ_ROW = 0, ROW = 8, S = 16, Z = 24, ROWS = COMPONENTS == 9 ? 27 : 16 };
    using Two = typename Couple<REAL>::type;

    REAL sum[3][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < 3; ++n) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
    }

    // Write this lane's column of what is the same for all particles; `to` is row 0.
    static __device__ __forceinline__ void prepare(REAL* to) { to[YZ_ROW * PITCH] = 1; }

    // Write one particle's column of the other rows.
    static __device__ __forceinline__ void stage(REAL* to, const REAL t[3], const REAL s[COMPONENTS], const REAL m[4]) {
        const REAL x = t[0], y = t[1], z = t[2], xx = x * x, yy = y * y, zz = z * z, corner = yy * zz;
        const REAL last = s[COMPONENTS - 1];
        auto put = [to](int row, REAL value) { to[row * PITCH] = rounded(value); };
        put(YZ_ROW + 1, y), put(YZ_ROW + 2, z), put(YZ_ROW + 3, y * z);
        put(YZ_ROW + 4, yy), put(YZ_ROW + 5, zz), put(YZ_ROW + 6, yy * z), put(YZ_ROW + 7, y * zz);
        if (COMPONENTS == 9) {
#pragma unroll
            for (int c = 0; c < 8; ++c) put(S + c, s[COMPONENTS == 9 ? c : 0]);
            put(Z, corner);
        }
        put(ROW, last), put(ROW + 5, corner * last);
        if (PLASMA) {
#pragma unroll
            for (int k = 0; k < 4; ++k) put(ROW + 1 + k, m[k]);
        }
        if (DIM == 3) {
            if (COMPONENTS == 9) put(Z + 1, x * corner), put(Z + 2, xx * corner);
            put(ROW + 6, xx * last), put(ROW + 7, xx * corner * last);
        }
    }

    static __device__ __forceinline__ Two read(const REAL* from, int row) { return *(const Two*)(from + row * PITCH); }

    // Add the particles of columns first ... first + 7; tx is this lane's own t along x.
    __device__ __forceinline__ void multiply(const REAL* rows, int first, int lane, POS tx) {
        const int column = first + 2 * (lane % 4);
        const REAL* own = rows + lane / 4 * PITCH + column;
        const Two yz = read(own, YZ_ROW), row = read(own, ROW), x = neighbours(tx, column);
        const Two xrow = DIM == 3 ? x * row : row;
        if (COMPONENTS == 9) {
            Two corner = {0, 0};
            if (lane / 4 < X_POWERS) corner = read(own, Z);
            const Two s = read(own, S), xyz = x * yz;
            mma_16x8x8(sum[0], yz, DIM == 3 ? xyz : corner, s);
            if (DIM == 3) mma_16x8x8(sum[1], x * xyz, corner, s);
        }
        mma_16x8x8(sum[2], row, xrow, yz);
    }

    // Write the cell's D, times `mass` or `moment`; call emit(place, first, second) for couples of neighbouring numbers.
    template <class Emit>
    __device__ __forceinline__ void store(int lane, double mass, double moment, Emit emit) const {
        const int g = lane / 4, q2 = lane % 4 * 2;
        if (COMPONENTS == 9) {
            emit(g * 8 + q2, mass * sum[0][0], mass * sum[0][1]);
            if (DIM == 3) {
                emit((8 + g) * 8 + q2, mass * sum[0][2], mass * sum[0][3]);
                emit((16 + g) * 8 + q2, mass * sum[1][0], mass * sum[1][1]);
            }
            constexpr int n = DIM == 3 ? 1 : 0;
            if (g < X_POWERS) emit(CORNERS + g * 8 + q2, mass * sum[n][2], mass * sum[n][3]);
        }
        // x power that this lane's low row carries, and where the row of x power 0 would stand
        const bool is_moment = g >= 1 && g <= 4, is_corner = g == 5 || g == 7;
        const int i = g >= 6 ? 2 : 0;
        const double scale = is_moment ? moment : mass;
        if (is_moment ? PLASMA && q2 < MOMENT_YZ : (!is_corner || q2 == 0) && i < X_POWERS) {
            const int step = is_moment ? 4 * MOMENT_YZ : is_corner ? LAST_CORNER_STEP : YZ;
            const int place = is_moment ? MOMENTS + (g - 1) * MOMENT_YZ + q2 : is_corner ? LAST_CORNER : LAST + q2;
            emit(place + i * step, scale * sum[2][0], scale * sum[2][1]);
            if (DIM == 3 && i == 0) emit(place + step, scale * sum[2][2], scale * sum[2][3]);
        }
    }
};
