"""Pictures on the page: right pixels, shared ranges, and a bounded share of the file."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from factories.boards import make_samples

from pdebench_hss.report.gallery import gallery
from pdebench_hss.report.panels import panels
from pdebench_hss.report.png import DIVERGING, LEVELS, SEQUENTIAL, indices, palette, png


def decode(content: bytes) -> np.ndarray:
    """By an independent reader: (rows, columns, RGBA)."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(content))
    image.load()
    return np.asarray(image.convert("RGBA"))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (32, 32), (128, 7)])
def test_another_reader_sees_the_pixels_that_were_meant(shape):
    values = np.random.default_rng(0).uniform(2, 5, shape)
    values.flat[0] = np.nan
    seen = decode(png(values, 2, 5))
    level = np.rint((values - 2) / 3 * (LEVELS - 1))
    expected = palette(SEQUENTIAL)[np.nan_to_num(level).astype(int)]
    inside = ~np.isnan(values)
    np.testing.assert_array_equal(seen[inside][:, :3], expected[inside])
    assert (seen[..., 3] == np.where(inside, 255, 0)).all()


def test_values_beyond_the_range_take_its_end_colours():
    assert list(indices(np.array([-9.0, 0.0, 1.0, 9.0, np.nan]), 0, 1)) == [1, 1, LEVELS, LEVELS, 0]


def test_a_range_about_zero_has_white_in_its_middle():
    middle = decode(png(np.zeros((1, 1)), -1, 1))[0, 0, :3]
    assert (middle == 0xF7).all()
    assert DIVERGING[len(DIVERGING) // 2] == "#f7f7f7"


def test_the_first_axis_runs_to_the_right_and_the_second_up():
    arrays = make_samples(0.1, pictures=True)
    field = np.zeros((3, 1, 4, 6), np.float32)
    field[:, 0, 3, 0] = 1.0  # largest x, smallest y: the lower right corner
    arrays |= {"picture_truth": field, "picture_error": 0 * field}
    truth = next(panel for panel in panels(arrays)[0]["panels"] if panel["role"] == "truth")
    seen = decode(base64.b64decode(truth["png"].partition(",")[2]))
    assert seen.shape[:2] == (6, 4)
    assert (seen[-1, -1, :3] == palette(SEQUENTIAL)[-1]).all()


def test_each_sample_shows_input_truth_prediction_and_error_with_shared_colours():
    shown = panels(make_samples(0.1, pictures=True))
    samples = [("best", 0), ("median", 2), ("worst", 4)]
    assert [(entry["name"], entry["sample"]) for entry in shown] == [*samples, ("all test samples", None)]
    assert [entry["error"] for entry in shown[:3]] == pytest.approx([0.05, 0.1, 0.15])
    by_role = {panel["role"]: panel for panel in shown[0]["panels"]}
    assert list(by_role) == ["input", "truth", "prediction", "error"]
    assert by_role["truth"]["low"] == by_role["prediction"]["low"]
    assert by_role["truth"]["high"] == by_role["prediction"]["high"]
    assert by_role["error"]["high"] == pytest.approx(by_role["truth"]["high"] / 10, rel=1e-2)


def test_all_samples_together_show_where_errors_are_on_scales_that_start_at_zero():
    arrays = make_samples(0.1, pictures=True)
    mean, worst = panels(arrays)[3]["panels"]
    assert (mean["title"], worst["title"]) == ("mean |error|", "worst |error|")
    assert (mean["low"], worst["low"]) == (0, 0)
    assert worst["high"] == pytest.approx(2 * mean["high"], rel=1e-3)
    del arrays["picture_map"]  # as records of earlier versions have none
    assert len(panels(arrays)) == 3


def test_lines_are_curves_and_their_rollouts_images_in_space_and_time():
    line = np.linspace(0, 1, 8, dtype=np.float32)
    curve = np.broadcast_to(line, (3, 1, 8))
    space_time = np.broadcast_to(line, (3, 1, 5, 8))
    arrays = {
        "picture_index": np.arange(3),
        "picture_input": curve,
        "picture_truth": curve,
        "picture_error": 0.5 * curve,
    }
    prediction = next(p for p in panels(arrays)[0]["panels"] if p["role"] == "prediction")
    np.testing.assert_allclose(prediction["y"], 1.5 * line, rtol=1e-3)
    rollout = panels({**arrays, "picture_truth": space_time, "picture_error": 0 * space_time})[0]
    assert rollout["axes"] == "t to the right, x up"
    assert ["y" in panel for panel in rollout["panels"]] == [True, False, False, False]


def test_a_channel_that_is_constant_is_a_number_and_not_a_picture():
    arrays = make_samples(0.1, pictures=True)
    constant = np.full_like(arrays["picture_input"], 0.054)
    arrays["picture_input"] = np.concatenate([arrays["picture_input"], constant], axis=1)
    shown = panels(arrays)[0]
    assert shown["numbers"] == {"input 2": 0.054}
    assert [panel["title"] for panel in shown["panels"]] == ["input 1", "truth", "prediction", "error"]


def test_a_record_without_pictures_has_no_panels():
    assert panels(make_samples(0.1, pictures=False)) == []


def row(rank, *statuses):
    trials = [{"id": f"0-{rank}-{i}", "status": status} for i, status in enumerate(statuses)]
    return {"rank": rank, "trials": trials}


def test_each_row_gives_its_first_good_seed_best_ranks_first_until_the_share_is_spent():
    rows = [row(3, "ok"), row(1, "failed", "ok", "ok"), row(None, "failed"), row(2, "ok")]
    arrays = make_samples(0.1, pictures=True)
    whole = gallery(rows, lambda trial: arrays)
    assert list(whole) == ["0-1-1", "0-2-0", "0-3-0"]
    one = len(json.dumps(panels(arrays)))
    some = gallery(rows, lambda trial: arrays, limit=2 * one)
    assert list(some) == ["0-1-1", "0-2-0"]
