// Push fused with sort, second half: every cell appends the particles that its neighbours sent it.
//
// variants: DIM=1,2,3 POS=float,double WEIGHTS=0,1 IDS=0,1 RUNS=1,2
//
// One warp owns a cell at a time, lane b < 3^DIM looks after bin b: the leavers in direction b of the cell one step back
// along b. Arrivals are appended behind the cell's own particles bin by bin, within a bin in the order in which the sending
// cell met them: an order that depends on the particles alone. Far leavers are left in the outbox, for migrate.cu.
#define ORDER 1
#include "async.cuh"
#include "outbox.cuh"

// What a lane knows of one run of the bin it looks after. Nothing is computed from what was read, nor decided on it, before it
// is needed: nobody waits for it.
struct Segment {
    int run;
    unsigned base;
    Entry entry;

    __device__ unsigned first() const { return base + entry.before(); }
};

__device__ inline Segment segment(const RunHead* heads, int run, int bin) {
    return {run, heads[run].base, heads[run].bin[bin]};
}

// The run that follows, without records where there is none.
__device__ inline Segment following(const RunHead* heads, const Segment& s, int bin) {
    if (!s.entry.more()) return {0, 0, {0}};
    return segment(heads, heads[s.run].next, bin);
}

// The cell of which the leavers in direction `bin` end in the cell at `walk`: one step back, through the periodic faces.
__device__ inline int source_of(const Grid& grid, const Walk& walk, int bin) {
    const int n[3] = {grid.nx, grid.ny, grid.nz}, at[3] = {walk.x, walk.y, walk.z};
    int flat = 0;
#pragma unroll
    for (int axis = 3 - DIM; axis < 3; ++axis) {
        const int i = at[axis] - step_of(bin, axis - (3 - DIM));
        flat = flat * n[axis] + (i < 0 ? i + n[axis] : i >= n[axis] ? i - n[axis] : i);
    }
    return flat;
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

// A cell that waits for arrivals: its particles and slots, and the first two runs of the bin that this lane looks after.
struct Home {
    int cell, mine, needed;
    Slot begin, end;
    Segment run, second;
};

// Its arrivals sorted out. This lane's bin: `before` of the first two runs' records lie in bins below, `put` of all
// arrivals. Where there are no further runs, they go behind the cell's own particles one after the other; then they are
// counted from `lead` on, and the cell's last `lead` particles, which begin at a multiple of eight slots, are written
// again with them: sectors of 32 bytes are written whole.
struct Mail {
    unsigned whole;  // particles of the cell with the arrivals
    int before, put, n_first, lead;
    bool double_runs, scattered;
};

// Of the particle that this lane has on its way: its bin, and its slot counted from the cell's own particles on.
struct Place {
    int bin, to;
};

// Records on their way.
struct Letters {
    __align__(16) Word words[32 * WORDS];
};

// need : particles the cell has with its arrivals; where that exceeds its slots nothing is appended, count < need stays
//        as it was and the cell is counted in status[SHORT_CELLS]. again = 1: only such cells, after the store has grown.
// While a warp puts 32 arrivals into their slots, the next 32, of this cell or the next one, are on their way from the outbox,
// and for the cells after that the heads of the runs. RUNS: 2 where cells send so many that there is a second run, the heads of
// which are then read ahead as well; other runs, which are few, are waited for. A warp takes ROW cells in a row, whose sources
// lie in the same cache lines.
constexpr int ROW = 8;
constexpr bool TWO = RUNS == 2;

extern "C" __global__ void __launch_bounds__(128)
    append_arrivals(STORE_PARAMETERS, const long long* first, int* count, int* need, const Word* records, long long capacity,
                    const RunHead* heads, Word* status, int nx, int ny, int nz, int again) {
    const int lane = threadIdx.x & 31, n_warps = gridDim.x * 4;
    const Grid grid = {nx, ny, nz};
    const int n_cells = grid.ncells();
    const Store store = STORE;
    __shared__ Letters all[2][4];
    if (status[RECORDS] > capacity) return;

    // Lanes without a bin, and warps that are through, look at what is there and take nothing.
    const int bin = lane < BINS ? lane : STAY;
    const Walk one = Walk::at(grid, 1), jump = Walk::at(grid, ROW * (n_warps - 1) + 1);
    Walk walk = Walk::at(grid, ROW * (blockIdx.x * 4 + (threadIdx.x >> 5)));
    auto look = [&]() {
        const bool there = walk.cell < n_cells;
        const int c = there ? walk.cell : 0, source = there ? source_of(grid, walk, bin) : 0;
        const Home h = {walk.cell,      count[c],           again ? need[c] : -1,
                        (Slot)first[c], (Slot)first[c + 1], segment(heads, source, bin),
                        {0, 0, {0}}};
        walk.step(grid, (walk.cell + 1) % ROW ? one : jump);
        return h;
    };
    // Start to fetch numbers i0 … i0 + 31: a lane its own.
    auto take = [&](const Home& h, const Mail& m, int i0, Word* letters) {
        const int j = i0 + lane - m.lead;
        int from_bin = 0;  // the last lane with before <= j, empty bins passed over
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            if (__shfl_sync(ALL, m.before, from_bin + step) <= j) from_bin += step;
        const int in_bin = j - __shfl_sync(ALL, m.before, from_bin), put = __shfl_sync(ALL, m.put, from_bin) + in_bin;
        Word from = __shfl_sync(ALL, h.run.first(), from_bin) + in_bin;
        if (m.double_runs) {
            const int in_second = in_bin - __shfl_sync(ALL, h.run.entry.n(), from_bin);
            const Word second = __shfl_sync(ALL, h.second.first(), from_bin);
            if (in_second >= 0) from = second + in_second;
        }
        if (j >= 0 && j < m.n_first) {
#pragma unroll
            for (int k = 0; k < PACKETS; ++k)
                copy_async<true>((Packet*)letters + lane * PACKETS + k, (const Packet*)records + from * PACKETS + k);
        }
        if (j < 0 && m.n_first > 0) {
            const Slot slot = h.begin + h.mine + j;
            Word* letter = &letters[lane * WORDS];
#pragma unroll
            for (int k = 0; k < DIM; ++k) copy_async((POS*)letter + k, &store.s[k][slot]);
#pragma unroll
            for (int k = 0; k < 3; ++k) copy_async((double*)letter + S_WORDS + k, &store.v[k][slot]);
#if WEIGHTS
            copy_async((double*)letter + S_WORDS + 3, &store.w[slot]);
#endif
#if IDS
            copy_async(letter + S_WORDS + 3 + WEIGHTS, &store.id[slot]);
#endif
        }
        close_group();
        return Place{j < 0 ? STAY : from_bin, m.scattered ? put : j};
    };
    auto settle = [&](const Home& h, const Mail& m, int i0, const Place& place, const Word* letters) {
        const int n = m.lead + m.n_first, written = m.scattered ? n : (n + 7) / 8 * 8;
        __syncwarp();
        if (m.n_first > 0 && i0 + lane < written) {
            Particle p;
            unpack(&letters[lane * WORDS], p);
#pragma unroll
            for (int k = 0; k < DIM; ++k) from_double(to_double(p.s[k]) - step_of(place.bin, k), p.s[k]);
            save(store, h.begin + h.mine + place.to, p);
        }
        __syncwarp();
    };
    auto sort_out = [&](Home& h) {
        Mail m;
        if (bin == STAY || h.cell >= n_cells || (again && h.needed == h.mine)) h.run = h.second = {0, 0, {0}};
        const int early = h.run.entry.n() + h.second.entry.n();
        int total = early;
        for (Segment run = TWO ? h.second : h.run; run.entry.more();) {
            run = following(heads, run, bin);
            total += run.entry.n();
        }
        m.before = sum_below(early, lane);
        m.double_runs = TWO && __any_sync(ALL, h.run.entry.more());
        m.scattered = __any_sync(ALL, (TWO ? h.second : h.run).entry.more());
        m.put = m.scattered ? sum_below(total, lane) : m.before;
        m.whole = h.mine + __shfl_sync(ALL, m.put, 31);
        m.n_first = m.whole > h.end - h.begin ? 0 : __shfl_sync(ALL, m.before, 31);
        m.lead = m.scattered ? 0 : h.mine % 8;
        return m;
    };

    auto look_further = [&](Home& h) { h.second = following(heads, h.run, bin); };
    Home here = look(), next = look(), after = TWO ? look() : next;
    if (TWO) look_further(here), look_further(next);
    int current = 0;
    const int warp = threadIdx.x >> 5;
    Mail mail = sort_out(here);
    Place place = take(here, mail, 0, all[0][warp].words);
    while (here.cell < n_cells) {
        const Home last = look();
        if (TWO) look_further(after);
        const Mail next_mail = sort_out(next);
        const bool fits = mail.whole <= here.end - here.begin;
        if (lane == 0) {
            need[here.cell] = mail.whole;
            if (fits)
                count[here.cell] = mail.whole;
            else
                atomicAdd(&status[SHORT_CELLS], (Word)1);
        }
        const int n = mail.lead + mail.n_first;
        int i = 0;
        do {
            Word* free = all[current ^ 1][warp].words;
            const Place coming = i + 32 < n ? take(here, mail, i + 32, free) : take(next, next_mail, 0, free);
            wait_groups<1>();
            settle(here, mail, i, place, all[current][warp].words);
            place = coming, current ^= 1, i += 32;
        } while (i < n);
        if (TWO) {
            if (mail.scattered) mail.put += here.run.entry.n(), mail.double_runs = false;
            here.run = here.second;
        }
        while (fits && __any_sync(ALL, here.run.entry.more())) {  // further runs, one after the other
            Word* free = all[current ^ 1][warp].words;
            mail.put += here.run.entry.n();
            here.run = following(heads, here.run, bin);
            mail.before = sum_below(here.run.entry.n(), lane);
            mail.n_first = __shfl_sync(ALL, mail.before, 31);
            for (int k = 0; k < mail.n_first; k += 32) {
                const Place late = take(here, mail, k, free);
                wait_groups<0>();
                settle(here, mail, k, late, free);
            }
        }
        here = next, mail = next_mail;
        next = TWO ? after : last, after = last;
    }
}
