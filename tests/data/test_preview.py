"""Previews: a readable picture for every kind of data."""

import numpy as np
import pytest
from factories.tasks import make_task
from matplotlib.image import imread

from pdebench_hss.base.errors import UsageError
from pdebench_hss.data.preview import preview, shell_power


def make_data(task, n=4):
    rng = np.random.default_rng(0)
    steps = (task.size.steps,) if task.rollout else ()
    inputs = rng.normal(size=(n, task.in_channels, *task.grid))
    if task.in_channels > 2:
        inputs[:, 2:] = rng.random(n).reshape(-1, 1, *(1,) * task.dim)  # parameters
    return inputs, rng.normal(size=(n, *steps, task.out_channels, *task.grid))


def corner(grid):
    x = np.indices(grid)
    return ~((x[0] > grid[0] / 2) & (x[1] > grid[1] / 2))


KINDS = {
    "curves": make_task(grid=(32,)),
    "curves of many channels": make_task(grid=(32,), channels=(3, 9)),
    "space-time": make_task(grid=(32,), steps=6, rollout=True),
    "a rollout of one step": make_task(grid=(16,), steps=1, rollout=True),
    "images": make_task(grid=(16, 24), periodic=True),
    "images with a mask": make_task(grid=(16, 16), mask=corner),
    "images with parameters": make_task(grid=(16, 16), channels=(4, 2), evolves=True),
    "images in time": make_task(grid=(16, 16), channels=(2, 2), steps=5, rollout=True),
    "cubes": make_task(grid=(8, 8, 12)),
    "cubes of many channels": make_task(grid=(8, 8, 8), channels=(2, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_becomes_a_readable_picture(tmp_path, kind):
    task = KINDS[kind]
    path = preview(task, *make_data(task), tmp_path / "picture.png", samples=2)
    pixels = imread(path)[..., :3]
    height, width, _ = pixels.shape
    assert 600 < width < 4000
    assert 600 < height < 2000
    assert pixels.std() > 0.05  # something is drawn
    assert path.stat().st_size < 2_000_000


def test_rows_are_samples(tmp_path):
    task = KINDS["images"]
    data = make_data(task, n=2)
    heights = [imread(preview(task, *data, tmp_path / "p.png", samples=n)).shape[0] for n in (1, 2, 9)]
    assert heights[0] < heights[1]
    assert heights[2] == heights[1]  # there are two


def test_points_outside_the_domain_are_not_drawn(tmp_path):
    """Whatever lies outside changes nothing, not even the colours."""
    task = KINDS["images with a mask"]
    inputs, outputs = make_data(task, n=1)
    first = imread(preview(task, inputs, outputs, tmp_path / "a.png"))
    inputs[..., ~task.mask] = 1e6
    outputs[..., ~task.mask] = np.nan
    np.testing.assert_array_equal(imread(preview(task, inputs, outputs, tmp_path / "b.png")), first)


def test_constant_and_zero_fields_can_be_drawn(tmp_path):
    task = KINDS["images"]
    inputs, outputs = make_data(task, n=1)
    preview(task, 0 * inputs, 0 * outputs + 1, tmp_path / "constant.png")


def test_other_formats_and_wrong_ones(tmp_path):
    task = KINDS["curves"]
    assert preview(task, *make_data(task), tmp_path / "p.svg").read_text().startswith("<?xml")
    with pytest.raises(UsageError, match=r"'p\.txt': the name must end in one of .*png"):
        preview(task, *make_data(task), tmp_path / "p.txt")
    with pytest.raises(UsageError, match="nothing to draw: samples=0"):
        preview(task, *make_data(task), tmp_path / "p.png", samples=0)


def test_shells_hold_the_power_of_their_waves():
    x, y = np.meshgrid(np.arange(32) / 32, np.arange(32) / 32, indexing="ij")
    wave = 1 + 2 * np.cos(2 * np.pi * 5 * x) + np.sin(2 * np.pi * (6 * x + 8 * y))
    power = shell_power(wave[None], periodic=True)[0]
    expected = np.zeros(17)
    expected[[0, 5, 10]] = [1, 2, 0.5]  # mean squares: the constant, |k| = 5, |k| = |(6, 8)| = 10
    np.testing.assert_allclose(power, expected, atol=1e-12)


def test_windowing_hides_the_seam_of_what_is_not_periodic():
    ramp = np.linspace(0, 1, 64)[None]
    with_window, without = (shell_power(ramp, periodic=p)[0] for p in (False, True))
    assert with_window[20] < 1e-3 * without[20]
