// Products of node weights and where they belong in the stored stencil, for the methods that work node by node.
#pragma once

#include "mass_columns.cuh"

// W of a particle at its support nodes, C order.
INLINE void node_weights(const Stored& p, double W[NODES]) {
    double phi[DIM][SUPPORT];
#pragma unroll
    for (int k = 0; k < DIM; ++k)
#pragma unroll
        for (int a = 0; a < SUPPORT; ++a) phi[k][a] = shape(a, p.s[k]);
#pragma unroll
    for (int u = 0; u < NODES; ++u) {
        double product = phi[DIM - 1][u % SUPPORT];
        if (DIM > 1) product *= phi[DIM > 1 ? DIM - 2 : 0][u / SUPPORT % SUPPORT];
        if (DIM > 2) product *= phi[0][u / (SUPPORT * SUPPORT)];
        W[u] = product;
    }
}

// The stencil keeps a pair of support nodes only as lowest and highest corner of its box, a <= b along each dimension; all
// other pairs of corners have the same number. The number of their offset is b - a then. Any a, b >= 0 can be asked for.
INLINE bool is_stored(int a, int b) {
    bool stored = a <= b && b < NODES && a % SUPPORT <= b % SUPPORT;
    if (DIM > 1) stored = stored && a / SUPPORT % SUPPORT <= b / SUPPORT % SUPPORT;
    if (DIM > 2) stored = stored && a / (SUPPORT * SUPPORT) <= b / (SUPPORT * SUPPORT);
    return stored;
}
