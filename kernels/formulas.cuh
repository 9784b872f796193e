// Scalar physics apart from the loops: shapes, pair products, rotation. The twin of ecsim/backend/cpu/formulas.py.
//
// Macros: DIM (1, 2, 3) active dimensions, ORDER (1 CIC, 2 TSC). Compiles with NVRTC, nvcc and a host C++17 compiler.
// t = 2s in [-1, 1) is the coordinate in the support cell; a polynomial's coefficients stand with the power of the last
// dimension running fastest. What must agree to the last bit between kernels is written with fma.
#pragma once

#ifdef __CUDACC__
#define INLINE __device__ __forceinline__
#define BOTH __host__ __device__
#else
#include <cmath>
#define INLINE inline
#define BOTH
using std::fma;
#endif

BOTH constexpr int power(int base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

constexpr int SUPPORT = ORDER + 1;                // support nodes along a dimension
constexpr int NODES = power(SUPPORT, DIM);        // support nodes of a particle
constexpr int POWERS = 2 * ORDER + 1;             // powers of t in a product of two shapes: 1, t, ... t^(2 ORDER)
constexpr int PAIRS = SUPPORT * (SUPPORT + 1) / 2;  // distinct products of two shapes along a dimension

// phi at support node `node` for the in-cell coordinate s in [-1/2, 1/2).
INLINE double shape(int node, double s) {
    if (ORDER == 1) return node == 0 ? 0.5 - s : 0.5 + s;
    if (node == 0) return 0.5 * (0.5 - s) * (0.5 - s);
    if (node == 1) return 0.75 - s * s;
    return 0.5 * (0.5 + s) * (0.5 + s);
}

// Position of the pair a <= b among the distinct products: 00 01 11 (CIC), 00 01 02 11 12 22 (TSC).
INLINE int pair_index(int a, int b) { return a * SUPPORT - a * (a - 1) / 2 + b - a; }

// In place: nodal values f[0], f[step], ... along one dimension become the coefficients in t of sum_a f_a phi_a(t).
INLINE void nodes_to_powers(double* f, int step) {
    const double f0 = f[0], f1 = f[step];
    if (ORDER == 1) {
        f[0] = 0.5 * (f0 + f1);
        f[step] = 0.5 * (f1 - f0);
    } else {
        const double f2 = f[2 * step], outer = 0.125 * (f0 + f2);
        f[0] = fma(0.75, f1, outer);
        f[step] = 0.25 * (f2 - f0);
        f[2 * step] = fma(-0.25, f1, outer);
    }
}

// Coefficient of t^power in phi_a(t); so sum_p phi_a = sum_k shape_power(a, k) sum_p t^k.
INLINE double shape_power(int a, int power) {
    const double sign = a == 0 ? -1.0 : 1.0;
    if (ORDER == 1) return power == 0 ? 0.5 : 0.5 * sign;
    if (a == 1) return power == 0 ? 0.75 : power == 1 ? 0.0 : -0.25;
    return power == 1 ? 0.25 * sign : 0.125;
}

// q[pair] = sum_p phi_a phi_b of the distinct pairs from the power sums m[k] = sum_p t^k.
INLINE void pair_products(const double* m, double* q) {
    if (ORDER == 1) {
        const double even = 0.25 * (m[0] + m[2]), odd = 0.5 * m[1];
        q[0] = even - odd;
        q[1] = 0.25 * (m[0] - m[2]);
        q[2] = even + odd;
    } else {
        const double outer_even = (m[0] + 6.0 * m[2] + m[4]) / 64.0, outer_odd = (m[1] + m[3]) / 16.0;
        const double inner_even = (3.0 * m[0] + 2.0 * m[2] - m[4]) / 32.0, inner_odd = (3.0 * m[1] - m[3]) / 16.0;
        q[0] = outer_even - outer_odd;
        q[1] = inner_even - inner_odd;
        q[2] = (m[0] - 2.0 * m[2] + m[4]) / 64.0;
        q[3] = (9.0 * m[0] - 6.0 * m[2] + m[4]) / 16.0;
        q[4] = inner_even + inner_odd;
        q[5] = outer_even + outer_odd;
    }
}

// sum_u c[u] t^u over the powers up to ORDER of N dimensions.
template <int N, class T>
INLINE T polynomial(const T* c, const T* t) {
    if constexpr (N == 0) {
        return c[0];
    } else {
        constexpr int block = power(SUPPORT, N - 1);
        T value = polynomial<N - 1, T>(c + ORDER * block, t + 1);
#pragma unroll
        for (int k = ORDER - 1; k >= 0; --k) value = fma(value, t[0], polynomial<N - 1, T>(c + k * block, t + 1));
        return value;
    }
}

// The three components at t of a field whose polynomials are c[component * NODES + u].
template <class T>
INLINE void field_at(const T* c, const T t[DIM], T out[3]) {
#pragma unroll
    for (int k = 0; k < 3; ++k) out[k] = polynomial<DIM, T>(c + k * NODES, t);
}

// 1/x for finite x >= 1, to an ulp, without the branches of a general division.
INLINE double reciprocal(double x) {
#ifdef __CUDACC__
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    const double e = fma(-x, r, 1.0);
    return fma(r, fma(e, e, e), r);
#else
    return 1.0 / x;
#endif
}

INLINE float reciprocal(float x) { return 1.0f / x; }

// w alpha of b = beta B, row by row: alpha v = [v + v x b + (v.b) b] / (1 + b^2)   (Lapenta 2017, eq. 15).
template <class T>
INLINE void rotation(const T b[3], T w, T a[9]) {
    const T r = w * reciprocal(fma(b[2], b[2], fma(b[1], b[1], fma(b[0], b[0], (T)1))));
    const T x = r * b[0], y = r * b[1], z = r * b[2];
    a[0] = fma(x, b[0], r);
    a[1] = fma(x, b[1], z);
    a[2] = fma(x, b[2], -y);
    a[3] = fma(x, b[1], -z);
    a[4] = fma(y, b[1], r);
    a[5] = fma(y, b[2], x);
    a[6] = fma(x, b[2], y);
    a[7] = fma(y, b[2], -x);
    a[8] = fma(z, b[2], r);
}

// out = a v for the row-major 3 x 3 matrix a.
template <class T>
INLINE void multiply(const T a[9], const T v[3], T out[3]) {
#pragma unroll
    for (int i = 0; i < 3; ++i) out[i] = fma(a[3 * i + 2], v[2], fma(a[3 * i + 1], v[1], a[3 * i] * v[0]));
}

// out = alpha v without alpha.
INLINE void rotate(const double b[3], const double v[3], double out[3]) {
    const double r = reciprocal(fma(b[2], b[2], fma(b[1], b[1], fma(b[0], b[0], 1.0))));
    const double vb = fma(v[2], b[2], fma(v[1], b[1], v[0] * b[0]));
    out[0] = r * fma(vb, b[0], fma(v[1], b[2], fma(-v[2], b[1], v[0])));
    out[1] = r * fma(vb, b[1], fma(v[2], b[0], fma(-v[0], b[2], v[1])));
    out[2] = r * fma(vb, b[2], fma(v[0], b[1], fma(-v[1], b[0], v[2])));
}
