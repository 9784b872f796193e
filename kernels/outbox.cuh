// The outbox: records of the particles that leave their cell, and the heads through which their new cells find them.
//
// A cell's leavers lie in runs, each sorted by bin: record base + start[b] is the first of bin b, base + start[b + 1] the
// one after its last. A cell's first run has the cell's own head; `next` leads on to extra heads behind those, -1 ends.
#pragma once

#include "particles.cuh"

#ifndef STAGE
#define STAGE 96   // leavers a cell stages in shared memory before it writes a run
#endif

struct RunHead {
    unsigned base;
    int next;
    unsigned short start[28];
};

// Where the status of a move is counted (one Word each).
enum Status { RECORDS, EXTRA_RUNS, UNBINNED, FAR_RECORDS, SHORT_CELLS, STATUS_WORDS };

struct Leavers {
    __align__(16) Word records[STAGE * WORDS];
    unsigned short order[STAGE];
    unsigned char bin[STAGE];
    int histogram[32];
};

struct Outbox {
    Word* records;
    long long capacity;
    RunHead* heads;
    Word* status;
    int n_cells;
};

// Fill out.order with the staged leavers sorted by bin, stably. Lane b returns how many lie in bins below b.
__device__ inline int sort_by_bin(Leavers& out, int staged, int lane) {
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
    return below;
}

// A head that leads to no leavers.
__device__ inline void empty_head(RunHead& head, int lane) {
    if (lane < 28) head.start[lane] = 0;
    if (lane == 0) head.next = -1;
}

// The last run of a cell that has been through move_cells, -1 if it has none.
__device__ inline int last_run(const RunHead* heads, int cell) {
    int run = heads[cell].start[27] > 0 ? cell : -1;
    while (run >= 0 && heads[run].next >= 0) run = heads[run].next;
    return run;
}

// Write the staged leavers to the outbox as one run of `cell`, linked behind run `tail` (-1: its first); false if full.
__device__ inline bool flush(Leavers& out, int staged, const Outbox& box, int cell, int& tail, int lane) {
    Word base = 0;
    if (lane == 0) base = atomicAdd(&box.status[RECORDS], (Word)staged);
    const int start = sort_by_bin(out, staged, lane);
    base = __shfl_sync(ALL, base, 0);
    if (base + staged > box.capacity) return false;
    Packet* to = (Packet*)(box.records + base * WORDS);
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
    }
    const int far = __shfl_sync(ALL, start, STAY + 1) - __shfl_sync(ALL, start, STAY);
    if (lane < 28) box.heads[head].start[lane] = (unsigned short)start;
    if (lane == 0) {
        box.heads[head].base = (unsigned)base;
        box.heads[head].next = -1;
        if (far > 0) atomicAdd(&box.status[FAR_RECORDS], (Word)far);
    }
    tail = head;
    __syncwarp();
    return true;
}
