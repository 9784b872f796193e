// Kick, push and sort by cell in one pass: first half, over the particles of each cell.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double WEIGHTS=0,1 IDS=0 GATHER=double KICK=0,1
// variants: DIM=3 ORDER=1,2 POS=float WEIGHTS=1 IDS=1 GATHER=float KICK=1
// variants: DIM=1 ORDER=1 POS=double WEIGHTS=0 IDS=1 GATHER=float KICK=1
//
// One warp owns a cell at a time, and after it the cell as many further on as there are warps. E and B come to it once, as
// polynomials in shared memory. It takes the cell's slots in batches, lane -> particles lane, lane + 32; while it works on one
// batch, the next, be it of this cell or of the next, is on its way to shared memory. Those that stay are written back
// compacted and in order, never behind a slot that is still to be read:
//
//     slots  | stay 0 … stay-1 |  gap  | batch in registers | to be read … |   slack   |
//
// Leavers are staged in shared memory in the order they are met, with their position not yet wrapped, and written to the
// outbox as a run sorted by bin when the stage is full or the cell is done. move_arrivals.cu brings them home.
// Where in the outbox a run lies depends on timing; nothing that is computed does.
//
// Outbox full: the staged leavers go into the gap, right before the current batch, and from there on every particle is
// written back to its own slot, kicked and pushed but not wrapped. `progress` says which slots are in that state; after
// the outbox has grown, the same kernel with KICK = 0, dt = 0 and `resume` = 1 bins them. The gap always has room: it
// holds one slot for each leaver so far.
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
constexpr int ROOM = 48 * 1024 / WARPS - sizeof(Fields) - sizeof(Leavers);  // bytes for two batches of a warp
constexpr int BATCH = MOST * PARTICLE_BYTES * 2 <= ROOM ? MOST : 32, EACH = BATCH / 32;

// Particles on their way. A lane fetches 16 bytes at a time, so slots are fetched from a multiple of ALIGNED on.
constexpr int ALIGNED = 16 / sizeof(float);
struct Batch {
    __align__(16) double row[ROWS][BATCH];
    __align__(16) POS s[DIM][BATCH];
};

struct Shared {
    Fields fields;
    Leavers leavers;
    Batch batch[2];
};

// Start to fetch `n` items from `slot` on of N rows.
template <class T, int N>
__device__ inline void fetch_rows(T* const (&from)[N], Slot slot, int n, T (&to)[N][BATCH], int lane) {
    constexpr int PIECE = 16 / sizeof(T), PIECES = BATCH / PIECE;
#pragma unroll
    for (int r = 0; r < (N * PIECES + 31) / 32; ++r) {
        const int q = lane + 32 * r, row = q / PIECES, j = q % PIECES * PIECE;
        const T* source = from[0];
#pragma unroll
        for (int k = 1; k < N; ++k)
            if (row == k) source = from[k];
        if (row < N && j < n) copy_async((ulonglong2*)&to[row][j], (const ulonglong2*)&source[slot + j]);
    }
}

// Start to fetch `n` particles from `slot` on.
__device__ inline void fetch(const Store& from, Slot slot, int n, Batch& to, int lane) {
#if WEIGHTS && IDS
    double* const rows[ROWS] = {from.v[0], from.v[1], from.v[2], from.w, (double*)from.id};
#elif WEIGHTS
    double* const rows[ROWS] = {from.v[0], from.v[1], from.v[2], from.w};
#elif IDS
    double* const rows[ROWS] = {from.v[0], from.v[1], from.v[2], (double*)from.id};
#else
    double* const rows[ROWS] = {from.v[0], from.v[1], from.v[2]};
#endif
    POS* s[DIM];
#pragma unroll
    for (int k = 0; k < DIM; ++k) s[k] = from.s[k];
    fetch_rows<double, ROWS>(rows, slot, n, to.row, lane);
    fetch_rows<POS, DIM>(s, slot, n, to.s, lane);
    close_group();
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

// A cell and the slots first + begin … first + end - 1 that are to be pushed.
struct Cell {
    int number, begin, end;
    Slot first;

    __device__ int aligned() const { return begin / ALIGNED * ALIGNED; }
};

__device__ inline Cell cell_ahead(int number, int n_cells, const long long* first, const int* count, const int2* progress,
                                  int resume) {
    Cell cell = {number, 0, 0, 0};
    if (number < n_cells) {
        cell.first = (Slot)first[number];
        cell.begin = resume ? progress[number].x : 0;
        cell.end = resume ? progress[number].y : count[number];
    }
    return cell;
}

// s0 … id   : the particles; slots first[c] … first[c] + count[c] - 1 are cell c's, which in the end owns `count` that stayed.
// progress  : (begin, end) of the unbinned slots of each cell, counted from first[c]; empty unless the outbox was full.
// sums      : (warps, 5) of Σ ½wv², Σ wv, Σ w after the kick; NaN where a particle is lost.
// hx … hz   : Δt/Δ along the active dimensions.
// cut       : bit k: the block does not span the box along axis k; who leaves it there counts as far.
extern "C" __global__ void __launch_bounds__(32 * WARPS, OCCUPANCY)
    move_cells(STORE_PARAMETERS, const long long* first, int* count, int2* progress, Word* records, long long capacity,
               RunHead* heads, Word* status, double* sums, int nx, int ny, int nz, const double* E, const double* B,
               double beta, double hx, double hy, double hz, double uniform, int cut, int resume) {
    if (KICK) resume = 0;
    __shared__ Shared all[WARPS];
    const int lane = threadIdx.x & 31, warp = blockIdx.x * WARPS + (threadIdx.x >> 5), n_warps = gridDim.x * WARPS;
    const Grid grid = {nx, ny, nz};
    const int n_cells = grid.ncells();
    Shared& sh = all[threadIdx.x >> 5];
    const Store store = STORE;
    Outbox box = {records, capacity, heads, status, n_cells, 0, 0};
    const double h[3] = {hx, hy, hz};
    const unsigned below = (1u << lane) - 1u;
    unsigned unbinned = 0, leavers = 0;
    Sums total;

    double values[VALUES_PER_LANE];
    Cell cell = cell_ahead(warp, n_cells, first, count, progress, resume);
    Cell after = cell_ahead(warp + n_warps, n_cells, first, count, progress, resume);
    if (KICK && cell.number < n_cells) load_fields(E, B, grid, cell.number, lane, values);
    fetch(store, cell.first + cell.aligned(), cell.end - cell.aligned(), sh.batch[0], lane);
    int current = 0;

    while (cell.number < n_cells) {
        const Cell later = cell_ahead(after.number + n_warps, n_cells, first, count, progress, resume);
        if (KICK) to_polynomials(values, beta, (double*)sh.leavers.records, sh.fields, lane);
        if (KICK && after.number < n_cells) load_fields(E, B, grid, after.number, lane, values);
        const unsigned out = cut ? __ballot_sync(ALL, lane < BINS && leads_out(grid, cell.number, lane, cut)) : 0u;
        int stay = resume ? count[cell.number] : 0, staged = 0, unbinned_from = -1;
        int tail = resume ? last_run(heads, cell.number) : -1;
        // Send off the staged leavers; `read`: all slots below it are in registers or already dealt with.
        auto ship = [&](int read) {
            if (!flush(sh.leavers, staged, box, cell.number, tail, lane)) {
                unbinned_from = read - staged;
                unbinned += staged;
                for (int k = lane; k < staged; k += 32) {
                    Particle p;
                    unpack(&sh.leavers.records[k * WORDS], p);
                    save(store, cell.first + unbinned_from + k, p);
                }
            }
            staged = 0;
        };

        int done = cell.aligned();
        do {
            const bool more = done + BATCH < cell.end;
            fetch(store, more ? cell.first + done + BATCH : after.first + after.aligned(),
                  more ? cell.end - done - BATCH : after.end - after.aligned(), sh.batch[current ^ 1], lane);
            wait_groups<1>();
            __syncwarp();
            Particle p[EACH];
            unsigned leave[EACH], remain[EACH];
            int bin[EACH], leaving = 0;
#pragma unroll
            for (int u = 0; u < EACH; ++u) take(sh.batch[current], 32 * u + lane, p[u]);
            if constexpr (KICK) kick(sh.fields, p);
#pragma unroll
            for (int u = 0; u < EACH; ++u) {
                bool far, lost;
                const int j = done + 32 * u + lane;
                const bool mine = j < cell.end && (KICK || j >= cell.begin);
                push(h, p[u]);
                bin[u] = bin_of(p[u].s, far, lost);
                if (out >> bin[u] & 1u) far = true, bin[u] = STAY;
                if (KICK && mine) total.add(p[u], uniform, lost);
                leave[u] = __ballot_sync(ALL, mine && (far || bin[u] != STAY));
                remain[u] = __ballot_sync(ALL, mine) & ~leave[u];
                leaving += __popc(leave[u]);
            }
            if (unbinned_from < 0 && staged + leaving > STAGE) ship(done);
#pragma unroll
            for (int u = 0; u < EACH; ++u) {
                const bool leaves = leave[u] >> lane & 1u, stays = remain[u] >> lane & 1u;
                if (unbinned_from >= 0) {
                    if (leaves || stays) save(store, cell.first + done + 32 * u + lane, p[u]);
                    unbinned += __popc(leave[u]);
                    continue;
                }
                if (stays) save(store, cell.first + stay + __popc(remain[u] & below), p[u]);
                if (leaves) {
                    const int k = staged + __popc(leave[u] & below);
                    pack(p[u], &sh.leavers.records[k * WORDS]);
                    sh.leavers.bin[k] = (unsigned char)bin[u];
                }
                stay += __popc(remain[u]);
                staged += __popc(leave[u]);
            }
            leavers += leaving;
            __syncwarp();
            current ^= 1;
            done += BATCH;
        } while (done < cell.end);
        if (staged > 0) ship(cell.end);
        if (lane == 0) {
            count[cell.number] = stay;
            progress[cell.number] = int2{unbinned_from < 0 ? cell.end : unbinned_from, cell.end};
        }
        if (tail < 0) empty_head(heads[cell.number], lane);
        cell = after, after = later;
    }
    if (lane == 0 && unbinned > 0) atomicAdd(&status[UNBINNED], (Word)unbinned);
    if (lane == 0 && !resume) atomicAdd(&status[LEAVERS], (Word)leavers);
    if (KICK) total.write(sums, warp, lane);
}
