// The outbox: records of the particles that leave their cell, and the heads through which their new cells find them.
//
// A cell's leavers lie in runs, each sorted by bin. A cell's first run has the cell's own head; where there is another run, it
// has an extra head behind those of the cells, and `next` leads to it.
#pragma once

#include "wander.cuh"

constexpr int STAGE = 96;  // leavers a cell stages in shared memory before it writes a run
constexpr int POOL = 512;  // records a warp reserves at a time
static_assert(STAGE % 32 == 0 && STAGE <= 127, "an Entry has seven bits, sort_by_bin takes 32 at a time");

// Of a bin: the number of its records, behind how many others of the run they begin, and whether there is another run.
struct Entry {
    unsigned short bits;

    __device__ static Entry of(int before, int n) { return {(unsigned short)(before | n << 7)}; }
    __device__ int before() const { return bits & 127; }
    __device__ int n() const { return bits >> 7 & 127; }
    __device__ bool more() const { return bits >> 14; }
    __device__ void let_follow() { bits |= 1 << 14; }
};

// Records base … base + total - 1.
struct RunHead {
    unsigned base;
    int next;
    Entry bin[27];
    unsigned short total;
};

// Where the status of a move is counted (one Word each); RECORDS are reserved ones, AWAY_ those of the far ones that
// leave the block on a side, CELLS_DRAWN those given out to warps beyond the first two of each.
enum Status { RECORDS, EXTRA_RUNS, UNBINNED, FAR_RECORDS, SHORT_CELLS, LEAVERS, AWAY_LOW, AWAY_HIGH, CELLS_DRAWN };

struct Leavers {
    __align__(16) Word records[STAGE * WORDS];
    unsigned short order[STAGE];
    unsigned char bin[STAGE];
    int histogram[32];
};

// The outbox as one warp sees it; `next` to `end` is what it has reserved.
struct Outbox {
    Word* records;
    long long capacity;
    RunHead* heads;
    Word* status;
    int n_cells;
    unsigned next, end;
};

// Fill out.order with the staged leavers sorted by bin, stably. Lane b returns the entry of bin b for a head.
__device__ inline Entry sort_by_bin(Leavers& out, int staged, int lane) {
    int place[STAGE / 32];
    out.histogram[lane] = 0;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < STAGE / 32; ++r) {
        if (32 * r >= staged) break;
        const int k = 32 * r + lane;
        const int bin = k < staged ? out.bin[k] : 31;
        const unsigned peers = __match_any_sync(ALL, bin);
        const int rank = __popc(peers & ((1u << lane) - 1u));
        place[r] = out.histogram[bin] + rank;
        __syncwarp();
        if (rank == 0) out.histogram[bin] += __popc(peers);
        __syncwarp();
    }
    const int mine = lane < BINS ? out.histogram[lane] : 0;
    int below = mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(ALL, below, step);
        if (lane >= step) below += other;
    }
    below -= mine;
#pragma unroll
    for (int r = 0; r < STAGE / 32; ++r) {
        if (32 * r >= staged) break;
        const int k = 32 * r + lane;
        const int start = __shfl_sync(ALL, below, k < staged ? out.bin[k] : 31);
        if (k < staged) out.order[start + place[r]] = k;
    }
    __syncwarp();
    return Entry::of(below, mine);
}

// A head that leads to no leavers.
__device__ inline void empty_head(RunHead& head, int lane) {
    if (lane < 27) head.bin[lane] = Entry::of(0, 0);
    if (lane == 0) head.total = 0;
}

// The last run of a cell that has been through move_cells, -1 if it has none.
__device__ inline int last_run(const RunHead* heads, int cell) {
    int run = heads[cell].total > 0 ? cell : -1;
    while (run >= 0 && heads[run].bin[0].more()) run = heads[run].next;
    return run;
}

// Write the staged leavers to the outbox as one run of `cell`, linked behind run `tail` (-1: its first); false if full.
__device__ inline bool flush(Leavers& out, int staged, Outbox& box, int cell, int& tail, int lane) {
    if (box.next + staged > box.end) {
        Word base = 0;
        if (lane == 0) base = atomicAdd(&box.status[RECORDS], (Word)POOL);
        base = __shfl_sync(ALL, base, 0);
        if (base + POOL > box.capacity) return false;
        box.next = (unsigned)base, box.end = box.next + POOL;
    }
    const Entry entry = sort_by_bin(out, staged, lane);
    Packet* to = (Packet*)(box.records + (Word)box.next * WORDS);
    const Packet* from = (const Packet*)out.records;
    for (int q = lane; q < staged * PACKETS; q += 32) {
        const int k = q / PACKETS;
        to[q] = from[out.order[k] * PACKETS + (q - k * PACKETS)];
    }
    int head = cell;
    if (tail >= 0) {
        if (lane == 0) head = box.n_cells + (int)atomicAdd(&box.status[EXTRA_RUNS], (Word)1);
        head = __shfl_sync(ALL, head, 0);
        if (lane == 0) box.heads[tail].next = head;
        if (lane < BINS) box.heads[tail].bin[lane].let_follow();
    }
    const int far = __shfl_sync(ALL, entry.n(), STAY);
    if (lane < 27) box.heads[head].bin[lane] = entry;
    if (lane == 0) {
        box.heads[head].base = box.next;
        box.heads[head].total = (unsigned short)staged;
        if (far > 0) atomicAdd(&box.status[FAR_RECORDS], (Word)far);
    }
    box.next += staged;
    tail = head;
    __syncwarp();
    return true;
}
