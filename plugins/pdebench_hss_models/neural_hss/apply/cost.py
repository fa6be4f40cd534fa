"""What an HSS product costs in each of its forms, and which form is cheapest. No torch.

A tree can be cut: levels below the cut stay a tree, those above become one dense root (see `expand`). The cut is the
only choice for an axis:

    cut = levels    tree         least arithmetic, most and smallest products
    cut = 1         collapsed    leaves and one coupling between all of them
    cut = 0         dense        most arithmetic, one product, and a matrix to be built

The model lists the matrix products that forward and backward pass do at a cut and prices each of them,

    seconds(b, i, k, j) = start + 2 b i k j / peak (1 + h/i)(1 + h/k)(1 + h/j) + bytes / bandwidth

for b products of (i x k) with (k x j). The brackets model small sides, which waste the hardware; data of a product that
do not fit in a core's cache have a lower bandwidth. The CPU's constants were fitted to measured steps at every cut on
two cores; only their ratios matter. They do not depend on the number of threads, so results don't either. Those of a
GPU are from data sheets and were never tested: `measured` has better ones after `pdebench-hss doctor --device cuda`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ..matrix.tree import leaf_size

LARGEST_ROOT = 2**28  # bytes of dense roots that `auto` may build for one axis


@dataclass(frozen=True)
class Machine:
    start: float  # seconds before a product starts: dispatch and threads
    peak: float  # float32 operations per second
    near: float  # bytes per second, if the data of one product fit into the cache
    far: float  # if they don't
    cache: int  # bytes
    half: float  # a side of this length halves the speed
    batched: bool = False  # all terms of a layer in each product (`forest`)


CPU = Machine(start=2e-5, peak=140e9, near=8e9, far=4e9, cache=2**18, half=6)
CHAIN = replace(CPU, start=1e-5)  # of `chain`, which does less around each product
GPU = Machine(start=8e-6, peak=15e12, near=1.5e12, far=1.5e12, cache=2**18, half=32, batched=True)
KERNEL_LAUNCHES = 12  # of a forward and backward pass of `triton.layer`, products with the coupling included


@dataclass(frozen=True)
class Axis:
    """One stack of HSS matrices and what it is applied to."""

    out: int
    inn: int
    levels: int
    rank: int
    terms: int
    rows: int  # vectors that every matrix is multiplied with
    alone: bool = True  # the only axis: nothing has to be turned between two of them
    itemsize: int = 4
    together: int = 1  # maps of this kind whose roots are built in the same products


@dataclass(frozen=True)
class Price:
    cut: int
    flops: float
    bytes: float
    products: int
    seconds: float


Products = Iterator[tuple[int, int, int, int]]


def tree_products(a: Axis, cut: int) -> Products:
    """(b, i, k, j) of the sweeps of one term: A over the data, A^T over the gradient, and the gradients of blocks."""
    for level in range(cut):
        nodes = 2 ** (a.levels - level)
        out, inn = (leaf_size(a.out, a.levels), leaf_size(a.inn, a.levels)) if level == 0 else (2 * a.rank,) * 2
        for i, k in ((out, inn), (out, a.rank), (a.rank, inn)):  # D, U, V^T
            yield nodes, i, k, a.rows
            yield nodes, k, i, a.rows
            yield nodes, i, a.rows, k
    out, inn = (a.out, a.inn) if cut == 0 else (2 ** (a.levels - cut + 1) * a.rank,) * 2
    yield 1, out, inn, a.rows
    yield 1, inn, out, a.rows
    yield 1, out, a.rows, inn


def root_products(a: Axis, cut: int) -> Products:
    """Of building the dense roots of all terms and maps, and of its derivative."""
    stack = a.terms * a.together
    for level in range(cut, a.levels):
        nodes, size = 2 ** (a.levels - level), 2 * a.rank
        out, inn = (leaf_size(a.out, a.levels), leaf_size(a.inn, a.levels)) if level == 0 else (size, size)
        first, second = (out, inn) if (a.levels - level) % 2 else (inn, out)  # every other level holds the transpose
        for i, width in ((first, nodes * a.rank), (second, nodes * first)):
            yield stack * nodes, i, a.rank, width
            yield stack * nodes, i, width, a.rank
            yield stack * nodes, a.rank, i, width


@lru_cache(maxsize=4096)
def price(a: Axis, cut: int, machine: Machine) -> Price:
    """Forward and backward pass of one axis at this cut."""
    dense_sum = a.alone and cut == 0  # in 1D dense matrices are added up before they are applied
    terms = 1 if dense_sum else a.terms
    if machine.batched:
        products = [(terms * b, i, k, j) for b, i, k, j in tree_products(a, cut)]
    else:
        products = [p for _ in range(terms) for p in tree_products(a, cut)]
    roots = list(root_products(a, cut))
    copied = 0
    if cut < a.levels:  # diagonal blocks are added, their gradients taken out
        copied += 4 * a.terms * root_entries(a, cut)
    if cut and not a.alone:  # fields and gradients are turned
        copied += 4 * a.terms * a.rows * max(a.out, a.inn)
    starts = len(roots) + (a.levels - cut) * 6 + (cut < a.levels) * 8  # small overhead of views and sums
    seconds = machine.start * (len(products) + starts / a.together) + 4 * copied / machine.near
    flops, moved = 0.0, float(copied)
    for share, done in ((1, products), (a.together, roots)):
        seconds += sum(product_seconds(machine, *p) for p in done) / share
        flops += sum(2 * b * i * k * j for b, i, k, j in done) / share
        moved += sum(b * (i * k + k * j + i * j) for b, i, k, j in done) / share
    return Price(cut, flops, a.itemsize * moved, len(products) + len(roots), seconds * a.itemsize / 4)


def product_seconds(machine: Machine, b: int, i: int, k: int, j: int) -> float:
    """Of b float32 products once they have started."""
    waste = (1 + machine.half / i) * (1 + machine.half / k) * (1 + machine.half / j)
    data = 4 * (i * k + k * j + i * j)
    bandwidth = machine.near if data <= 2 * machine.cache else machine.far
    return 2 * b * i * k * j / machine.peak * waste + b * data / bandwidth


def root_entries(a: Axis, cut: int) -> int:
    return a.out * a.inn if cut == 0 else (2 ** (a.levels - cut + 1) * a.rank) ** 2


def prices(a: Axis, machine: Machine) -> list[Price]:
    """Every cut whose roots fit, cheapest first."""
    fits = [
        c for c in range(a.levels + 1) if a.itemsize * a.terms * root_entries(a, c) <= LARGEST_ROOT or c == a.levels
    ]
    return sorted((price(a, cut, machine) for cut in fits), key=lambda p: p.seconds)


@lru_cache(maxsize=4096)
def best_price(a: Axis, machine: Machine) -> Price:
    return prices(a, machine)[0]


def best_cut(a: Axis, machine: Machine) -> int:
    return best_price(a, machine).cut


@lru_cache(maxsize=4096)
def triton_seconds(a: Axis, machine: Machine, kernels: Machine) -> float:
    """Forward and backward pass of the collapsed form by the kernels; its coupling is multiplied out by torch."""
    inner = list(root_products(a, 1))
    seconds = machine.start * (len(inner) + 6 * (a.levels - 1)) + sum(product_seconds(machine, *p) for p in inner)
    seconds += kernels.start * KERNEL_LAUNCHES
    seconds += sum(product_seconds(kernels, a.terms * b, i, k, j) for b, i, k, j in tree_products(a, 1))
    return seconds * a.itemsize / 4
