"""From the power sums of cells to nodes and node pairs, and on to the stencil and the moments.

All arrays here have one column a cell, ``WIDTH`` cells of a row. Since neighbouring cells share nodes, what they give
to one row of nodes is first added up in registers; what belongs to nodes beyond the last cell is carried to the next
cells of the row. So a row of cells reads and writes every number of the stencil once.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline
from ecsim.backend.cpu.formulas import pair_products, powers_to_nodes
from ecsim.backend.cpu.lanes import WIDTH, shift, spread
from ecsim.backend.cpu.memory import get, get_item, get_some, prefetch, put, put_some


@inline
def expand_along(order, source, row, outer_step, step, target, outer, inner):
    """Power sums to pair products along one dimension: ``outer`` slower and ``inner`` faster indices stay.

    The sum of power k for indices o and i stands in source[row + o·outer_step + k·step + i].
    """
    last, products = 2 * order, 3 * order
    for o in range(outer):
        for i in range(inner):
            at, to = row + o * outer_step + i, products * o * inner + i
            q0, q1, q2, q3, q4, q5 = pair_products(
                order, get(source, (at, 0)), get(source, (at + step, 0)), get(source, (at + 2 * step, 0)),
                get(source, (at + (last - 1) * step, 0)), get(source, (at + last * step, 0)))
            put(target, (to, 0), q0)
            put(target, (to + inner, 0), q1)
            put(target, (to + 2 * inner, 0), q2)
            if order == 2:
                put(target, (to + 3 * inner, 0), q3)
                put(target, (to + 4 * inner, 0), q4)
                put(target, (to + 5 * inner, 0), q5)


@inline
def expand_pairs(d, order, sums, row, outer_step, step, work, out):
    """out[q]: all products of node pairs of one component, products of dimensions in C order.

    Its power sums stand ``step`` apart in the last dimension's power, ``outer_step`` in the others, from sums[row] on.
    """
    powers, q = 2 * order + 1, 3 * order
    if d == 1:
        expand_along(order, sums, row, outer_step, step, out, 1, 1)
    elif d == 2:
        expand_along(order, sums, row, outer_step, step, work, powers, 1)
        expand_along(order, work, 0, 0, q, out, 1, q)
    else:
        expand_along(order, sums, row, outer_step, step, out, powers * powers, 1)
        expand_along(order, out, 0, powers * q, q, work, powers, q)
        expand_along(order, work, 0, 0, q * q, out, 1, q * q)


@inline
def expand_nodes(d, order, sums, row, stride):
    """In place: power sums sums[row], sums[row + stride], … of exponents ≤ order become sums of W over the nodes."""
    m = order + 1
    step = 1
    for _ in range(d):
        for a in range(m**d):
            if (a // step) % m == 0:
                at, by = row + a * stride, step * stride
                n0, n1, n2 = powers_to_nodes(order, get(sums, (at, 0)), get(sums, (at + by, 0)),
                                             get(sums, (at + order * by, 0)))
                put(sums, (at, 0), n0)
                put(sums, (at + by, 0), n1)
                if order == 2:
                    put(sums, (at + order * by, 0), n2)
        step *= m


@inline
def add_lanes(target, at, x):
    """target[at : at + WIDTH] += x, but nothing beyond the end of the array (where x must be 0)."""
    if at + WIDTH <= target.size:
        put(target, at, get(target, at) + x)
    else:
        put_some(target, at, target.size - at, get_some(target, at, target.size - at) + x)


@inline
def add_along_row(order, source, q0, q1, q2, carry, k, target, at, count, ends):
    """Add what ``count`` cells of a row give to its nodes: source[q0] to a cell's first node, [q1] to its next, ….

    What falls beyond the WIDTH-th node waits in carry[k] for the next cells, or is added at once if the row ``ends``.
    """
    second = get(source, (q1, 0))
    value = get(carry, (k, 0)) + get(source, (q0, 0)) + shift(second, 1)
    beyond = shift(second, -7)
    if order == 2:
        third = get(source, (q2, 0))
        value += shift(third, 2)
        beyond += shift(third, -6)
    add_lanes(target, at, value)
    if ends:
        put(carry, (k, 0), spread(0.0))
        if count + order > WIDTH:
            put_some(target, at + WIDTH, order, get_some(target, at + WIDTH, order) + beyond)
    else:
        put(carry, (k, 0), beyond)


@inline
def prefetch_pairs(tables, stencil, components, size, base):
    """Ask for the parts of the stencil that ``scatter_pairs`` will add to."""
    for k in range(tables.row_offset.size):
        at = get_item(tables.row_offset, k) * components * size + base + get_item(tables.row_node, k)
        for c in range(components):
            prefetch(stencil, at + c * size)
            prefetch(stencil, at + c * size + WIDTH)


@inline
def scatter_pairs(order, products, tables, stencil, components, component, size, carry, base, count, ends):
    """Add the node pairs of one component to the stencil (flat); products[last] must be 0.

    base : first support node of the first cell.
    """
    m, rows = order + 1, tables.row_offset.size
    for k in range(rows):
        at = (get_item(tables.row_offset, k) * components + component) * size + base + get_item(tables.row_node, k)
        q0, q1, q2 = (get_item(tables.row_products, m * k), get_item(tables.row_products, m * k + 1),
                      get_item(tables.row_products, m * k + order))
        add_along_row(order, products, q0, q1, q2, carry, component * rows + k, stencil, at, count, ends)


@inline
def scatter_nodes(d, order, sums, row, stride, node, out, base, carry, k, count, ends):
    """Turn the power sums of one moment into nodes and add them to ``out`` (flat) from ``base`` on; uses carry[k] …"""
    m = order + 1
    expand_nodes(d, order, sums, row, stride)
    for a in range(m ** (d - 1)):
        q = row + m * a * stride
        add_along_row(order, sums, q, q + stride, q + order * stride, carry, k + a, out, base + get_item(node, m * a),
                      count, ends)
