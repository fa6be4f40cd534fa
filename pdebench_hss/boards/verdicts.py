"""Which changes are real: the verdict of one cell, and of many cells that are compared at once.

Two things about a cell may have changed between two boards. For each, "nothing changed" is tested:

    errors   of the seeds that ended well, two or more on either side: p_e of `intervals.change_interval`
    rates    k_a of n_a and k_b of n_b seeds diverged. A seed that diverged has no error and is never averaged.
             Boschloo's exact test: with F = Fisher's one-sided p-value of the counts and q the unknown common rate,

                 p_r = 2 max over q of P(F(K_a, K_b) <= F(k_a, k_b)),   K_a, K_b binomial (n_a, q), (n_b, q)

             on the side that was seen. None of 3 against all of 3 has p = 2 / 4^3 = 0.031; with two seeds it is 0.125.

A cell's p-value is p_e if nothing diverged; 2 min(p_e, p_r) if something did (either of the two may decide); p_r if too
few seeds ended well to compare errors. Many cells are compared at once, so p-values are adjusted by Benjamini and
Hochberg's rule: of the changes called real, 5 % are expected to be false. All cells are one family: to adjust cells in
which many seeds diverged separately would select cells by what is tested (12 % of boards with 78 unchanged cells and 5
seeds, a third of them diverging, then had a false verdict).

With one seed on either side there is no verdict, whatever the numbers: the noise of retraining is unknown. Two
exceptions have no such noise: closed forms, and a comparison of the same weights. There, divergence is not chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from .intervals import Change, Errors, change_interval

ALPHA = 0.05
BETTER, WORSE, NOISE, IDENTICAL = "better", "worse", "within noise", "identical"
DIVERGES_MORE, DIVERGES_LESS = "diverges more", "diverges less"
ONE_SEED = "one seed: can't tell"
UNKNOWN = "can't tell"  # noise can't be measured for another reason
BROKE, MENDED = "broke", "mended"

UNCHANGED = Change(0.0, 0.0, 0.0, math.nan, "")
NOT_KNOWN = Change(math.nan, math.nan, math.nan, math.nan, "")
ROUNDING = 1e-12  # for relative errors: smaller differences are rounding


@dataclass(frozen=True)
class Outcome:
    """How a cell's seeds ended on one board.

    errors          of the seeds that ended well; None if none did
    diverged        how many seeds diverged
    seedless        a closed form: with the same data every seed gives the same error
    """

    errors: Errors | None
    diverged: int = 0
    seedless: bool = False

    @property
    def finite(self) -> int:
        return self.errors.n_seeds if self.errors else 0

    @property
    def tried(self) -> int:
        return self.finite + self.diverged

    @property
    def repeats(self) -> bool:
        """Whether training has no noise: several seeds show it by equal errors, a single one must be declared so."""
        return self.errors.repeats if self.errors and self.finite > 1 else self.seedless


@dataclass(frozen=True)
class Finding:
    """What is known of one cell before it is judged together with others; ``verdict`` is empty until then.

    p_value     of the cell, before adjusting
    by_rates    rates of divergence, and not errors, gave the p-value
    alone       only rates could be compared
    """

    change: Change
    verdict: str = ""
    p_value: float = math.nan
    by_rates: bool = False
    alone: bool = False
    more_diverged: bool = False
    p_adjusted: float = math.nan


def examine(
    a: Outcome, b: Outcome, *, same_data: bool = True, same_weights: bool = False, relative: bool = False
) -> Finding:
    """Compare one cell of two boards, both of which tried it. ``relative``: errors are relative to the field's size."""
    certain = same_weights or (a.repeats and b.repeats)
    if a.errors and b.errors and a.diverged == b.diverged and identical(a.errors, b.errors, a.repeats and b.repeats):
        return Finding(UNCHANGED, IDENTICAL)
    change = NOT_KNOWN
    if a.errors and b.errors:
        noise_free = {"same_weights": same_weights, "deterministic": certain and not same_weights}
        change = change_interval(a.errors, b.errors, same_data=same_data, **noise_free)
        if relative and abs(a.errors.mean - b.errors.mean) <= ROUNDING:
            return Finding(change, NOISE)
    if certain and bool(a.diverged) != bool(b.diverged):
        return Finding(change, BROKE if b.diverged else MENDED)
    if not certain and min(a.tried, b.tried) < 2:
        return Finding(change, ONE_SEED)
    rates = math.nan if certain else divergence_p_value(a.diverged, a.tried, b.diverged, b.tried)
    return _tested(change, rates, b.diverged / b.tried > a.diverged / a.tried)


def _tested(change: Change, rates: float, more_diverged: bool) -> Finding:
    """The p-value of a cell from those of its errors and of its rates of divergence (NaN: not tested)."""
    if math.isnan(change.p_value):
        if math.isnan(rates):
            return Finding(change, UNKNOWN)
        return Finding(change, "", rates, by_rates=True, alone=True, more_diverged=more_diverged)
    if math.isnan(rates):
        return Finding(change, "", change.p_value)
    both = min(1.0, 2 * min(change.p_value, rates))
    return Finding(change, "", both, by_rates=rates < change.p_value, more_diverged=more_diverged)


def decide(findings: Sequence[Finding], *, higher: bool = False) -> list[Finding]:
    """A verdict for every open finding, given all that are compared at once. ``higher``: larger values are better."""
    decided = list(findings)
    family = [number for number, found in enumerate(findings) if found.verdict == ""]
    adjusted = benjamini_hochberg(np.array([findings[number].p_value for number in family]))
    for number, p in zip(family, adjusted, strict=True):
        decided[number] = replace(findings[number], verdict=_verdict(findings[number], p, higher), p_adjusted=float(p))
    return decided


def _verdict(found: Finding, p_adjusted: float, higher: bool) -> str:
    if p_adjusted > ALPHA:
        return UNKNOWN if found.alone else NOISE
    if found.by_rates:
        return DIVERGES_MORE if found.more_diverged else DIVERGES_LESS
    return BETTER if (found.change.change < 0) != higher else WORSE


def identical(a: Errors, b: Errors, repeats: bool = False) -> bool:
    """Equal to the last bit; if only mean and deviation are known, equal up to the rounding of their sums.

    What ``repeats`` on both sides may have been run for more seeds on one of them."""
    if a.by_seed and b.by_seed:
        values = [sorted(set(e.by_seed.values()) if repeats else e.by_seed.values()) for e in (a, b)]
        return values[0] == values[1]
    near = 1e-12 * max(a.mean, b.mean)
    scatter = [0.0 if math.isnan(errors.std) else errors.std for errors in (a, b)]
    return (repeats or a.n_seeds == b.n_seeds) and abs(a.mean - b.mean) <= near and abs(scatter[0] - scatter[1]) <= near


@lru_cache(maxsize=1024)
def divergence_p_value(k_a: int, n_a: int, k_b: int, n_b: int) -> float:
    """Boschloo's two-sided p-value of k of n diverged seeds on either side; NaN if none diverged."""
    if k_a + k_b == 0:
        return math.nan
    if k_a * n_b > k_b * n_a:  # the observed side is "b diverges more"
        k_a, n_a, k_b, n_b = k_b, n_b, k_a, n_a
    seen = _fisher(k_a, n_a, k_b, n_b)
    q = np.linspace(0, 1, 2001)
    chance = np.zeros_like(q)
    for i in range(n_a + 1):
        for j in range(n_b + 1):
            if _fisher(i, n_a, j, n_b) <= seen * (1 + 1e-9):
                ways = math.comb(n_a, i) * math.comb(n_b, j)
                chance += ways * q ** (i + j) * (1 - q) ** (n_a + n_b - i - j)
    return min(1.0, 2 * float(chance.max()))


def _fisher(k_a: int, n_a: int, k_b: int, n_b: int) -> float:
    """The probability of ``k_b`` or more among the ``k_a + k_b`` that diverged, if these are assigned at random."""
    total = k_a + k_b
    ways = sum(math.comb(n_b, j) * math.comb(n_a, total - j) for j in range(k_b, min(n_b, total) + 1))
    return ways / math.comb(n_a + n_b, total)


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values: rejecting those below alpha keeps the expected share of false discoveries below alpha."""
    count = len(p_values)
    order = np.argsort(p_values)
    scaled = p_values[order] * count / np.arange(1, count + 1)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
