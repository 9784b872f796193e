// One 16 x 8 x 8 product on tensor cores: FP64 (T = double) or TF32 with FP32 sums (T = float).
//
// Lane = 4 g + q holds of A the rows g (low) and g + 8 (high), of B the column g, of C += A B the rows g (c[0], c[1])
// and g + 8 (c[2], c[3]) in columns 2q and 2q + 1. The contraction runs over eight particles in any order: here the
// hardware's columns q and q + 4 of A are particles 2q (.x) and 2q + 1 (.y), so that a lane loads neighbours at once.
#pragma once

template <class T>
struct Couple;  // two values of neighbouring particles
template <>
struct Couple<double> {
    using type = double2;
};
template <>
struct Couple<float> {
    using type = float2;
};

// x of the lanes `first` and `first` + 1, for this lane; all lanes take part.
template <class X>
__device__ __forceinline__ typename Couple<REAL>::type neighbours(X x, int first) {
    return {(REAL)__shfl_sync(0xffffffffu, x, first), (REAL)__shfl_sync(0xffffffffu, x, first + 1)};
}

__device__ __forceinline__ double2 operator*(double2 a, double2 b) { return {a.x * b.x, a.y * b.y}; }

#ifdef __CUDACC__
__device__ __forceinline__ float round_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

// c += A B on an 8 x 8 x 4 tile: one element of A and B a lane, row g of C.
__device__ __forceinline__ void mma_8x8x4(double c[2], double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}

__device__ __forceinline__ void mma_16x8x8(double c[4], double2 low, double2 high, double2 b) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(low.x), "d"(high.x), "d"(low.y), "d"(high.y), "d"(b.x), "d"(b.y));
#else
    mma_8x8x4(c, low.x, b.x);
    mma_8x8x4(c + 2, high.x, b.x);
    mma_8x8x4(c, low.y, b.y);
    mma_8x8x4(c + 2, high.y, b.y);
#endif
}

__device__ __forceinline__ void mma_16x8x8(float c[4], float2 low, float2 high, float2 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(low.x)), "r"(__float_as_uint(high.x)), "r"(__float_as_uint(low.y)), "r"(__float_as_uint(high.y)),
          "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
}
#else  // on the host, for tests
inline void mma_8x8x4(double* c, double a, double b) {
    host_mma<8, 8, 4>(*(double (*)[2])c, (const double (&)[1])a, (const double (&)[1])b);
}
template <class T, class Two>
void mma_16x8x8(T* c, Two low, Two high, Two b) {
    host_mma<16, 8, 8>(*(T(*)[4])c, {low.x, high.x, low.y, high.y}, {b.x, b.y});
}
#endif

__device__ __forceinline__ double rounded(double x) { return x; }
__device__ __forceinline__ float rounded(float x) { return round_tf32(x); }
__device__ __forceinline__ float2 operator*(float2 a, float2 b) { return {rounded(a.x * b.x), rounded(a.y * b.y)}; }
