// Push fused with sort, second half: every cell appends the particles that its neighbours sent it.
//
// variants: DIM=1,2,3 POS=float,double WEIGHTS=0,1 IDS=0,1
//
// One warp owns a cell at a time, lane b < 3^DIM looks after bin b: the leavers in direction b of the cell one step back
// along b. Arrivals are appended behind the cell's own particles bin by bin, within a bin in the order in which the sending
// cell met them: an order that depends on the particles alone. Far leavers are left in the outbox; far_leavers hands
// them out in the order of their cells, for the plain sort.
#define ORDER 1
#include "outbox.cuh"

// One run of the bin a lane looks after: how many records, where the first one is, and the next run.
struct Segment {
    int n, next;
    unsigned first;
};

__device__ inline Segment segment(const RunHead* heads, int run, int bin) {
    Segment a = {0, -1, 0};
    if (run >= 0) {
        const RunHead& h = heads[run];
        a.n = h.start[bin + 1] - h.start[bin];
        a.first = h.base + h.start[bin];
        a.next = h.next;
    }
    return a;
}

// Where lane `bin` finds the leavers of direction `bin` that end in `cell`: their cell, -1 where there is none.
__device__ inline int source_of(const Grid& grid, int cell, int bin) {
    if (bin >= BINS || bin == STAY || cell >= grid.ncells()) return -1;
    int back[DIM];
#pragma unroll
    for (int k = 0; k < DIM; ++k) back[k] = -step_of(bin, k);
    return wandered(grid, {{grid.nx, grid.ny, grid.nz}, {0, 0, 0}}, cell, back);
}

__device__ inline void read_record(const Word* records, unsigned number, Particle& p) {
    __align__(16) Word record[WORDS];
    const Packet* from = (const Packet*)(records + (Word)number * WORDS);
#pragma unroll
    for (int k = 0; k < PACKETS; ++k) ((Packet*)record)[k] = from[k];
    unpack(record, p);
}

// Sum of `n` over the lanes below this one.
__device__ inline int sum_below(int n, int lane) {
    int sum = n;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(ALL, sum, step);
        if (lane >= step) sum += other;
    }
    return sum - n;
}

// need : particles the cell has with its arrivals; where that exceeds its slots nothing is appended, count < need stays
//        as it was and the cell is counted in status[SHORT_CELLS]. again = 1: only such cells, after the store has grown.
extern "C" __global__ void __launch_bounds__(128)
    append_arrivals(STORE_PARAMETERS, const long long* first, int* count, int* need, const Word* records, long long capacity,
                    const RunHead* heads, Word* status, int nx, int ny, int nz, int again) {
    const int lane = threadIdx.x & 31, n_warps = gridDim.x * 4;
    const Grid grid = {nx, ny, nz};
    const int n_cells = grid.ncells();
    const Store store = STORE;
    if (status[RECORDS] > capacity) return;
    int cell = blockIdx.x * 4 + (threadIdx.x >> 5);
    Segment ahead = segment(heads, source_of(grid, cell, lane), lane);  // of the cell after, once the loop runs

    for (; cell < n_cells; cell += n_warps) {
        Segment run = ahead;
        ahead = segment(heads, source_of(grid, cell + n_warps, lane), lane);
        const int mine = count[cell];
        if (again && need[cell] == mine) continue;
        const Slot begin = (Slot)first[cell], slots = (Slot)first[cell + 1] - begin;
        int total = run.n;
        for (int other = run.next; other >= 0; other = heads[other].next) total += segment(heads, other, lane).n;
        int put = sum_below(total, lane);
        const int whole = mine + __shfl_sync(ALL, put, 31);
        if (lane == 0) need[cell] = whole;
        if (whole > slots) {
            if (lane == 0) atomicAdd(&status[SHORT_CELLS], (Word)1);
            continue;
        }
        while (__any_sync(ALL, run.n > 0 || run.next >= 0)) {
            const int before = sum_below(run.n, lane), records_of_run = __shfl_sync(ALL, before, 31);
            for (int j0 = 0; j0 < records_of_run; j0 += 32) {
                const int j = j0 + lane;
                int bin = 0;  // the last lane with before <= j, empty bins passed over
#pragma unroll
                for (int step = 16; step > 0; step /= 2)
                    if (__shfl_sync(ALL, before, bin + step) <= j) bin += step;
                const int in_bin = j - __shfl_sync(ALL, before, bin), to = __shfl_sync(ALL, put, bin) + in_bin;
                const unsigned from = __shfl_sync(ALL, run.first, bin) + in_bin;
                if (j < records_of_run) {
                    Particle p;
                    read_record(records, from, p);
#pragma unroll
                    for (int k = 0; k < DIM; ++k) p.s[k] = (POS)(p.s[k] - (double)step_of(bin, k));
                    save(store, begin + mine + to, p);
                }
            }
            put += run.n;
            run = segment(heads, run.next, lane);
        }
        if (lane == 0) count[cell] = whole;
    }
}

// Far leavers of all cells. far_first == nullptr: far_count[c] = how many left cell c. Else those of cell c are copied
// to numbers far_first[c] … of the store given, wrapped, with their new cell of the whole box in `to`.
extern "C" __global__ void __launch_bounds__(128)
    far_leavers(STORE_PARAMETERS, int* to, int* far_count, const long long* far_first, const Word* records,
                const RunHead* heads, int nx, int ny, int nz, const Box box) {
    const int lane = threadIdx.x & 31, cell = blockIdx.x * 4 + (threadIdx.x >> 5);
    const Grid grid = {nx, ny, nz};
    if (cell >= grid.ncells()) return;
    const Store store = STORE;
    int n = 0;
    for (int r = cell; r >= 0;) {
        const Segment run = segment(heads, r, STAY);
        for (int j = lane; far_first && j < run.n; j += 32) {
            Particle p;
            int step[DIM];
            read_record(records, run.first + j, p);
#pragma unroll
            for (int k = 0; k < DIM; ++k) {
                step[k] = (int)floor((double)p.s[k] + 0.5);
                p.s[k] = (POS)((double)p.s[k] - step[k]);
            }
            const Slot number = (Slot)far_first[cell] + n + j;
            save(store, number, p);
            to[number] = wandered(grid, box, cell, step);
        }
        n += run.n;
        r = run.next;
    }
    if (!far_first && lane == 0) far_count[cell] = n;
}
