// Mass matrix and moments in pair-product form: D[u, c] = sum_p t^u S_c of every cell, on tensor cores, one writer a number.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double GATHER=float,double REAL=double,float COLUMNS=0,1,9
//
// A warp owns CELLS neighbouring cells and walks over their particles in chunks of 32, each cell's run padded to a multiple
// of 8 (and at least 8):
//     slot    | cell 0, 8 ... | cell 1, 8 ... | ...     lane -> slot of the chunk, the next chunk already on its way
// A particle's lane writes its columns and monomials to shared memory (Tiles::stage), one row a quantity, one column a
// particle; the warp multiplies eight particles at a time (Tiles::multiply) and writes D where a cell's run ends.
#if ORDER == 1
#include "pair_cic.cuh"
#else
#include "pair_tsc.cuh"
#endif

constexpr unsigned ALL = 0xffffffffu;
constexpr int WARPS = 4;
constexpr int BLOCKS = ORDER == 2 ? 3 : COLUMNS == 9 || sizeof(POS) == 8 ? 4 : 5;  // as its registers allow, without spilling

template <int CELLS>
struct __align__(16) Shared {
    REAL rows[Tiles::ROWS * Tiles::PITCH];
    GATHER coef[CELLS][PLASMA ? 3 * NODES / 2 * 2 + 2 : 2];
};

// Where the slots of a warp's cells are: lane c knows cell c.
template <int CELLS>
struct Runs {
    long long first;
    int n, end;  // particles, and the slot behind the last

    __device__ __forceinline__ Runs(const long long* firsts, const int* counts, int cell, int ncells, int lane) {
        const bool mine = lane < CELLS && cell + lane < ncells;
        first = mine ? firsts[cell + lane] : 0;
        n = mine ? counts[cell + lane] : 0;
        end = mine ? max((n + 7) / 8 * 8, 8) : 0;
#pragma unroll
        for (int step = 1; step < CELLS; step *= 2) {
            const int other = __shfl_up_sync(ALL, end, step);
            if (lane >= step) end += other;
        }
    }
    __device__ __forceinline__ int slots() const { return __shfl_sync(ALL, end, CELLS - 1); }

    // Which cell and particle a slot is; `last` tells whether the slot is the cell's last. Returns whether there is one.
    __device__ __forceinline__ bool find(int slot, int& c, long long& particle, bool& last) const {
        c = 0;
#pragma unroll
        for (int k = 0; k < CELLS - 1; ++k) c += slot >= __shfl_sync(ALL, end, k);
        const int below = __shfl_sync(ALL, end, c == 0 ? 0 : c - 1), r = slot - (c == 0 ? 0 : below);
        particle = __shfl_sync(ALL, first, c) + r;
        last = slot + 1 == __shfl_sync(ALL, end, c);
        return r < __shfl_sync(ALL, n, c);
    }
};

template <int CELLS>
__device__ __forceinline__ void pair(const Particles& particles, const long long* firsts, const int* counts, const Grid& grid,
                                     const double* B, double beta, double mass, double moment, double* D, bool add) {
    extern __shared__ __align__(16) char memory[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, cell0 = (blockIdx.x * WARPS + warp) * CELLS;
    if (cell0 >= grid.ncells()) return;
    Shared<CELLS>& shared = ((Shared<CELLS>*)memory)[warp];
    constexpr int lanes = 32 / CELLS;  // for the field of one cell
    const int own = lane / lanes;
    NodalField<lanes> field;
    if (PLASMA) field.load(B, grid, min(cell0 + own, grid.ncells() - 1), lane % lanes);
    const Runs<CELLS> runs(firsts, counts, cell0, grid.ncells(), lane);
    const int slots = runs.slots();

    int c;
    long long particle;
    bool last;
    Stored next;
    bool valid = runs.find(lane, c, particle, last);
    load(particles, particle, valid, next);
    if (PLASMA) field.polynomials(beta, (double*)shared.rows + own * 3 * NODES, shared.coef[own], lane % lanes, ALL);

    Tiles tiles;
    tiles.clear();
    Tiles::prepare(shared.rows + lane);
    double* out = D + (long long)cell0 * CELL_SIZE;
    auto write = [&out, add](int place, double first, double second) {
        if (add) {  // the only ones to write here, so the order is fixed; and nobody waits for what was there
            atomicAdd(out + place, first);
            atomicAdd(out + place + 1, second);
        } else {
            *(double2*)(out + place) = {first, second};
        }
    };
    for (int base = 0; base < slots; base += 32) {
        const Stored p = next;
        const int of = c;
        const unsigned ends = __ballot_sync(ALL, last);
        if (base + 32 < slots) {
            valid = runs.find(base + 32 + lane, c, particle, last);
            load(particles, particle, valid, next);
        }
        REAL t[3], S[COMPONENTS], m[4];
        coordinates(p, t);
        columns(p, shared.coef[of], S, m);
        Tiles::stage(shared.rows + lane, t, S, m);
        __syncwarp();
#pragma unroll(CELLS == 1 ? 4 : 1)
        for (int step = 0; step < 32; step += 8) {
            if (base + step >= slots) break;
            tiles.multiply(shared.rows, step, lane, (POS)2 * p.s[0]);
            if (CELLS > 1 && (ends >> (step + 7) & 1)) {
                tiles.store(lane, mass, moment, write);
                tiles.clear();
                out += CELL_SIZE;
            }
        }
        __syncwarp();
    }
    if (CELLS == 1) tiles.store(lane, mass, moment, write);
}

constexpr int FEW = 4;

// Of a launch of mass_pair and of mass_pair_few: threads, cells a block, bytes of shared memory; then the size of a cell's D.
extern "C" {
__constant__ int launch_sizes[8] = {
    32 * WARPS, WARPS, WARPS * (int)sizeof(Shared<1>), 32 * WARPS, WARPS * FEW, WARPS * (int)sizeof(Shared<FEW>), CELL_SIZE};
}

// first[c], count[c] : a cell's particles.  B : padded nodes (3, ...).  beta : scales B; mass, moment: scale D's columns.
// D : (n_cells, CELL_SIZE), written, or added to where `add`.
#define ARGUMENTS                                                                                                           \
    const POS *s, const double *values, const double *w, long long pitch, const long long *first, const int *count, int nx, \
        int ny, int nz, const double *B, double beta, double mass, double moment, double *D, int add

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) mass_pair(ARGUMENTS) {
    pair<1>({s, values, w, pitch}, first, count, {nx, ny, nz}, B, beta, mass, moment, D, add);
}

// The same for few particles a cell: several cells a warp.
extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) mass_pair_few(ARGUMENTS) {
    pair<FEW>({s, values, w, pitch}, first, count, {nx, ny, nz}, B, beta, mass, moment, D, add);
}
