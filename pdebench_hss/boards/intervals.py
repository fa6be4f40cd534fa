"""Confidence intervals of an error, or of the change of an error, over test samples and seeds.

A cell's errors are a matrix: S seeds (networks trained from other weights and another order of batches) by N test
samples. Both are draws that could have come out differently. With e_s = mean_n E[s, n], the test error of seed s:

    error       e = mean_s e_s, as on the leaderboard
    change      g_b / g_a - 1,   g = exp(mean_s log e_s): the geometric mean, the error of a typical seed

A change is judged on logarithms, because the errors of seeds scatter by factors. A single outlier decides an arithmetic
mean: the means of [1e12, 3.5, 3.7] and [1.5e12, 3.5, 3.7] differ by 50 %, typical seeds by 14 %.

Samples that share a start (a task's ``cases``: one random start, several parameters) are not independent: `by_start`
averages the errors of each start, and N counts starts.

Noise has two parts, each with a standard error and degrees of freedom:

    seeds       paired where both boards have the same seeds (same weights at the start):
                    d_s = log b_s - log a_s,            se = std(d) / sqrt(S),                          S - 1
                otherwise Welch's:
                    se^2 = se_a^2 + se_b^2,             se_a = std(log a) / sqrt(S_a),                  Satterthwaite's
    samples     paired where both boards have the same data: a sample that is hard for one model is hard for the other.
                To first order sample n moves log g by z_n / N, z_n = mean_s E[s, n] / e_s, and so
                    se = std(z^b - z^a) / sqrt(N),                                                      N - 1

Error bars of independent parts add in squares, each with its own quantile of Student's t; the p-value is the level at
which the interval just reaches zero:

    half width(p)^2 = sum over parts of (t(p / 2, freedom) se)^2,        p: half width(p) = |log change|

This is exact if there is one part and slightly too wide if both matter (the interaction of samples and seeds is counted
in both). No resampling is involved, so tails are not cut off.

One seed says nothing about another training run. Its change is unknown, unless training has no noise (closed forms) or
the same weights were evaluated twice: then samples are the only noise, over the seeds that both sides have.

If only the mean m and the standard deviation s of the seeds are known, there are no logarithms: the change is that of
the means, and its p-value Welch's of their difference. On the scale of logarithms, with L the logarithmic mean:

    se = sqrt(s_a^2 / S_a + s_b^2 / S_b) / L,       L = (m_b - m_a) / (log m_b - log m_a)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
DIGITS = 6  # digits of an interval's ends; more would depend on the machine's logarithm
SMALLEST = float(np.finfo(float).tiny)  # replaces an error of exactly zero, which has no logarithm
LEAST_P = 1e-150  # below it, the largest p-value of a single part is used


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
        """From the errors by seed. Samples are used only if every seed has them, all of one length."""
        values = np.array(list(by_seed.values()), dtype=float)
        known = {seed: samples[seed] for seed in by_seed if seed in samples} if samples else {}
        whole = len(known) == len(by_seed) and len({len(errors) for errors in known.values()}) == 1
        std = math.nan if len(values) < 2 else _std(values) if np.ptp(values) else 0.0
        return cls(float(values.mean()), std, len(values), dict(by_seed), known if whole else {})

    def at(self, seeds: Sequence[int]) -> Errors:
        """The same cell with only some of its seeds."""
        samples = {seed: self.samples[seed] for seed in seeds} if self.samples else {}
        return Errors.of({seed: self.by_seed[seed] for seed in seeds}, samples)

    @property
    def n_samples(self) -> int:
        return len(next(iter(self.samples.values()))) if self.samples else 0

    @property
    def scatter_known(self) -> bool:
        return self.n_seeds > 1 and not math.isnan(self.std)

    @property
    def repeats(self) -> bool:
        """Whether several seeds gave the same error, so that training has no noise."""
        return self.n_seeds > 1 and (len({*self.by_seed.values()}) == 1 if self.by_seed else self.std == 0)

    @property
    def basis(self) -> str:
        """What an interval of these errors covers: seeds, samples or both."""
        return _basis(self.n_samples > 1, self.scatter_known)


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


class Noise(NamedTuple):
    """One part of an estimate's noise."""

    standard_error: float
    freedom: float


def error_interval(errors: Errors, level: float = LEVEL) -> tuple[float, float]:
    """The ends of the interval of a test error; NaN if neither seeds nor samples give one."""
    if not errors.basis or not math.isfinite(errors.mean):
        return math.nan, math.nan
    if errors.mean == 0:
        return 0.0, 0.0
    parts = []
    if errors.scatter_known:
        parts.append(Noise(errors.std / errors.mean / math.sqrt(errors.n_seeds), errors.n_seeds - 1))
    if errors.n_samples > 1:
        by_sample = np.mean(list(errors.samples.values()), axis=0)  # (N,)
        parts.append(_noise_of_mean(by_sample / by_sample.mean()))
    width = _half_width(parts, 1 - level)
    return _rounded(errors.mean * math.exp(-width)), _rounded(errors.mean * (1 + _expm1(width)))


def change_interval(
    a: Errors,
    b: Errors,
    *,
    same_data: bool = True,
    same_weights: bool = False,
    deterministic: bool = False,
    level: float = LEVEL,
) -> Change:
    """How much larger the error of ``b`` is than that of ``a``.

    same_data       sample n is the same on both sides
    same_weights    nothing was trained again; only test samples are noise
    deterministic   training has no noise
    """
    a, b = _comparable(a, b, same_weights)
    difference = _log_error(b) - _log_error(a)
    change = _expm1(difference) if a.mean > 0 else 0.0 if b.mean == 0 else math.inf
    use_samples = a.n_samples > 1 and b.n_samples > 1
    use_seeds = a.scatter_known and b.scatter_known and not same_weights
    parts = [_noise_of_seeds(a, b)] if use_seeds else []
    parts += _noise_of_samples(a, b, same_data) if use_samples else []
    unmeasured = not (use_seeds or same_weights or deterministic)  # the noise of training
    if unmeasured or not parts or (deterministic and not use_samples):
        return Change(change, math.nan, math.nan, math.nan, "")
    width = _half_width(parts, 1 - level)
    low, high = (_rounded(_expm1(difference + end)) for end in (-width, width))
    return Change(change, low, high, _p_value(difference, parts), _basis(use_samples, use_seeds))


def _comparable(a: Errors, b: Errors, same_weights: bool) -> tuple[Errors, Errors]:
    """What is compared: seeds that both sides have, all seeds, or only their mean and deviation."""
    if not (a.by_seed and b.by_seed):
        return Errors(a.mean, a.std, a.n_seeds), Errors(b.mean, b.std, b.n_seeds)
    common = sorted(a.by_seed.keys() & b.by_seed.keys())
    if same_weights and not common:
        return Errors(a.mean), Errors(b.mean)
    one_holds_the_other = len(common) == min(a.n_seeds, b.n_seeds)
    if same_weights or (one_holds_the_other and len(common) > 1):
        return a.at(common), b.at(common)
    return a, b


def _logs(errors: Errors) -> np.ndarray:
    """Logarithms of the seeds' errors, ``(S,)``, in the order of seeds."""
    values = np.array([errors.by_seed[seed] for seed in sorted(errors.by_seed)], dtype=float)
    return np.asarray(np.log(np.maximum(values, SMALLEST)))


def _log_error(errors: Errors) -> float:
    """The log error of a typical seed; of the mean, where seeds are not known."""
    return float(_logs(errors).mean()) if errors.by_seed else math.log(max(errors.mean, SMALLEST))


def _noise_of_seeds(a: Errors, b: Errors) -> Noise:
    """Noise of the log ratio from seeds: paired where both sides have the same ones."""
    if not (a.by_seed and b.by_seed):
        difference = _log_error(b) - _log_error(a)
        scale = (b.mean - a.mean) / difference if difference else max(a.mean, SMALLEST)
        return _welch(*(Noise(e.std / math.sqrt(e.n_seeds) / scale, e.n_seeds - 1) for e in (a, b)))
    if a.by_seed.keys() == b.by_seed.keys():
        return _noise_of_mean(_logs(b) - _logs(a))
    return _welch(_noise_of_mean(_logs(a)), _noise_of_mean(_logs(b)))


def _welch(a: Noise, b: Noise) -> Noise:
    """Noise of the difference of two independent means, with Satterthwaite's degrees of freedom."""
    total = math.hypot(a.standard_error, b.standard_error)
    share = (a.standard_error / total) ** 2 if total else 0.5
    return Noise(total, 1 / (share**2 / a.freedom + (1 - share) ** 2 / b.freedom))


def _noise_of_samples(a: Errors, b: Errors, same_data: bool) -> list[Noise]:
    """Noise of the log ratio from samples: one part if they are paired, otherwise one for each side."""
    if same_data and a.n_samples == b.n_samples:
        return [_noise_of_mean(_influence(b) - _influence(a))]
    return [_noise_of_mean(_influence(a)), _noise_of_mean(_influence(b))]


def _influence(errors: Errors) -> np.ndarray:
    """By how much each sample moves the logarithm of the geometric mean over seeds, times N: ``(N,)``."""
    matrix = np.array([errors.samples[seed] for seed in sorted(errors.samples)], dtype=float)  # (S, N)
    return np.asarray((matrix / np.maximum(matrix.mean(axis=1, keepdims=True), SMALLEST)).mean(axis=0))


def _noise_of_mean(values: np.ndarray) -> Noise:
    return Noise(_std(values) / math.sqrt(len(values)), len(values) - 1)


def _half_width(parts: Sequence[Noise], p: float) -> float:
    """How far from the truth an estimate is with probability ``p``."""
    from scipy.special import stdtrit  # Student's quantile; imported here to keep commands that only read light

    return math.hypot(*(float(stdtrit(part.freedom, p / 2)) * part.standard_error for part in parts))


def _p_value(difference: float, parts: Sequence[Noise]) -> float:
    """The ``p`` at which the interval around the difference just reaches zero."""
    from scipy.optimize import brentq
    from scipy.special import stdtr

    noisy = [part for part in parts if part.standard_error > 0]
    if difference == 0 or not noisy:
        return 1.0 if difference == 0 else 0.0
    alone = [2 * float(stdtr(part.freedom, -abs(difference) / part.standard_error)) for part in noisy]
    if len(noisy) == 1 or max(alone) < LEAST_P:
        return max(alone)
    low = math.log(max(alone)) - 1e-6  # more noise never lowers p; the margin is for rounding
    return math.exp(brentq(lambda log_p: _half_width(noisy, math.exp(log_p)) - abs(difference), low, 0, xtol=1e-9))


def _basis(samples: bool, seeds: bool) -> str:
    return " and ".join(["samples"] * samples + ["seeds"] * seeds)


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf


def _rounded(end: float) -> float:
    return float(f"{end:.{DIGITS}g}")


def _std(values: np.ndarray) -> float:
    """Scaled by a power of two, which changes no digit, so that squares of errors of 1e200 don't overflow."""
    scale = 2.0 ** min(1023, int(np.frexp(np.abs(values).max())[1]))
    return float(np.std(values / scale, ddof=1)) * scale
