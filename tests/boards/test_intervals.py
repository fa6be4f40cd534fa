"""Intervals hold what they say: tried against textbook formulas and by simulating worlds whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pdebench_hss.boards.intervals import Errors, by_start, change_interval, error_interval

TRIALS = 300
EXPECTED, SPREAD = 0.95 * TRIALS, 3.5 * (0.95 * 0.05 * TRIALS) ** 0.5


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20)


def errors_of(matrix) -> Errors:
    """A cell from its matrix of errors, seeds by samples."""
    return Errors.of({s: float(np.mean(row)) for s, row in enumerate(matrix)}, dict(enumerate(np.asarray(matrix))))


def world(random, seeds: int, seed_scatter: float, sample_scatter: float, both: float, samples: int = 48):
    """A function that draws matrices of errors with true mean 1. Samples that are hard in one are hard in all."""
    hardness = random.normal(0, sample_scatter, samples)

    def draw() -> np.ndarray:
        return 1 + random.normal(0, seed_scatter, (seeds, 1)) + hardness + random.normal(0, both, (seeds, samples))

    return draw


def test_one_seed_gives_the_bootstrap_of_the_mean(random):
    values = random.lognormal(-3, 0.5, 64)
    found = error_interval(errors_of([values]))
    reference = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", random_state=1)
    assert found == pytest.approx(reference.confidence_interval, rel=0.01)


def test_seeds_alone_give_students_interval_of_the_mean():
    values = [1.02, 1.00, 0.97, 1.03, 0.99]
    low, high = error_interval(Errors.of(dict(enumerate(values))))
    reference = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (low, high) == pytest.approx(reference, rel=2e-3)  # to first order: the logarithm bends by 0.1 % here


@pytest.mark.parametrize(
    ("seeds", "scatter"),
    [
        (1, (0.0, 0.3, 0.0)),  # one training run: samples are all there is
        (3, (0.1, 0.0, 0.0)),  # seeds alone; resampling three of them would reach 75 % at best
        (3, (0.05, 0.3, 0.0)),
        (5, (0.05, 0.1, 0.0)),
    ],
)
def test_95_percent_intervals_hold_the_truth_95_percent_of_the_time(random, seeds, scatter):
    intervals = [error_interval(errors_of(world(random, seeds, *scatter)())) for _ in range(TRIALS)]
    hits = sum(low <= 1 <= high for low, high in intervals)
    assert EXPECTED - SPREAD <= hits <= EXPECTED + SPREAD


@pytest.mark.parametrize(
    ("seeds", "scatter"),
    [
        (2, (0.05, 0.2, 0.0)),  # two seeds tell so little that the samples' part hardly adds to it
        (3, (0.02, 0.1, 0.3)),  # scatter that belongs to seeds and samples at once is counted in both
    ],
)
def test_intervals_are_rather_too_wide_than_too_narrow(random, seeds, scatter):
    intervals = [error_interval(errors_of(world(random, seeds, *scatter)())) for _ in range(TRIALS)]
    assert sum(low <= 1 <= high for low, high in intervals) >= EXPECTED - SPREAD


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_interval_of_a_change_holds_the_truth(random, seeds):
    hits = 0
    for _ in range(TRIALS):
        draw = world(random, seeds, 0.05 if seeds > 1 else 0.0, 0.3, 0.05)
        found = change_interval(errors_of(draw()), errors_of(1.1 * draw()), same_weights=seeds == 1)
        hits += found.low <= 0.1 <= found.high
    assert hits >= EXPECTED - SPREAD


def test_where_nothing_changed_few_changes_are_called_real(random):
    draws = (world(random, 3, 0.05, 0.3, 0.02) for _ in range(TRIALS))
    p_values = [change_interval(errors_of(draw()), errors_of(draw())).p_value for draw in draws]
    assert sum(p < 0.05 for p in p_values) <= TRIALS - EXPECTED + SPREAD


def test_pairing_sees_a_small_change_under_a_large_scatter_of_samples(random):
    a = random.lognormal(0, 1, (1, 48))
    b = 0.97 * a * random.normal(1, 0.01, (1, 48))
    paired = change_interval(errors_of(a), errors_of(b), same_weights=True)
    assert paired.high < 0
    assert paired.low < -0.02
    unpaired = change_interval(errors_of(a), errors_of(b), same_data=False, same_weights=True)
    assert unpaired.low < 0 < unpaired.high


def test_unpaired_seeds_give_welchs_test():
    a, b = [1.00, 1.02, 0.98, 1.01], [1.03, 1.06, 1.02]
    found = change_interval(
        Errors(np.mean(a), np.std(a, ddof=1), len(a)), Errors(np.mean(b), np.std(b, ddof=1), len(b))
    )
    assert found.p_value == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue, abs=0.01)


def test_seeds_that_both_have_are_paired():
    a = {0: 0.10, 1: 0.20, 2: 0.40}
    b = {seed: 0.95 * error for seed, error in a.items()}
    together = change_interval(Errors.of(a), Errors.of(b))
    assert together.change == pytest.approx(-0.05)
    assert (together.low, together.high) == pytest.approx((-0.05, -0.05))
    other_seeds = change_interval(Errors.of(a), Errors.of({seed + 3: error for seed, error in b.items()}))
    assert other_seeds.low < 0 < other_seeds.high


def test_without_seeds_and_samples_nobody_knows():
    assert all(math.isnan(end) for end in error_interval(Errors(0.1)))
    found = change_interval(Errors(0.1), Errors(0.2))
    assert found.change == pytest.approx(1.0)
    assert math.isnan(found.low)
    assert math.isnan(found.p_value)
    assert found.basis == ""


def test_samples_count_only_if_every_seed_has_them():
    samples = {0: np.full(4, 0.1)}
    assert Errors.of({0: 0.1, 1: 0.2}, samples).basis == "seeds"
    assert Errors.of({0: 0.1}, samples).basis == "samples"
    assert Errors.of({0: 0.1, 1: 0.2}, {**samples, 1: np.full(4, 0.2)}).basis == "samples and seeds"


def test_an_exact_model_has_an_error_of_zero_for_sure():
    assert error_interval(errors_of(np.zeros((2, 4)))) == (0.0, 0.0)
    assert change_interval(errors_of(np.zeros((1, 4))), errors_of(np.ones((1, 4)))).change == math.inf
    assert change_interval(errors_of(np.zeros((1, 4))), errors_of(np.zeros((1, 4)))).change == 0.0


def test_the_same_errors_give_the_same_interval_whatever_was_asked_before(random):
    matrix = random.lognormal(0, 1, (3, 20))
    first = error_interval(errors_of(matrix))
    change_interval(errors_of(random.lognormal(0, 1, (2, 30))), errors_of(matrix))
    assert error_interval(errors_of(matrix)) == first


# --- samples that share a start


def test_samples_of_one_start_count_once():
    group = np.array([0, 0, 0, 1, 1, 2])
    assert by_start(np.array([1.0, 2.0, 3.0, 5.0, 7.0, 4.0]), group).tolist() == [2.0, 6.0, 4.0]
    errors = np.array([1.0, 2.0])
    assert by_start(errors, None) is errors
    with pytest.raises(ValueError, match="2 errors have the starts of 6 samples"):
        by_start(errors, group)


def test_an_interval_by_start_is_right_at_its_level_where_one_by_sample_is_too_narrow():
    """Eight starts of twelve samples each, whose errors differ between starts and hardly within one."""
    random = np.random.default_rng(0)
    covered = {"by start": 0, "by sample": 0}
    group = np.repeat(np.arange(8), 12)
    for _ in range(200):
        starts = np.exp(0.5 * random.standard_normal(8))
        errors = starts[group] * np.exp(0.05 * random.standard_normal(96))
        for way, known in (("by start", by_start(errors, group)), ("by sample", errors)):
            low, high = error_interval(Errors.of({0: errors.mean()}, {0: known}))
            covered[way] += low <= np.exp(0.5 * 0.25) <= high
    assert covered["by start"] >= 0.88 * 200
    assert covered["by sample"] < 0.6 * 200
