// Particles on their way between global and shared memory, 16 bytes a lane: batches that come, blocks of 32 that go back.
#pragma once

#include "async.cuh"
#include "outbox.cuh"
#include "push.cuh"

#ifndef OCCUPANCY
#define OCCUPANCY 4                // blocks per multiprocessor the registers must allow
#define MOST (ORDER == 1 ? 64 : 32)  // particles of a batch, where shared memory allows
#endif
constexpr int WARPS = 4;
constexpr int ROWS = 3 + WEIGHTS + IDS;  // 8-byte components besides the position: v, w, id
constexpr int PARTICLE_BYTES = DIM * sizeof(POS) + 8 * ROWS;
constexpr int ROOM = 56 * 1024 / WARPS - sizeof(Fields) - sizeof(Leavers);  // bytes for two batches and the ring of a warp
constexpr int BATCH = (2 * MOST + 64) * PARTICLE_BYTES <= ROOM ? MOST : 32, EACH = BATCH / 32;

// Particles on their way. A lane fetches 16 bytes at a time, so slots are fetched from a multiple of ALIGNED on.
constexpr int ALIGNED = 16 / sizeof(float);
struct Batch {
    __align__(16) double row[ROWS][BATCH];
    __align__(16) POS s[DIM][BATCH];
};

// Particles that stay, on their way back: a ring of two blocks of 32. A full block is written at once, to whole sectors.
struct Kept {
    __align__(16) double row[ROWS][64];
    __align__(16) POS s[DIM][64];
};

// The 8-byte rows of a store as one array.
struct Rows {
    double* of[ROWS];
};

__device__ inline Rows rows_of(const Store& store) {
    Rows rows = {{store.v[0], store.v[1], store.v[2]}};
#if WEIGHTS
    rows.of[3] = store.w;
#endif
#if IDS
    rows.of[3 + WEIGHTS] = (double*)store.id;
#endif
    return rows;
}

// For each of N rows of `length` items, 16 bytes a lane: copy(row of `of`, first item, row number) of those below `n`.
template <int length, class T, int N, class Copy>
__device__ inline void by_pieces(T* const (&of)[N], int n, int lane, Copy copy) {
    constexpr int PIECE = 16 / sizeof(T), PIECES = length / PIECE;
#pragma unroll
    for (int r = 0; r < (N * PIECES + 31) / 32; ++r) {
        const int q = lane + 32 * r, row = q / PIECES, j = q % PIECES * PIECE;
        T* chosen = of[0];
#pragma unroll
        for (int k = 1; k < N; ++k)
            if (row == k) chosen = of[k];
        if (row < N && j < n) copy(chosen, j, row);
    }
}

// Start to fetch `n` particles from `slot` on.
__device__ inline void fetch(const Store& from, Slot slot, int n, Batch& to, int lane) {
    POS* s[DIM];
#pragma unroll
    for (int k = 0; k < DIM; ++k) s[k] = from.s[k];
    by_pieces<BATCH>(rows_of(from).of, n, lane, [&](const double* row, int j, int k) {
        copy_async((ulonglong2*)&to.row[k][j], (const ulonglong2*)&row[slot + j]);
    });
    by_pieces<BATCH>(s, n, lane, [&](const POS* row, int j, int k) {
        copy_async((ulonglong2*)&to.s[k][j], (const ulonglong2*)&row[slot + j]);
    });
    close_group();
}

__device__ inline void keep(Kept& kept, int at, const Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) kept.s[k][at] = p.s[k];
#pragma unroll
    for (int k = 0; k < 3; ++k) kept.row[k][at] = p.v[k];
#if WEIGHTS
    kept.row[3][at] = p.w;
#endif
#if IDS
    kept.row[3 + WEIGHTS][at] = __longlong_as_double((long long)p.id);
#endif
}

// Write the block of the ring that begins at `head` to `slot` on: `n` particles, and what stands behind them up to a
// multiple of eight, so that sectors of 32 bytes are written whole.
__device__ inline void write_back(const Kept& kept, int head, int n, const Store& to, Slot slot, int lane) {
    POS* s[DIM];
#pragma unroll
    for (int k = 0; k < DIM; ++k) s[k] = to.s[k];
    const int whole = (n + 7) / 8 * 8;
    by_pieces<32>(rows_of(to).of, whole, lane, [&](double* row, int j, int k) {
        *(ulonglong2*)&row[slot + j] = *(const ulonglong2*)&kept.row[k][head + j];
    });
    by_pieces<32>(s, whole, lane,
                  [&](POS* row, int j, int k) { *(ulonglong2*)&row[slot + j] = *(const ulonglong2*)&kept.s[k][head + j]; });
}

__device__ inline void take(const Batch& from, int j, Particle& p) {
#pragma unroll
    for (int k = 0; k < DIM; ++k) p.s[k] = from.s[k][j];
#pragma unroll
    for (int k = 0; k < 3; ++k) p.v[k] = from.row[k][j];
#if WEIGHTS
    p.w = from.row[3][j];
#endif
#if IDS
    p.id = bits(from.row[3 + WEIGHTS][j]);
#endif
}
