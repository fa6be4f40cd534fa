"""nRMSE, cRMSE, bRMSE and fRMSE against PDEBench's definitions, written out point by point for one sample at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from metric_settings import pair, setting

from pdebench_hss.metrics.boundary import boundary_weights, brmse
from pdebench_hss.metrics.pointwise import channel_errors
from pdebench_hss.metrics.spectra import spectral_errors

GRIDS = [(32,), (27,), (26, 30), (9, 14), (26, 28, 30), (5, 6, 7)]


def frames_of(fields: np.ndarray):
    """Each channel at each time of one sample, ``(*grid)``."""
    return [field for step in fields for field in step]


def faces(grid: tuple[int, ...]):
    """The points of each of the 2 dim faces, one face after the other: edges and corners come several times."""
    for axis, n in enumerate(grid):
        for end in (0, n - 1):
            yield from (index for index in np.ndindex(*grid) if index[axis] == end)


def shell_errors(difference: np.ndarray) -> list[float]:
    """sqrt(sum |F|^2) / N of each shell of whole wave numbers, none of them negative."""
    grid, n = difference.shape, difference.size
    if len(grid) == 1:
        return [abs(value) / n for value in np.fft.rfft(difference)]
    transform = np.fft.fftn(difference)
    shells = [0.0] * (min(grid) // 2)
    for index in np.ndindex(*(m // 2 for m in grid)):
        shell = math.floor(math.sqrt(sum(k**2 for k in index)))
        if shell < len(shells):
            shells[shell] += abs(transform[index]) ** 2
    return [math.sqrt(total) / n for total in shells]


def mean(values) -> float:
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


@pytest.fixture(params=GRIDS, ids=lambda grid: "x".join(map(str, grid)))
def case(request):
    prediction, target = pair((2, 2, 2, *request.param))
    return prediction, target, setting(target, len(request.param), rollout=True)


def test_normalised_and_conserved(case):
    prediction, target, about = case
    found = channel_errors(prediction, target, about)
    for i in range(len(target)):
        both = list(zip(frames_of(prediction[i]), frames_of(target[i])))
        nrmse = mean(math.sqrt(np.mean((p - t) ** 2)) / math.sqrt(np.mean(t**2)) for p, t in both)
        crmse = mean(abs(p.sum() - t.sum()) / t.size for p, t in both)
        assert found["nrmse"][i] == pytest.approx(nrmse, rel=1e-12)
        assert found["crmse"][i] == pytest.approx(crmse, rel=1e-9)


def test_boundary(case):
    prediction, target, about = case
    points = list(faces(about.grid))
    for i, found in enumerate(brmse(prediction, target, about)):
        both = zip(frames_of(prediction[i]), frames_of(target[i]))
        expected = mean(math.sqrt(mean((p[point] - t[point]) ** 2 for point in points)) for p, t in both)
        assert found == pytest.approx(expected, rel=1e-12)


def test_fourier(case):
    prediction, target, about = case
    found = spectral_errors(prediction, target, about)
    for i in range(len(target)):
        shells = [shell_errors(p - t) for p, t in zip(frames_of(prediction[i]), frames_of(target[i]))]
        for band, part in (("low", slice(0, 4)), ("middle", slice(4, 12)), ("high", slice(12, None))):
            expected = mean(mean(errors[part]) for errors in shells)
            assert found[f"frmse_{band}"][i] == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_a_channel_that_is_zero_has_its_absolute_error():
    target = np.zeros((1, 1, 8))
    assert channel_errors(target + 0.5, target, setting(target, 1))["nrmse"][0] == 0.5


def test_of_a_masked_domain_the_boundary_is_its_edge():
    """A hole in a periodic box: the ring of points beside it, each as often as it has neighbours in the hole."""
    mask = np.ones((6, 6), bool)
    mask[2:4, 2:4] = False
    target = np.zeros((1, 1, 6, 6))
    about = setting(target, 2, periodic=True, mask=mask)
    weights = boundary_weights(about)
    assert weights.sum() == 8
    assert weights[1, 2] == weights[4, 3] == weights[2, 1] == weights[3, 4] == 1
    prediction = np.where(mask, weights, 1e9)[None, None]
    np.testing.assert_allclose(brmse(prediction, target, about), 1.0)
    assert boundary_weights(setting(target, 2, mask=mask)).sum() == 8 + 24
