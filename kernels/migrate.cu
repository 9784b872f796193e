// Particles on their way to other blocks, or further than to a neighbouring cell: from the outbox into rows, one a particle,
// and from rows into their cells.
//
// variants: DIM=1,2,3 POS=float,double WEIGHTS=0,1 IDS=0,1
//
// A row is the flat cell in the whole box, as a double, and the particle's record. Rows lie by side (those that stay in this
// block, those that go to its low, to its high neighbour along one dimension), within a side in the order of the cells
// they come from, within a cell in the order in which it met them. Arrivals are appended in the order of their rows.
#define ORDER 1
#include "outbox.cuh"

constexpr int ROW = 1 + WORDS;
constexpr int CROWD = 1024;  // arrivals in one cell from which on they are left to a sort; to rank n takes n² steps

// Call f(number) for the record of every far leaver of a cell.
template <class F>
__device__ inline void each_far(const RunHead* heads, int cell, F f) {
    for (int run = cell;; run = heads[run].next) {
        const Entry entry = heads[run].bin[STAY];
        for (int j = 0; j < entry.n(); ++j) f(heads[run].base + entry.before() + j);
        if (!entry.more()) return;
    }
}

// Wrap the position of a far leaver of `cell`; its cell of the whole box.
__device__ inline int wrap(const Grid& grid, const Box& box, int cell, Particle& p) {
    int step[DIM];
#pragma unroll
    for (int k = 0; k < DIM; ++k) {
        step[k] = (int)floor((double)p.s[k] + 0.5);
        from_double(to_double(p.s[k]) - step[k], p.s[k]);
    }
    return wandered(grid, box, cell, step);
}

// Coordinate along `axis` of a flat cell of the whole box.
__device__ inline int along(const Box& box, int cell, int axis) {
    return coordinate({box.cells[0], box.cells[1], box.cells[2]}, cell, axis);
}

// sides[i] : where to go with coordinate i along `axis` of the whole box: 0 stay, 1 low, 2 high; null: all stay.
__device__ inline int side_of(const Box& box, int cell, const signed char* sides, int axis) {
    return sides ? sides[along(box, cell, axis)] : 0;
}

// counts[side][cell] = far leavers of each cell by side; in all, in status[AWAY_LOW] and status[AWAY_HIGH].
extern "C" __global__ void __launch_bounds__(128)
    count_leavers(int* counts, const Word* records, long long capacity, const RunHead* heads, Word* status, int nx, int ny,
                  int nz, const Box box, const signed char* sides, int axis) {
    const Grid grid = {nx, ny, nz};
    const int cell = blockIdx.x * 128 + threadIdx.x, n_cells = grid.ncells();
    if (cell >= n_cells || status[RECORDS] > capacity) return;
    int low = 0, high = 0, all = 0;
    each_far(heads, cell, [&](unsigned number) {
        Particle p;
        unpack(records + (Word)number * WORDS, p);
        const int side = side_of(box, wrap(grid, box, cell, p), sides, axis);
        ++all, low += side == 1, high += side == 2;
    });
    counts[cell] = all - low - high, counts[n_cells + cell] = low, counts[2LL * n_cells + cell] = high;
    if (low) atomicAdd(&status[AWAY_LOW], (Word)low);
    if (high) atomicAdd(&status[AWAY_HIGH], (Word)high);
}

// The first n rows; ends: running sums of counts.
extern "C" __global__ void __launch_bounds__(128)
    pack_leavers(Word* rows, int n, const int* counts, const int* ends, const Word* records, long long capacity,
                 const RunHead* heads, const Word* status, int nx, int ny, int nz, const Box box, const signed char* sides,
                 int axis) {
    const Grid grid = {nx, ny, nz};
    const int cell = blockIdx.x * 128 + threadIdx.x, n_cells = grid.ncells();
    if (cell >= n_cells || status[RECORDS] > capacity) return;
    int next[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) next[k] = ends[(long long)k * n_cells + cell] - counts[(long long)k * n_cells + cell];
    each_far(heads, cell, [&](unsigned from) {
        Particle p;
        __align__(16) Word record[WORDS];
        unpack(records + (Word)from * WORDS, p);
        const int to = wrap(grid, box, cell, p), side = side_of(box, to, sides, axis);
        pack(p, record);
        const int number = side == 0 ? next[0]++ : side == 1 ? next[1]++ : next[2]++;
        if (number >= n) return;
        Word* row = rows + (long long)number * ROW;
        row[0] = bits((double)to);
#pragma unroll
        for (int k = 0; k < WORDS; ++k) row[1 + k] = record[k];
    });
}

// The block's own cell of a row.
__device__ inline int local_cell(const Word* row, const Grid& grid, const Box& box) {
    double cell;
    from_bits(row[0], cell);
    const int n[3] = {grid.nx, grid.ny, grid.nz};
    int flat = 0;
#pragma unroll
    for (int axis = 3 - DIM; axis < 3; ++axis) flat = flat * n[axis] + along(box, (int)cell, axis) - box.origin[axis];
    return flat;
}

// cells[i] = the block's cell of row i, added[cell] += 1.
extern "C" __global__ void __launch_bounds__(128)
    count_arrivals(const Word* rows, int n, int* cells, int* added, int nx, int ny, int nz, const Box box) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    cells[i] = local_cell(rows + (long long)i * ROW, {nx, ny, nz}, box);
    atomicAdd(&added[cells[i]], 1);
}

// list[start of the cell …] = its rows, in any order; ends: running sums of added, afterwards the starts.
extern "C" __global__ void __launch_bounds__(128) list_arrivals(const int* cells, int n, int* ends, int* list) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) list[atomicSub(&ends[cells[i]], 1) - 1] = i;
}

// Append the rows of every cell in their order, and clear added[cell]; where there is no room, or a crowd arrives, nothing
// happens, and added[n_cells] counts the cell.
extern "C" __global__ void __launch_bounds__(128)
    append_rows(STORE_PARAMETERS, const long long* first, int* count, const Word* rows, const int* list, const int* starts,
                int* added, int n_cells) {
    const int lane = threadIdx.x & 31, begin = (blockIdx.x * 4 + (threadIdx.x >> 5)) * 32;
    const Store store = STORE;
    const int arrivals = begin + lane < n_cells ? added[begin + lane] : 0;
    for (unsigned todo = __ballot_sync(ALL, arrivals > 0); todo; todo &= todo - 1) {
        const int from = __ffs(todo) - 1, cell = begin + from, n = __shfl_sync(ALL, arrivals, from), before = count[cell];
        const int* mine = list + starts[cell];
        if (n > CROWD || before + n > first[cell + 1] - first[cell]) {
            if (lane == 0) atomicAdd(&added[n_cells], 1);
            continue;
        }
        for (int i = lane; i < n; i += 32) {
            const int number = mine[i];
            int rank = 0;
            for (int j = 0; j < n; ++j) rank += mine[j] < number;
            Particle p;
            __align__(16) Word record[WORDS];
#pragma unroll
            for (int k = 0; k < WORDS; ++k) record[k] = rows[(long long)number * ROW + 1 + k];
            unpack(record, p);
            save(store, (Slot)first[cell] + before + rank, p);
        }
        __syncwarp();
        if (lane == 0) count[cell] = before + n, added[cell] = 0;
    }
}
