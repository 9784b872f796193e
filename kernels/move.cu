// Kick, push and sort by cell in one pass: first half, over the particles of each cell.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double WEIGHTS=0,1 IDS=0,1 GATHER=float,double KICK=0,1
//
// One warp owns one cell. E and B come to it once, as polynomials in shared memory. It walks over the cell's slots in
// chunks of 32·UNROLL particles, lane -> particle, the next chunk already on its way (PREFETCH). Those that stay are
// written back compacted and in order, never behind a slot that is still to be read:
//
//     slots  | stay 0 … stay-1 |  gap  | chunk in registers | to be read … |   slack   |
//
// Leavers are staged in shared memory in the order they are met, with their position not yet wrapped, and flushed to
// the outbox as a run sorted by bin when the stage is full or the cell is done. move_arrivals.cu brings them home.
// Where in the outbox a run lies depends on timing; nothing that is computed does.
//
// Outbox full: the staged leavers go into the gap, right before the current chunk, and from there on every particle is
// written back to its own slot, kicked and pushed but not wrapped. `progress` says which slots are in that state; after
// the outbox has grown, the same kernel with KICK = 0, dt = 0 and `resume` = 1 bins them. The gap always has room: it
// holds one slot for each leaver so far.
#include "outbox.cuh"
#include "push.cuh"

#ifndef WARPS
#define WARPS 4       // cells per block
#define OCCUPANCY 5   // blocks per multiprocessor the registers must allow
#define UNROLL 1      // chunks of 32 particles computed at a time
#define PREFETCH 1    // 1: the next ones are loaded meanwhile
#endif
constexpr int CHUNK = 32 * UNROLL;

struct Shared {
    Fields fields;
    Leavers leavers;
};

// s, v … id : the particles; slots first[c] … first[c] + count[c] - 1 are cell c's, which in the end owns `count` that stayed.
// progress  : (first, last) unbinned slot of each cell, counted from first[c]; empty unless the outbox was full.
// sums      : (n_cells, 5) of Σ ½wv², Σ wv, Σ w after the kick; NaN where a particle is lost.
// hx … hz   : Δt/Δ along the active dimensions.
extern "C" __global__ void __launch_bounds__(32 * WARPS, OCCUPANCY)
    move_cells(POS* s, double* v, double* w, Word* id, long long pitch, const long long* first, int* count, int2* progress,
               Word* records, long long capacity, RunHead* heads, Word* status, double* sums, int nx, int ny, int nz,
               const double* E, const double* B, double beta, double hx, double hy, double hz, double uniform, int resume) {
    __shared__ Shared all[WARPS];
    const int lane = threadIdx.x & 31, cell = blockIdx.x * WARPS + (threadIdx.x >> 5);
    const Grid grid = {nx, ny, nz};
    if (cell >= grid.ncells()) return;
    Shared& sh = all[threadIdx.x >> 5];
    const Outbox box = {records, capacity, heads, status, grid.ncells()};
    const long long base = first[cell];
    const Store store = {s + base, v + base, WEIGHTS ? w + base : w, IDS ? id + base : id, pitch};
    const double h[3] = {hx, hy, hz};
    const unsigned below = (1u << lane) - 1u;

    int stay = resume ? count[cell] : 0, tail = -1, staged = 0;
    int done = resume ? progress[cell].x : 0, unbinned_from = -1;
    const int end = resume ? progress[cell].y : count[cell];
    if (resume) {
        if (done == end) return;
        if (heads[cell].start[27] > 0) tail = cell;
        while (tail >= 0 && heads[tail].next >= 0) tail = heads[tail].next;
    }
#if KICK
    gather_fields(E, B, grid, cell, beta, (double*)sh.leavers.records, sh.fields, lane);
    Sums total;
#endif
    Particle now[UNROLL], next[UNROLL];
    auto fetch = [&](Particle* p, int from) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            if (from + 32 * u + lane < end) load(store, from + 32 * u + lane, p[u]);
    };
    if (PREFETCH) fetch(next, done);

    Word unbinned = 0;
    for (;; done += CHUNK) {
        unsigned leave[UNROLL], live[UNROLL];
        int bin[UNROLL], incoming = 0;
        if (PREFETCH) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) now[u] = next[u];
            fetch(next, done + CHUNK);
        } else {
            fetch(now, done);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            Particle& p = now[u];
            bool far = false, lost = false;
            bin[u] = STAY;
            const bool mine = done + 32 * u + lane < end;
            if (mine) {
#if KICK
                kick(sh.fields, p);
#endif
                push(h, p);
                bin[u] = bin_of(p.s, far, lost);
#if KICK
                total.add(p, uniform, lost);
#endif
            }
            live[u] = __ballot_sync(ALL, mine);
            leave[u] = __ballot_sync(ALL, mine && (far || bin[u] != STAY));
            incoming += __popc(leave[u]);
        }
        const bool finished = done >= end;
        if (staged > 0 && unbinned_from < 0 && (finished || staged + incoming > STAGE)) {
            if (!flush(sh.leavers, staged, box, cell, tail, lane)) {
                unbinned_from = min(done, end) - staged;
                unbinned += staged;
                for (int k = lane; k < staged; k += 32) {
                    Particle p;
                    unpack(&sh.leavers.records[k * WORDS], p);
                    save(store, unbinned_from + k, p);
                }
            }
            staged = 0;
        }
        if (finished) break;
        __syncwarp();  // every lane has its particle in registers before any slot is written
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const bool leaves = leave[u] >> lane & 1, stays = (live[u] & ~leave[u]) >> lane & 1;
            if (unbinned_from >= 0) {
                if (leaves || stays) save(store, done + 32 * u + lane, now[u]);
                unbinned += __popc(leave[u]);
                continue;
            }
            if (stays) save(store, stay + __popc(live[u] & ~leave[u] & below), now[u]);
            if (leaves) {
                const int k = staged + __popc(leave[u] & below);
                pack(now[u], &sh.leavers.records[k * WORDS]);
                sh.leavers.bin[k] = (unsigned char)bin[u];
            }
            stay += __popc(live[u] & ~leave[u]);
            staged += __popc(leave[u]);
        }
        __syncwarp();
    }

    if (lane == 0) {
        count[cell] = stay;
        progress[cell] = unbinned_from < 0 ? int2{end, end} : int2{unbinned_from, end};
        if (unbinned > 0) atomicAdd(&status[UNBINNED], unbinned);
    }
    if (tail < 0 && !resume) {
        if (lane < 28) heads[cell].start[lane] = 0;
        if (lane == 0) heads[cell].next = -1;
    }
#if KICK
    total.write(sums, cell, lane);
#endif
}
