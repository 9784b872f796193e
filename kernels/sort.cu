// The plain way beside the fused one: push in place with the new cell written down, then a full sort by cell.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double WEIGHTS=0,1 IDS=0,1 GATHER=float,double KICK=0,1
//
// One warp owns one cell, lane -> particle. The sort itself is a stable radix sort of the cell numbers, and one gather
// an attribute (store.py).
#include "push.cuh"
#include "wander.cuh"

// to : new cell of every slot that holds a particle; others are left alone. The other arguments are those of move_cells.
extern "C" __global__ void __launch_bounds__(128)
    push_in_place(STORE_PARAMETERS, const long long* first, const int* count, int* to, double* sums, int nx, int ny, int nz,
                  const double* E, const double* B, double beta, double hx, double hy, double hz, double uniform) {
    __shared__ Fields all[4];
    __shared__ double scratch[4][FIELD_VALUES];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, cell = blockIdx.x * 4 + warp;
    const Grid grid = {nx, ny, nz};
    if (cell >= grid.ncells()) return;
    const double h[3] = {hx, hy, hz};
    const Store store = STORE;
    Sums total;
    if (KICK) {
        double values[VALUES_PER_LANE];
        load_fields(E, B, grid, cell, lane, values);
        to_polynomials(values, beta, scratch[warp], all[warp], lane);
    }
    const Slot base = (Slot)first[cell];
    for (int j = lane; j < count[cell]; j += 32) {
        Particle one[1], &p = one[0];
        load(store, base + j, p);
        if constexpr (KICK) kick(all[warp], one);
        push(h, p);
        bool far, lost;
        bin_of(p.s, far, lost);
        if (KICK) total.add(p, uniform, lost);
        int step[DIM];
#pragma unroll
        for (int k = 0; k < DIM; ++k) {
            step[k] = lost ? 0 : (int)floor((double)p.s[k] + 0.5);
            p.s[k] = (POS)((double)p.s[k] - step[k]);
        }
        save(store, base + j, p);
        to[base + j] = wandered(grid, {{nx, ny, nz}, {0, 0, 0}}, cell, step);
    }
    if (KICK) total.write(sums, cell, lane);
}
