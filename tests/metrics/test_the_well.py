"""VRMSE and the spectral errors are those of The Well, computed by the package itself."""

from __future__ import annotations

import numpy as np
import pytest
from metric_settings import pair, setting

from pdebench_hss.metrics.pointwise import channel_errors
from pdebench_hss.metrics.spectra import BANDS, spectral_errors

torch = pytest.importorskip("torch")
well = pytest.importorskip("the_well.benchmark.metrics")
from the_well.data.datasets import WellMetadata  # noqa: E402

# In 1D with 54 and in 2D with 32 points, modes lie on an edge between bands, and single precision decides.
GRIDS = [(16,), (54,), (128,), (33,), (32, 32), (16, 24), (15, 9), (12, 12, 12), (6, 8, 10), (7, 6, 5)]


def metadata(grid: tuple[int, ...]) -> WellMetadata:
    return WellMetadata("box", len(grid), grid, [], [], {0: ["u", "v"]}, {}, ["PERIODIC"], 1, [1], [1])


def as_the_well(fields: np.ndarray, dim: int):
    """``(n, steps, channels, *grid) -> (n, steps, *grid, channels)``."""
    return torch.from_numpy(np.moveaxis(fields, 2, -1))


@pytest.fixture(params=GRIDS, ids=lambda grid: "x".join(map(str, grid)))
def case(request):
    grid = request.param
    prediction, target = pair((3, 4, 2, *grid))
    return prediction, target, setting(target, len(grid), rollout=True, periodic=True), metadata(grid)


def test_vrmse(case):
    prediction, target, about, meta = case
    theirs = well.VRMSE()(
        as_the_well(prediction, about.dim), as_the_well(target, about.dim), meta
    )  # (n, steps, channels)
    ours = channel_errors(prediction, target, about)["vrmse"]
    np.testing.assert_allclose(ours, theirs.mean(dim=(1, 2)).numpy(), rtol=1e-12)


def test_spectral_errors_in_three_bands(case):
    """The Well divides by counts of modes in single precision: 1 + 1e-7 is 1.0000001 there."""
    prediction, target, about, meta = case
    theirs = well.binned_spectral_mse()(as_the_well(prediction, about.dim), as_the_well(target, about.dim), meta)
    ours = spectral_errors(prediction, target, about)
    for i, band in enumerate(BANDS):
        for kind in ("mse", "nmse"):
            expected = theirs[f"spectral_error_{kind}_per_bin_{i}"].mean(dim=(1, 2)).numpy()
            np.testing.assert_allclose(ours[f"spectral_{kind}_{band}"], expected, rtol=3e-7)


def test_the_bands_add_up_to_the_mean_square_error(case):
    prediction, target, about, _ = case
    ours = spectral_errors(prediction, target, about)
    total = sum(ours[f"spectral_mse_{band}"] for band in BANDS)
    np.testing.assert_allclose(total, np.square(prediction - target).reshape(3, -1).mean(axis=1), rtol=1e-12)


def test_steady_fields_are_trajectories_of_one_frame():
    prediction, target = pair((5, 2, 16, 16))
    steady, rollout = setting(target, 2), setting(target[:, None], 2, rollout=True)
    for compute in (channel_errors, spectral_errors):
        ours = compute(prediction, target, steady)
        for name, expected in compute(prediction[:, None], target[:, None], rollout).items():
            np.testing.assert_array_equal(ours[name], expected)


def test_a_constant_target_has_finite_errors():
    target = np.ones((2, 1, 16))
    found = {**channel_errors(1.1 * target, target, setting(target, 1))}
    np.testing.assert_allclose(found["vrmse"], 0.1 / np.sqrt(1e-7), rtol=1e-9)
    found = spectral_errors(target + np.cos(np.pi * np.arange(16)), target, setting(target, 1))
    np.testing.assert_allclose(found["spectral_nmse_high"], 1 / 1e-7, rtol=1e-9)
