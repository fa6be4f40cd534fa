"""How sure an error, or the change of an error, is: intervals over test samples and seeds.

A cell's errors are a matrix: S seeds (networks trained from other weights and another order of batches) by N test
samples. Its test error is the mean over both, and both are draws that could have come out differently.

Samples are resampled with replacement, the same draw n* for every seed, and for both sides of a comparison on the same
data: samples that are hard for one model are hard for the other, and pairing takes that out. What a draw deviates from
the mean is stretched by sqrt(N / chi2(N - 1)): a plain bootstrap of 16 samples is as much too narrow as a normal
interval is narrower than Student's.

Samples that share a start (a task's ``cases``: one random start, several parameters) are no independent draws, so what
is resampled are starts: `by_start` averages the errors of each, and N counts starts.

Seeds are few. Resampling three of them never leaves their range, which holds the true mean 3 times in 4 at best,
whatever level was asked for. So the seeds' part of each draw is Student's: t with S - 1 degrees of freedom times the
standard error of the S means. Two boards that share their seeds are paired by seed (same weights at the start).

Everything is done on logarithms, because errors are positive and their changes are ratios:

    log error   = log mean_n*(E) + t(S - 1) se,        se = std_s(e_s / e) / sqrt(S),       e_s = mean_n E[s, n]
    log change  = log mean_n*(B) / mean_n*(A) + t se,  se = std_s(b_s / b - a_s / a) / sqrt(S)

The part of the scatter that belongs to neither samples nor seeds alone is counted in both, so intervals are rather too
wide than too narrow. With one seed an interval covers the samples only and says nothing about another training run.
The draws are fixed: the same errors give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

DRAWS = 10_000
LEVEL = 0.95
DIGITS = 6  # of an interval's ends; more would be digits of the random draws


@dataclass(frozen=True)
class Errors:
    """What is known of the errors of one cell.

    mean      test error, over seeds and samples
    std       standard deviation of the seeds' errors; NaN if there is one seed
    n_seeds   how many seeds ended well
    by_seed   seed -> test error; empty if only mean and std are known
    samples   seed -> error of each test sample, or of each start (`by_start`), ``(N,)``; empty if they are not known
    """

    mean: float
    std: float = math.nan
    n_seeds: int = 1
    by_seed: Mapping[int, float] = field(default_factory=dict)
    samples: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, by_seed: Mapping[int, float], samples: Mapping[int, np.ndarray] | None = None) -> Errors:
        """From the errors by seed. Samples count only if every seed has them, all of one length."""
        values = np.array(list(by_seed.values()), dtype=float)
        known = {seed: samples[seed] for seed in by_seed if seed in samples} if samples else {}
        whole = len(known) == len(by_seed) and len({len(errors) for errors in known.values()}) == 1
        std = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        return cls(float(values.mean()), std, len(values), dict(by_seed), known if whole else {})

    @property
    def n_samples(self) -> int:
        return len(next(iter(self.samples.values()))) if self.samples else 0

    @property
    def basis(self) -> str:
        """What an interval of these errors is over."""
        parts = ["samples"] * bool(self.samples) + ["seeds"] * (self.n_seeds > 1)
        return " and ".join(parts)


@dataclass(frozen=True)
class Change:
    """The relative change of an error, ``b / a - 1``, with its interval and two-sided p-value; NaN where unknown."""

    change: float
    low: float
    high: float
    p_value: float
    basis: str


def by_start(errors: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """Mean error of each start, ``(starts,)``; ``group[i]`` is the start of test sample i, None if all differ."""
    if group is None:
        return errors
    if group.shape != errors.shape:
        raise ValueError(f"{len(errors)} errors have the starts of {len(group)} samples")
    _, places = np.unique(group, return_inverse=True)
    return np.bincount(places, weights=errors) / np.bincount(places)


def error_interval(errors: Errors, level: float = LEVEL) -> tuple[float, float]:
    """The ends of the interval of a test error; NaN where neither seeds nor samples tell how sure it is."""
    if not errors.basis or not math.isfinite(errors.mean):
        return math.nan, math.nan
    if errors.mean == 0:
        return 0.0, 0.0
    logs = math.log(errors.mean) + _stretched(errors.n_samples, _deviations(errors))
    if errors.n_seeds > 1:
        logs = logs + _student(errors.n_seeds - 1) * errors.std / errors.mean / math.sqrt(errors.n_seeds)
    with np.errstate(over="ignore"):  # two seeds far apart: the upper end is infinite
        return _rounded(np.exp(_ends(logs, level)))


def change_interval(a: Errors, b: Errors, *, same_data: bool = True, level: float = LEVEL) -> Change:
    """How much larger the error of ``b`` is than that of ``a``."""
    if a.mean == b.mean:
        change = 0.0
    else:
        change = b.mean / a.mean - 1 if a.mean > 0 else math.inf
    use_samples = bool(a.samples) and bool(b.samples)
    use_seeds = a.n_seeds > 1 and b.n_seeds > 1
    basis = " and ".join(["samples"] * use_samples + ["seeds"] * use_seeds)
    if not basis or a.mean <= 0 or b.mean <= 0:
        return Change(change, math.nan, math.nan, math.nan, basis)
    logs = np.full(DRAWS, math.log(b.mean / a.mean))
    if use_samples and same_data and a.n_samples == b.n_samples:
        logs = logs + _stretched(a.n_samples, _deviations(b) - _deviations(a))
    elif use_samples:
        logs = logs + _stretched(b.n_samples, _deviations(b, stream=1), stream=1)
        logs = logs - _stretched(a.n_samples, _deviations(a))
    if use_seeds:
        standard_error, freedom = _seed_scatter(a, b)
        logs = logs + _student(freedom) * standard_error
    with np.errstate(over="ignore"):
        low, high = _rounded(np.expm1(_ends(logs, level)))
    beyond = min((logs <= 0).sum(), (logs >= 0).sum())
    return Change(change, low, high, min(1.0, 2 * (beyond + 1) / (DRAWS + 1)), basis)


def _seed_scatter(a: Errors, b: Errors) -> tuple[float, float]:
    """Standard error and degrees of freedom of the log ratio, over seeds: paired where both have the same ones."""
    if a.by_seed and a.by_seed.keys() == b.by_seed.keys():
        differences = [b.by_seed[seed] / b.mean - a.by_seed[seed] / a.mean for seed in a.by_seed]
        return float(np.std(differences, ddof=1)) / math.sqrt(len(differences)), len(differences) - 1
    squares = [(e.std / e.mean) ** 2 / e.n_seeds for e in (a, b)]
    if sum(squares) == 0:
        return 0.0, a.n_seeds + b.n_seeds - 2
    freedom = sum(squares) ** 2 / sum(s**2 / (e.n_seeds - 1) for s, e in zip(squares, (a, b)))  # Welch, Satterthwaite
    return math.sqrt(sum(squares)), freedom


def _deviations(errors: Errors, stream: int = 0) -> np.ndarray:
    """How far the logarithm of the mean error is from its value, ``(DRAWS,)``, over resampled test samples."""
    if not errors.samples:
        return np.zeros(DRAWS)
    by_sample = np.mean([errors.samples[seed] for seed in sorted(errors.samples)], axis=0)  # (N,)
    means = _resampling(errors.n_samples, stream) @ by_sample / errors.n_samples  # (DRAWS,)
    with np.errstate(divide="ignore"):  # a draw of samples that are all exact
        return np.log(means) - math.log(by_sample.mean())


def _stretched(n: int, deviations: np.ndarray, stream: int = 0) -> np.ndarray:
    """Deviations of ``n`` samples as wide as Student's distribution; nothing is known of the scatter of one."""
    if n < 2:
        return deviations
    return deviations * np.sqrt(n / np.random.default_rng([n, stream, 1]).chisquare(n - 1, size=DRAWS))


@lru_cache(maxsize=4)
def _resampling(n: int, stream: int) -> np.ndarray:
    """How often each of ``n`` samples occurs in each draw with replacement, ``(DRAWS, n)``."""
    random = np.random.default_rng([n, stream])
    return random.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(np.float64)


def _student(freedom: float) -> np.ndarray:
    return np.random.default_rng(0).standard_t(freedom, size=DRAWS)


def _ends(draws: np.ndarray, level: float) -> np.ndarray:
    return np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])


def _rounded(ends: np.ndarray) -> tuple[float, float]:
    low, high = (float(f"{end:.{DIGITS}g}") for end in ends)
    return low, high
