"""Gray-Scott: the solver against solvers of other kinds, the starts, and what a sample may depend on."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
from pdebench_hss_tasks.gray_scott import FORWARD, INVERSE
from pdebench_hss_tasks.gray_scott.etdrk4 import scheme, solve
from pdebench_hss_tasks.gray_scott.samples import CASES, DIFFUSION, PATTERNS, coarse, died, generate, inverse
from pdebench_hss_tasks.gray_scott.spectrum import resample
from pdebench_hss_tasks.gray_scott.starts import FAMILIES, centre_and_width, start
from scipy.integrate import solve_ivp

import pdebench_hss as pb
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data.cache import Dataset, sample_seeds
from pdebench_hss.trials.store import Store

PAIRS = np.array(list(PATTERNS.values()))
FEED, KILL = PAIRS.T
QUARTER = (4 * DIFFUSION[0], 4 * DIFFUSION[1])  # diffusion on a quarter of the paper's square
SMOKE = FORWARD.scales["smoke"]
# Of seed 11 at the smoke scale: mean and deviation of starts and of ends.
MOMENTS = [0.5046410499417983, 0.4723676005879618, 0.44167063010240454, 0.3936420016302266]


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def six_starts(family, n, patch, seed=0):
    """The start of every pattern."""
    return np.stack([start(family, seed, f, k, n, patch) for f, k in PAIRS])


# ---------------------------------------------------------------- the solver


@pytest.mark.parametrize("z", [0.0, -1e-9, -1e-3, -0.4, -7.0, -60.0])
def test_coefficients_equal_their_formulas_in_100_digits(z):
    dt = 0.5
    computed = [float(c[0]) for c in scheme(np.array([z / dt]), dt)]
    with mpmath.workdps(100):
        w = mpmath.mpf(z) if z else mpmath.mpf(10) ** -18
        e, half = mpmath.e**w, mpmath.e ** (w / 2)
        exact = [
            half,
            e,
            dt * (half - 1) / w,
            dt * (-4 - w + e * (4 - 3 * w + w**2)) / w**3,
            2 * dt * (2 + w + e * (w - 2)) / w**3,
            dt * (-4 - 3 * w - w**2 + e * (4 - w)) / w**3,
        ]
    np.testing.assert_allclose(computed, [float(c) for c in exact], rtol=1e-11, atol=1e-14)


def test_agrees_with_a_plain_complex_etdrk4():
    path = Path(__file__).parents[2] / "benchmarks" / "gray_scott.py"
    spec = importlib.util.spec_from_file_location("benchmark_gray_scott", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    for family in FAMILIES:
        arguments = (six_starts(family, 32, 0.25), FEED, KILL, 1.0, 50, (16 * DIFFUSION[0], 16 * DIFFUSION[1]))
        np.testing.assert_allclose(solve(*arguments), benchmark.plain_solve(*arguments), rtol=0, atol=1e-12)


def test_agrees_with_a_runge_kutta_method_of_lines():
    """No Fourier transform, no exponential: trigonometric differentiation matrices and DOP853 at 1e-10."""
    n, time = 16, 20.0
    points = np.linspace(-1, 1, n, endpoint=False)
    waves = range(1, n // 2)
    basis = [np.full(n, np.sqrt(1 / n))]
    basis += [np.sqrt(2 / n) * wave(np.pi * m * points) for m in waves for wave in (np.cos, np.sin)]
    basis.append(np.sqrt(1 / n) * np.cos(np.pi * n / 2 * points))
    basis = np.array(basis)  # orthonormal rows
    number = np.array([0, *(m for m in waves for _ in range(2)), n // 2])
    second = -(basis.T * (np.pi * number) ** 2) @ basis
    high = (basis.T * (number >= n / 3)) @ basis  # projects on the modes that are cut where both numbers are high
    diffusion = np.array((64 * DIFFUSION[0], 64 * DIFFUSION[1]))[:, None, None]

    def rate(_, state, f, k):
        u = state.reshape(2, n, n)
        a, b = u
        change = diffusion * (second @ u + u @ second.T) + np.stack([-a * b**2 + f * (1 - a), a * b**2 - (f + k) * b])
        return (change - high @ change @ high.T).ravel()

    starts = six_starts("fourier", n, 0.125)
    ends = solve(starts, FEED, KILL, 0.125, round(time / 0.125), tuple(diffusion.ravel()))
    for begin, end, pair in zip(starts, ends, PAIRS):
        smooth = begin - high @ begin @ high.T
        exact = solve_ivp(rate, (0, time), smooth.ravel(), "DOP853", args=tuple(pair), rtol=1e-10, atol=1e-12)
        assert relative(end, exact.y[:, -1].reshape(2, n, n)) < 1e-7


@pytest.mark.parametrize("family", FAMILIES)
def test_is_of_fourth_order_in_time(family):
    n, time = 32, 8
    starts = six_starts(family, n, 0.25)

    def at_end(dt):
        return solve(starts, FEED, KILL, dt, round(time / dt), (16 * DIFFUSION[0], 16 * DIFFUSION[1]))

    reference = at_end(1 / 32)
    errors = [relative(at_end(dt), reference) for dt in (1 / 2, 1 / 4, 1 / 8)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 4) < 0.35), orders


def test_the_time_step_of_the_data_is_fine_enough():
    """dt = 1 against dt = 1/4 on the small scale's grid, after the fast first reactions that ask most of the step."""
    starts = np.concatenate([six_starts(family, 64, 0.5) for family in FAMILIES])
    feed, kill = np.tile(FEED, 2), np.tile(KILL, 2)
    ends, reference = (solve(starts, feed, kill, dt, round(60 / dt), QUARTER) for dt in (1.0, 0.25))
    for end, exact in zip(ends, reference):
        assert relative(end, exact) < 5e-4


def test_steady_states_stay():
    f, k = PATTERNS["bubbles"]
    third, _ = centre_and_width(f, k)
    states = np.stack([np.full((2, 16, 16), value[:, None, None]) for value in (np.array([1.0, 0.0]), third)])
    ends = solve(states, np.full(2, f), np.full(2, k), 1.0, 100, QUARTER)
    np.testing.assert_allclose(ends, states, rtol=0, atol=1e-12)


def test_a_patch_is_a_tile_of_the_papers_square():
    """What the small scale stands on: its samples are the paper's physics on a smaller periodic square."""
    small = replace(SMOKE, grid=(32, 32), options={"patch": 0.5, "dt": 1.0, "horizon": 60})
    whole = replace(SMOKE, grid=(64, 64), options={"patch": 1.0, "dt": 1.0, "horizon": 60})
    inputs, outputs = generate([0] * 12, small, cases=range(12))
    tiled = coarse(np.tile(inputs, (1, 1, 2, 2)), 0, whole)
    np.testing.assert_allclose(tiled, np.tile(outputs, (1, 1, 2, 2)), rtol=0, atol=1e-10)


# ---------------------------------------------------------------- the starts


@pytest.mark.parametrize("seed", range(10))
def test_gaussian_starts_fill_the_unit_interval_and_are_periodic(seed):
    fields = start("gaussians", seed, *PATTERNS["maze"], 128, 1.0)
    assert fields.min(axis=(1, 2)).tolist() == [0, 0]
    assert fields.max(axis=(1, 2)).tolist() == [1, 1]
    # Smooth across the edges: exp(-300 r^2) has nothing left at the highest wave numbers, a seam would.
    spectrum = np.abs(np.fft.fft2(fields, norm="forward"))
    assert spectrum[:, 64].max() < 1e-9
    assert spectrum[:, :, 64].max() < 1e-9


@pytest.mark.parametrize("pattern", PATTERNS)
def test_fourier_starts_interpolate_bounded_noise_around_their_mean(pattern):
    mean, width = centre_and_width(*PATTERNS[pattern])
    for seed in range(6):
        fields = start("fourier", seed, *PATTERNS[pattern], 128, 1.0)
        nodes = fields[:, ::4, ::4]  # the 32 x 32 random numbers
        deviation = np.abs(nodes - mean[:, None, None]) / width[:, None, None]
        assert deviation.max() <= 0.25 + 1e-12
        assert deviation.max() > 0.24
        spectrum = np.abs(np.fft.fft2(fields, norm="forward"))
        assert spectrum[:, 17:-16].max() < 1e-15  # no mode above 16


def test_only_bubbles_start_around_the_third_steady_state():
    means = {name: centre_and_width(*pair)[0].round(3).tolist() for name, pair in PATTERNS.items()}
    assert means.pop("bubbles") == [0.430, 0.360]
    assert set(map(tuple, means.values())) == {(1.0, 0.0)}


def test_a_patch_has_as_much_of_b_as_the_whole_square():
    """A quarter of the square has a quarter of the bumps, four times as wide in area."""
    filled = {
        patch: np.mean([start("gaussians", seed, *PATTERNS["maze"], n, patch)[1].mean() for seed in range(60)])
        for patch, n in ((1.0, 64), (0.5, 32))
    }
    assert 0.6 < filled[0.5] / filled[1.0] < 1.6


# ---------------------------------------------------------------- the samples


def test_a_sample_depends_on_its_seed_and_case_alone():
    seeds, cases = [7] * 12 + [8] * 12, list(range(12)) * 2
    inputs, outputs = generate(seeds, SMOKE, cases=cases)
    assert inputs.shape == (24, 4, 16, 16)
    assert outputs.shape == (24, 2, 16, 16)
    order = [13, 2, 23, 5]
    again = generate([seeds[i] for i in order], SMOKE, cases=[cases[i] for i in order])
    np.testing.assert_array_equal(again[0], inputs[order])
    np.testing.assert_array_equal(again[1], outputs[order])


def test_bits_do_not_depend_on_the_batch_at_any_size():
    """A difference in the last bit would grow: some patterns are chaotic over the paper's horizon."""
    for n in (16, 64, 128):
        starts = np.stack([start(FAMILIES[seed % 2], seed, *PAIRS[seed], n, n / 128) for seed in range(5)])
        feed, kill = PAIRS[:5].T
        together = solve(starts, feed, kill, 1.0, 3, DIFFUSION)
        for i in range(5):
            alone = solve(starts[i : i + 1], feed[i : i + 1], kill[i : i + 1], 1.0, 3, DIFFUSION)
            np.testing.assert_array_equal(alone[0], together[i])


def test_inputs_carry_the_parameters_as_constant_fields():
    inputs, _ = generate([3] * 12, SMOKE, cases=range(12))
    expected = np.tile(PAIRS, (2, 1))[:, :, None, None]
    np.testing.assert_array_equal(inputs[:, 2:], np.broadcast_to(expected, (12, 2, 16, 16)))


def test_no_start_is_on_both_sides():
    for size in FORWARD.scales.values():
        train, test = (sample_seeds(FORWARD, split, 0, getattr(size, split)) for split in ("train", "test"))
        assert not set(train) & set(test)
        assert all(train.count(seed) == len(CASES) for seed in set(train[:60]))
    # The trajectories of a seed do share its two starts: splitting by trajectory would leak.
    gaussians, noise = np.split(generate([4] * 12, SMOKE, cases=range(12))[0][:, :2], 2)
    assert np.all(gaussians == gaussians[0])
    assert np.all(noise[[0, 2, 3, 4, 5]] == noise[0])
    mean, width = centre_and_width(*PATTERNS["bubbles"])  # the same noise around another mean
    rescaled = (noise[1] - mean[:, None, None]) / width[:, None, None]
    np.testing.assert_allclose(rescaled, noise[0] - np.array([1, 0])[:, None, None], atol=1e-12)


def test_both_families_are_half_of_every_split():
    for size in FORWARD.scales.values():
        for count in (size.train, size.test):
            families = [CASES[i % FORWARD.cases][0] for i in range(count)]
            assert families.count("gaussians") == families.count("fourier")


def test_forward_and_inverse_share_one_dataset():
    forward, inverted = (load_registry().task(spec.name) for spec in (FORWARD, INVERSE))
    assert Dataset(forward, "smoke").path == Dataset(inverted, "smoke").path
    inputs, outputs = generate([1, 1], SMOKE, cases=[0, 9])
    backward_inputs, backward_outputs = inverse(inputs, outputs)
    np.testing.assert_array_equal(backward_inputs[:, :2], outputs)
    np.testing.assert_array_equal(backward_inputs[:, 2:], inputs[:, 2:])
    np.testing.assert_array_equal(backward_outputs, inputs[:, :2])


def test_a_change_of_the_data_is_noticed():
    inputs, outputs = generate([11] * 12, SMOKE, cases=range(12))
    moments = [inputs[:, :2].mean(), inputs[:, :2].std(), outputs.mean(), outputs.std()]
    np.testing.assert_allclose(moments, MOMENTS, rtol=1e-10)


def test_gliders_die_from_noise_and_are_told_apart():
    """B vanishes, (1, 0) remains; its norm does not vanish, so relative errors stay meaningful."""
    size = replace(FORWARD.scales["small"], options={**FORWARD.scales["small"].options, "horizon": 400})
    _, outputs = generate([0] * 2, size, cases=[CASES.index(("fourier", p)) for p in ("gliders", "maze")])
    assert died(outputs).tolist() == [True, False]
    np.testing.assert_allclose(outputs[0, 0], 1, atol=0.05)
    assert np.abs(outputs[0, 1]).max() < 1e-6


def test_coarse_levels_are_the_data_then_cheaper_and_worse():
    size = replace(FORWARD.scales["small"], options={**FORWARD.scales["small"].options, "horizon": 50})
    inputs, outputs = generate([0] * 12, size, cases=range(12))
    np.testing.assert_array_equal(coarse(inputs, 0, size), outputs)
    errors = [relative(coarse(inputs, level, size), outputs) for level in range(1, FORWARD.coarse_levels + 1)]
    assert errors[0] < 0.01
    assert errors == sorted(errors)
    assert errors[-1] < 1


def test_resample_is_exact_where_it_can_be():
    points = np.linspace(-1, 1, 48, endpoint=False)
    fine = np.cos(3 * np.pi * points)[:, None] + np.sin(7 * np.pi * points)
    np.testing.assert_allclose(resample(fine, 16), fine[::3, ::3], atol=1e-13)
    np.testing.assert_allclose(resample(resample(fine, 16), 48), fine, atol=1e-13)
    noise = np.random.default_rng(0).normal(size=(2, 8, 8))
    np.testing.assert_allclose(resample(noise, 32)[:, ::4, ::4], noise, atol=1e-13)


def test_the_specs_import_nothing_heavy():
    code = "import sys, pdebench_hss_tasks.gray_scott; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "torch", "h5py"} & set(answer.stdout.split())


def test_masking_the_state_differs_from_masking_the_snapshot_by_less_than_the_mesh():
    """Chebfun masks what it stores and not what it goes on from; ours masks the state (docs/tasks.md)."""
    n, steps = 32, 200
    diffusion = (16 * DIFFUSION[0], 16 * DIFFUSION[1])
    starts = np.concatenate([six_starts(family, n, 0.25) for family in FAMILIES])
    rates = (np.tile(FEED, 2), np.tile(KILL, 2), 1.0)

    ours = solve(starts, *rates, steps, diffusion)
    reference = solve(starts, *rates, steps, diffusion, dealias="snapshot")
    fine = resample(solve(resample(starts, 2 * n), *rates, steps, diffusion, dealias="snapshot"), n)
    assert 1e-5 < relative(ours, reference) < 0.5 * relative(reference, fine)

    # The snapshot is masked, the state behind it is not: going on from the snapshot is not the longer solve.
    spectrum = np.fft.rfft2(reference)
    assert np.abs(spectrum[..., n // 2, n // 2]).max() < 1e-10
    half = solve(starts, *rates, steps // 2, diffusion, dealias="snapshot")
    again = solve(half, *rates, steps - steps // 2, diffusion, dealias="snapshot")
    assert relative(again, reference) > 1e-8
    half = solve(starts, *rates, steps // 2, diffusion)
    assert relative(solve(half, *rates, steps - steps // 2, diffusion), ours) < 1e-9
    with pytest.raises(ValueError, match="dealias='off' is not one of state, snapshot"):
        solve(starts, *rates, steps, diffusion, dealias="off")


def test_a_record_names_the_start_of_each_test_sample(tmp_path):
    """Twelve samples of one seed: six patterns from a start of each family. Intervals go by start."""
    pb.run(models="mean", tasks="gray_scott_forward", scale="smoke", executor="inline", out=str(tmp_path))
    store = Store(tmp_path)
    (record,) = store.all()
    assert store.samples(record.key, "test_group")["test_group"].tolist() == [0] * 12
