// Products of node weights and where they belong in the stored stencil, for the methods that work node by node.
#pragma once

#include "mass_columns.cuh"

constexpr int SPAN = 2 * REACH + 1;

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

// Number in the half stencil of the offset from support node a to b >= a.
INLINE int offset_number(int a, int b) {
    int number = b % SUPPORT - a % SUPPORT;
    if (DIM > 1) number += SPAN * (b / SUPPORT % SUPPORT - a / SUPPORT % SUPPORT);
    if (DIM > 2) number += SPAN * SPAN * (b / (SUPPORT * SUPPORT) - a / (SUPPORT * SUPPORT));
    return number;
}
