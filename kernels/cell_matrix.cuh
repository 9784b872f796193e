// D[u, c] = sum_p t^u S_c of one cell: where each number stands in the array between accumulation and expansion.
//
// A column is one of the 9 components of the mass matrix (or the only one), or one of the 4 moments. u = (x, y, z)
// powers; those of y and z are counted together: first those that the moments need, last the corner y^2R z^2R, which is
// kept apart because the others fill whole tiles. The order within a cell is that in which tiles leave the tensor cores.
#pragma once

#include "mass_columns.cuh"

constexpr int X_POWERS = DIM == 3 ? POWERS : 1;
constexpr int X_SUPPORT = DIM == 3 ? SUPPORT : 1;
constexpr int YZ = POWERS * POWERS - 1;  // pairs of y and z powers but for the corner, 8 or 24
constexpr int CORNER = YZ;
constexpr int MOMENT_YZ = SUPPORT * SUPPORT - (ORDER == 2);  // of these the moments need the first 4, or 8 and number 8

// Number of y^j z^k among the pairs.
#if ORDER == 1
__constant__ constexpr unsigned char YZ_NUMBER[9] = {0, 2, 5, 1, 3, 7, 4, 6, 8};
#else
__constant__ constexpr unsigned char YZ_NUMBER[25] = {0,  2,  5, 10, 17, 1,  3,  7,  12, 19, 4,  6, 8,
                                                      14, 21, 9, 11, 13, 15, 23, 16, 18, 20, 22, 24};
#endif
__device__ __forceinline__ int yz_number(int j, int k) { return YZ_NUMBER[POWERS * j + k]; }

constexpr int MASS = COMPONENTS == 9 ? X_POWERS * YZ * 8 : 0;     // components 0 ... 7; then the last (or only) one:
constexpr int LAST = MASS, MOMENTS = LAST + X_POWERS * YZ;
constexpr int CORNERS = MOMENTS + (PLASMA ? 4 * X_SUPPORT * MOMENT_YZ : 0);
constexpr int CORNER_ROWS = ORDER == 1 ? (COMPONENTS == 9 ? X_POWERS : 0) : 13;
constexpr int LAST_CORNER = ORDER == 1 ? CORNERS + 8 * CORNER_ROWS : CORNERS + 8 * 8;
constexpr int LAST_CORNER_STEP = ORDER == 1 ? 2 : 1;
constexpr int CELL_SIZE = ((ORDER == 1 ? LAST_CORNER + 2 * X_POWERS : CORNERS + 8 * CORNER_ROWS) + 7) / 8 * 8;

// Place of component c at x^i and yz pair number n.
__device__ __forceinline__ int mass_place(int c, int i, int n) {
    if (COMPONENTS == 1 || c == 8) return n == CORNER ? LAST_CORNER + LAST_CORNER_STEP * i : LAST + i * YZ + n;
    if (ORDER == 1) return n == CORNER ? CORNERS + 8 * i + c : (i * YZ + n) * 8 + c;
    return n == CORNER ? CORNERS + 8 * c + i : (i * 8 + c) * YZ + n;
}

// Place of moment m (0: rho, 1 ... 3: J) at x^i and yz pair number n; all powers are at most ORDER.
__device__ __forceinline__ int moment_place(int m, int i, int n) {
    return n >= MOMENT_YZ ? CORNERS + 8 * (9 + m) + i : MOMENTS + (i * 4 + m) * MOMENT_YZ + n;
}
