// Kick, push and sort by cell in one pass: first half, over the particles of each cell.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double WEIGHTS=0,1 IDS=0,1 GATHER=float,double KICK=0,1
//
// One warp owns a cell at a time. Cells are given out in order, to whoever is through with one: warps stay close together,
// which memory likes. E and B come to a cell once, as polynomials in shared memory. A warp takes a cell's slots in batches,
// lane -> particles lane, lane + 32; while it works on one batch, the next, be it of this cell or of the next, is on its way to
// shared memory. Those that stay go through a ring of two blocks there, and are written back compacted and in order, a block
// at a time, never behind a slot that is still to be read:
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
#include "batch.cuh"

struct Shared {
    Fields fields;
    Leavers leavers;
    Batch batch[2];
    Kept kept;
};

// Bytes of dynamic shared memory of a launch.
extern "C" {
__constant__ int launch_sizes[8] = {WARPS * sizeof(Shared)};
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
// sums      : (n_cells, 5) of Σ ½wv², Σ wv, Σ w after the kick; NaN where a particle is lost.
// hx … hz   : Δt/Δ along the active dimensions.
// cut       : bit k: the block does not span the box along axis k; who leaves it there counts as far.
extern "C" __global__ void __launch_bounds__(32 * WARPS, OCCUPANCY)
    move_cells(STORE_PARAMETERS, const long long* first, int* count, int2* progress, Word* records, long long capacity,
               RunHead* heads, Word* status, double* sums, int nx, int ny, int nz, const double* E, const double* B,
               double beta, double hx, double hy, double hz, double uniform, int cut, int resume) {
    if (KICK) resume = 0;
    extern __shared__ __align__(16) char memory[];
    const int lane = threadIdx.x & 31, warp = blockIdx.x * WARPS + (threadIdx.x >> 5), n_warps = gridDim.x * WARPS;
    const Grid grid = {nx, ny, nz};
    const int n_cells = grid.ncells();
    Shared& sh = ((Shared*)memory)[threadIdx.x >> 5];
    const Store store = STORE;
    Outbox box = {records, capacity, heads, status, n_cells, 0, 0};
    const double h[3] = {hx, hy, hz};
    const unsigned below = (1u << lane) - 1u;
    unsigned unbinned = 0, leavers = 0;

    double values[VALUES_PER_LANE];
    Cell cell = cell_ahead(warp, n_cells, first, count, progress, resume);
    Cell after = cell_ahead(warp + n_warps, n_cells, first, count, progress, resume);
    if (KICK && cell.number < n_cells) load_fields(E, B, grid, cell.number, lane, values);
    fetch(store, cell.first + cell.aligned(), cell.end - cell.aligned(), sh.batch[0], lane);
    int current = 0, drawn = lane == 0 ? (int)atomicAdd(&status[CELLS_DRAWN], (Word)1) : 0;

    while (cell.number < n_cells) {
        const int number = 2 * n_warps + __shfl_sync(ALL, drawn, 0);  // drawn long ago: nobody waits for it
        if (lane == 0) drawn = (int)atomicAdd(&status[CELLS_DRAWN], (Word)1);
        const Cell later = cell_ahead(number, n_cells, first, count, progress, resume);
        Sums total;
        if (KICK) to_polynomials(values, beta, (double*)sh.leavers.records, sh.fields, lane);
        if (KICK && after.number < n_cells) load_fields(E, B, grid, after.number, lane, values);
        const unsigned out = cut ? __ballot_sync(ALL, lane < BINS && leads_out(grid, cell.number, lane, cut)) : 0u;
        int stay = resume ? count[cell.number] : 0, staged = 0, unbinned_from = -1;
        int head = 0, kept = 0;  // of the ring, with KICK; without, every particle is written by itself
        int tail = resume ? last_run(heads, cell.number) : -1;
        // Send off the staged leavers; `read`: all slots below it are in registers or already dealt with.
        auto ship = [&](int read) {
            if (!flush(sh.leavers, staged, box, cell.number, tail, lane)) {
                if (kept > 0) write_back(sh.kept, head, kept, store, cell.first + stay, lane);
                stay += kept, kept = 0;
                __syncwarp();
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
                const int rank = __popc(remain[u] & below);
                if (KICK) {
                    if (stays) keep(sh.kept, (head + kept + rank) & 63, p[u]);
                    kept += __popc(remain[u]);
                    __syncwarp();
                    if (kept >= 32) {
                        write_back(sh.kept, head, 32, store, cell.first + stay, lane);
                        head ^= 32, kept -= 32, stay += 32;
                        __syncwarp();
                    }
                } else {
                    if (stays) save(store, cell.first + stay + rank, p[u]);
                    stay += __popc(remain[u]);
                }
                if (leaves) {
                    const int k = staged + __popc(leave[u] & below);
                    pack(p[u], &sh.leavers.records[k * WORDS]);
                    sh.leavers.bin[k] = (unsigned char)bin[u];
                }
                staged += __popc(leave[u]);
            }
            leavers += leaving;
            __syncwarp();
            current ^= 1;
            done += BATCH;
        } while (done < cell.end);
        if (staged > 0) ship(cell.end);
        if (kept > 0) write_back(sh.kept, head, kept, store, cell.first + stay, lane);
        stay += kept;
        if (lane == 0) {
            count[cell.number] = stay;
            progress[cell.number] = int2{unbinned_from < 0 ? cell.end : unbinned_from, cell.end};
        }
        if (tail < 0) empty_head(heads[cell.number], lane);
        if (KICK) total.write(sums, cell.number, lane);
        cell = after, after = later;
    }
    if (lane == 0 && unbinned > 0) atomicAdd(&status[UNBINNED], (Word)unbinned);
    if (lane == 0 && !resume) atomicAdd(&status[LEAVERS], (Word)leavers);
}
