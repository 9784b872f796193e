// Mass matrix and moments of particles in any order: a thread takes one particle and adds all its products to global
// memory with atomics. The simplest way, and the slowest: a baseline.
//
// variants: DIM=1,2,3 ORDER=1,2 POS=float,double GATHER=float,double COLUMNS=0,1,9
#define REAL double
#include "stencil.cuh"

// Of a launch: threads of a block.
extern "C" {
__constant__ int launch_sizes[8] = {128};
}

// cell[slot]: support cell of a particle, -1 where the slot is empty.
extern "C" __global__ void __launch_bounds__(128)
    mass_flat(const POS* s, const double* values, const double* w, long long pitch, const int* cell, long long slots, int nx,
              int ny, int nz, const double* B, double beta, double mass, double moment, double* stencil, double* moments) {
    const long long slot = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= slots || cell[slot] < 0) return;
    const Grid grid = {nx, ny, nz};
    const long long base = grid.first_node(cell[slot]), nodes = grid.nodes();

    Stored p;
    load({s, values, w, pitch}, slot, true, p);
    GATHER coef[PLASMA ? 3 * NODES : 1];
    if (PLASMA) {
        double f[3 * NODES];
        for (int q = 0; q < 3 * NODES; ++q) f[q] = beta * B[q / NODES * nodes + base + grid.support_node(q % NODES)];
        for (int k = 0, stride = 1; k < DIM; ++k, stride *= SUPPORT)
            for (int line = 0; line < 3 * NODES / SUPPORT; ++line)
                nodes_to_powers(f + line / stride * (stride * SUPPORT) + line % stride, stride);
        for (int q = 0; q < 3 * NODES; ++q) coef[PLASMA ? q : 0] = (GATHER)f[q];
    }
    double S[COMPONENTS], m[4], W[NODES];
    columns(p, coef, S, m);
    node_weights(p, W);
    for (int a = 0; a < NODES; ++a) {
        const long long node = base + grid.support_node(a);
        for (int k = 0; PLASMA && k < 4; ++k) atomicAdd(&moments[k * nodes + node], moment * W[a] * m[k]);
        for (int b = a; b < NODES; ++b) {
            if (!is_stored(a, b)) continue;
            double* to = stencil + (b - a) * COMPONENTS * nodes + node;
            for (int c = 0; c < COMPONENTS; ++c) atomicAdd(to + c * nodes, mass * W[a] * W[b] * S[c]);
        }
    }
}
