"""The Triton kernels of a collapsed HSS matrix (Definition 2.1 with its inner levels multiplied out):

    y = D x + U C V^T x,        D, U, V block diagonal over the leaves,    C the coupling of all leaves.

    project    z = V^T x                                     leaf by leaf
    expand     y = sum_t D x + U w,  w = C z, activation     leaf by leaf, the terms summed in the accumulator
    whole      both and C between them, in one launch        one term, small matrices
    correlate  sum_rows a b^T                                leaf by leaf: gradients of D, U and V
    activation_backward                                      through LeakyReLU, with partial sums for slope and bias

Transposed, the formula is of the same kind (U <-> V, D^T, C^T): the gradient of x is `expand` of `project` again.

Layouts.  Vectors have strides (outer, inner, term, point), so that any axis of a grid can be the one multiplied
without a copy; a program takes a block of `inner` rows. Coefficients z, w lie as (terms, outer * inner, leaves * r).
Weights are contiguous; `d_row`, `d_column` are swapped to read D^T, `c_row`, `c_column` to read C^T.
Capitals are compile-time constants. Sums over rows go to one buffer per split of the rows and are added afterwards:
no atomics, so the same input gives the same bits.

Sizes that follow the batch are not specialised (`ROWS_OF_THE_BATCH`): a last batch of another size runs the existing
machine code. Strides are specialised: loads are wide only if the compiler knows them.

Triton reads TRITON_INTERPRET when a kernel is decorated, that is when this module is imported.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Above it, LeakyReLU can be undone from its output. At or below it the pre-activation is computed again.
SMALLEST_SLOPE = tl.constexpr(1e-6)

# Arguments by name. `b_term` is a stride, but of coefficients, which lie term after term: it is a multiple of the rows.
ROWS_OF_THE_BATCH = ["inner", "total_rows", "blocks", "blocks_per_split", "b_term"]


@triton.jit
def load_tile(base, i, j, stride_i, stride_j, end_i, end_j):
    """A block of a matrix. What lies outside counts as 0, whatever that memory holds: NaN * 0 would be NaN."""
    inside = (i[:, None] < end_i) & (j[None, :] < end_j)
    return tl.load(base + i[:, None] * stride_i + j[None, :] * stride_j, mask=inside, other=0.0)


@triton.jit
def store_tile(base, i, j, stride_i, stride_j, end_i, end_j, value):
    inside = (i[:, None] < end_i) & (j[None, :] < end_j)
    tl.store(base + i[:, None] * stride_i + j[None, :] * stride_j, value, mask=inside)


@triton.jit
def row_block(index, inner, ROWS: tl.constexpr):
    """Block number -> (outer index, first inner row), in 64 bits because both are multiplied by large strides."""
    blocks = tl.cdiv(inner, ROWS)
    return (index // blocks).to(tl.int64), (index % blocks).to(tl.int64) * ROWS


@triton.jit
def activate(value, bias, slope, columns, end):
    """LeakyReLU_slope(value + bias); either may be absent."""
    if bias is not None:
        value += tl.load(bias + columns, mask=columns < end, other=0.0)[None, :]
    if slope is not None:
        value = tl.where(value > 0, value, value * tl.load(slope))
    return value


@triton.jit(do_not_specialize=ROWS_OF_THE_BATCH)
def project_kernel(
    x, v, z,
    inner, total_rows, x_outer, x_inner, x_term, x_point,
    LEAVES: tl.constexpr, M: tl.constexpr, R: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, RANK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """z[t, row, p r + s] = sum_j V[t, p, j, s] x[row, t, p m + j]"""
    outer, first = row_block(tl.program_id(0), inner, ROWS)
    leaf, ranks = tl.program_id(1) // tl.cdiv(R, RANK), tl.program_id(1) % tl.cdiv(R, RANK)
    term = tl.program_id(2).to(tl.int64)
    left = inner - first
    x += outer * x_outer + first * x_inner + term * x_term + leaf.to(tl.int64) * M * x_point
    v += (term * LEAVES + leaf) * M * R
    z += (term * total_rows + outer * inner + first) * (LEAVES * R) + leaf * R

    i, s, j = tl.arange(0, ROWS), ranks * RANK + tl.arange(0, RANK), tl.arange(0, DEPTH)
    sum_ = tl.zeros((ROWS, RANK), dtype=x.dtype.element_ty)
    for at in range(0, M, DEPTH):
        x_tile = load_tile(x, i, at + j, x_inner, x_point, left, M)  # (rows, j)
        v_tile = load_tile(v, at + j, s, R, 1, M, R)  # (j, s)
        sum_ = tl.dot(x_tile, v_tile, sum_, input_precision=PRECISION, out_dtype=sum_.dtype)
    store_tile(z, i, s, LEAVES * R, 1, left, R, sum_)


@triton.jit(do_not_specialize=ROWS_OF_THE_BATCH)
def expand_kernel(
    x, w, d, u, bias, slope, y,
    inner, total_rows, added,
    x_outer, x_inner, x_term, x_point, y_outer, y_inner, y_term, y_point, d_row, d_column,
    LEAVES: tl.constexpr, M_OUT: tl.constexpr, M_IN: tl.constexpr, R: tl.constexpr, ONLY_SMALL_SLOPE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, RANK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y[row, t, p] = activation(sum of `added` terms of  D[t, p] x[row, t, p] + U[t, p] w[t, row, p])"""
    if ONLY_SMALL_SLOPE:  # noqa: SIM102 - decided by the compiler, unlike the next
        if tl.load(slope) > SMALLEST_SLOPE:
            return
    outer, first = row_block(tl.program_id(0), inner, ROWS)
    leaf, block = tl.program_id(1) // tl.cdiv(M_OUT, COLUMNS), tl.program_id(1) % tl.cdiv(M_OUT, COLUMNS)
    place = tl.program_id(2).to(tl.int64)
    left = inner - first
    i, n = tl.arange(0, ROWS), block * COLUMNS + tl.arange(0, COLUMNS)
    j, s = tl.arange(0, DEPTH), tl.arange(0, RANK)
    x += outer * x_outer + first * x_inner + leaf.to(tl.int64) * M_IN * x_point

    sum_ = tl.zeros((ROWS, COLUMNS), dtype=x.dtype.element_ty)
    for step in range(added):
        term = place + step
        x_leaf, d_leaf = x + term * x_term, d + (term * LEAVES + leaf) * (M_OUT * M_IN)
        for at in range(0, M_IN, DEPTH):
            x_tile = load_tile(x_leaf, i, at + j, x_inner, x_point, left, M_IN)  # (rows, j)
            d_tile = load_tile(d_leaf, at + j, n, d_column, d_row, M_IN, M_OUT)  # (j, n): D transposed
            sum_ = tl.dot(x_tile, d_tile, sum_, input_precision=PRECISION, out_dtype=sum_.dtype)
        if R > 0:  # a tree that is its root has no low-rank part
            w_leaf = w + (term * total_rows + outer * inner + first) * (LEAVES * R) + leaf * R
            u_leaf = u + (term * LEAVES + leaf) * (M_OUT * R)
            for at in range(0, R, RANK):
                w_tile = load_tile(w_leaf, i, at + s, LEAVES * R, 1, left, R)  # (rows, s)
                u_tile = load_tile(u_leaf, at + s, n, 1, R, R, M_OUT)  # (s, n): U transposed
                sum_ = tl.dot(w_tile, u_tile, sum_, input_precision=PRECISION, out_dtype=sum_.dtype)

    if bias is not None:
        bias += (place * LEAVES + leaf) * M_OUT
    sum_ = activate(sum_, bias, None if ONLY_SMALL_SLOPE else slope, n, M_OUT)
    y += outer * y_outer + first * y_inner + place * y_term + leaf.to(tl.int64) * M_OUT * y_point
    store_tile(y, i, n, y_inner, y_point, left, M_OUT, sum_)


@triton.jit(do_not_specialize=ROWS_OF_THE_BATCH)
def whole_kernel(
    x, v, c, u, d, bias, slope, y, z,
    inner, x_outer, x_inner, x_point, y_outer, y_inner, y_point, d_row, d_column, c_row, c_column,
    LEAVES: tl.constexpr, M_OUT: tl.constexpr, M_IN: tl.constexpr, R: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, SIZE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = activation(D x + U C V^T x) for one term; also stores z = V^T x unless z is None.

    A tile can't be put together from smaller ones, so the coefficients of all leaves, SIZE >= LEAVES * R of them, are
    one tile throughout: the block of V of leaf p is padded with zeros to all columns, the block of U likewise.
    """
    outer, first = row_block(tl.program_id(0), inner, ROWS)
    left = inner - first
    x += outer * x_outer + first * x_inner
    y += outer * y_outer + first * y_inner
    S: tl.constexpr = LEAVES * R
    i, j, n, s = tl.arange(0, ROWS), tl.arange(0, DEPTH), tl.arange(0, COLUMNS), tl.arange(0, SIZE)
    owner, within = s // R, s % R  # coefficient s belongs to leaf `owner`

    coefficients = tl.zeros((ROWS, SIZE), dtype=x.dtype.element_ty)
    for leaf in range(LEAVES):
        for at in range(0, M_IN, DEPTH):
            x_tile = load_tile(x + leaf * M_IN * x_point, i, at + j, x_inner, x_point, left, M_IN)  # (rows, j)
            here = (at + j[:, None] < M_IN) & (owner[None, :] == leaf)
            places = v + leaf * M_IN * R + (at + j[:, None]) * R + within[None, :]
            v_tile = tl.load(places, mask=here, other=0.0)  # (j, s)
            coefficients = tl.dot(x_tile, v_tile, coefficients, input_precision=PRECISION, out_dtype=coefficients.dtype)
    if z is not None:
        store_tile(z + (outer * inner + first) * S, i, s, S, 1, left, S, coefficients)
    c_tile = load_tile(c, s, s, c_column, c_row, S, S)  # C transposed
    coefficients = tl.dot(coefficients, c_tile, input_precision=PRECISION, out_dtype=coefficients.dtype)

    for leaf in range(LEAVES):
        for block in range(0, M_OUT, COLUMNS):
            here = (block + n[None, :] < M_OUT) & (owner[:, None] == leaf)
            places = u + leaf * M_OUT * R + (block + n[None, :]) * R + within[:, None]
            u_tile = tl.load(places, mask=here, other=0.0)  # (s, n): U transposed
            sum_ = tl.dot(coefficients, u_tile, input_precision=PRECISION, out_dtype=coefficients.dtype)
            for at in range(0, M_IN, DEPTH):
                x_tile = load_tile(x + leaf * M_IN * x_point, i, at + j, x_inner, x_point, left, M_IN)  # (rows, j)
                d_tile = load_tile(
                    d + leaf * (M_OUT * M_IN), at + j, block + n, d_column, d_row, M_IN, M_OUT
                )  # (j, n): D transposed
                sum_ = tl.dot(x_tile, d_tile, sum_, input_precision=PRECISION, out_dtype=sum_.dtype)
            bias_leaf = None if bias is None else bias + leaf * M_OUT
            sum_ = activate(sum_, bias_leaf, slope, block + n, M_OUT)
            store_tile(y + leaf * M_OUT * y_point, i, block + n, y_inner, y_point, left, M_OUT, sum_)


@triton.jit(do_not_specialize=ROWS_OF_THE_BATCH)
def correlate_kernel(
    a, b, parts,
    inner, blocks, blocks_per_split,
    a_outer, a_inner, a_term, a_point, b_outer, b_inner, b_term, b_point,
    LEAVES: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
    ROWS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """parts[split, t, p] (m x k) = sum over the rows of a split of  a[row, t, p] b[row, t, p]^T"""
    split, terms = tl.program_id(0), tl.num_programs(2)
    across = tl.cdiv(K, WIDTH)
    tiles = tl.cdiv(M, HEIGHT) * across
    leaf, tile = tl.program_id(1) // tiles, tl.program_id(1) % tiles
    term = tl.program_id(2).to(tl.int64)
    h, k = tile // across * HEIGHT + tl.arange(0, HEIGHT), tile % across * WIDTH + tl.arange(0, WIDTH)
    i = tl.arange(0, ROWS)
    a += term * a_term + leaf.to(tl.int64) * M * a_point
    b += term * b_term + leaf.to(tl.int64) * K * b_point

    sum_ = tl.zeros((HEIGHT, WIDTH), dtype=a.dtype.element_ty)
    for index in range(split * blocks_per_split, tl.minimum(blocks, (split + 1) * blocks_per_split)):
        outer, first = row_block(index, inner, ROWS)
        left = inner - first
        a_tile = load_tile(a + outer * a_outer + first * a_inner, h, i, a_point, a_inner, M, left)  # (h, rows)
        b_tile = load_tile(b + outer * b_outer + first * b_inner, i, k, b_inner, b_point, left, K)  # (rows, k)
        sum_ = tl.dot(a_tile, b_tile, sum_, input_precision=PRECISION, out_dtype=sum_.dtype)
    parts += ((split.to(tl.int64) * terms + term) * LEAVES + leaf) * (M * K)
    store_tile(parts, h, k, K, 1, M, K, sum_)


@triton.jit(do_not_specialize=ROWS_OF_THE_BATCH)
def activation_backward_kernel(
    gradient, y, slope, before, bias_parts, slope_parts,
    inner, points, g_outer, g_inner, g_term, g_point, y_outer, y_inner, y_term, y_point,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Through y = LeakyReLU_slope(before). `before` holds the pre-activation if the slope is small; then its gradient.

    The pre-activation's sign is that of y, and its value y or y / slope, as long as the slope is positive.
    """
    outer, first = row_block(tl.program_id(0), inner, ROWS)
    place, block = tl.program_id(2).to(tl.int64), tl.program_id(1)
    i, n = tl.arange(0, ROWS), block * COLUMNS + tl.arange(0, COLUMNS)
    left = inner - first
    gradient += outer * g_outer + first * g_inner + place * g_term
    there = outer * y_outer + first * y_inner + place * y_term

    alpha = tl.load(slope)
    g = load_tile(gradient, i, n, g_inner, g_point, left, points)
    if alpha > SMALLEST_SLOPE:
        value = load_tile(y + there, i, n, y_inner, y_point, left, points)
        value = tl.where(value > 0, value, value / alpha)
    else:
        value = load_tile(before + there, i, n, y_inner, y_point, left, points)
    positive = value > 0
    through = tl.where(positive, g, g * alpha)
    store_tile(before + there, i, n, y_inner, y_point, left, points, through)

    part = tl.program_id(0).to(tl.int64) * tl.num_programs(2) + place
    tl.store(bias_parts + part * points + n, tl.sum(through, 0), mask=n < points)
    tl.store(slope_parts + part * tl.num_programs(1) + block, tl.sum(tl.where(positive, 0.0, g * value)))
