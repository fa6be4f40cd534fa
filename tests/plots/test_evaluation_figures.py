"""Figures of evaluations: the same samples at every point, ticks where models were evaluated, and true small print."""

from __future__ import annotations

import json

import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from pdebench_hss.boards.evaluations import COLUMNS, to_markdown
from pdebench_hss.plots.elsewhere import _draw, _figures, _notes, draw_evaluations
from pdebench_hss.trials.status import Status


def row(model: str, error: float | None, *, grid: int = 32, beta: float = 1.0, draw: int = 0, how: str = "") -> dict:
    known = error is not None
    return {
        **dict.fromkeys(COLUMNS, ""),
        **{"task": "toy", "trained_on": "toy", "evaluated_on": f"toy[beta={beta}]", "model": model, "seed": 0},
        **{"trained_grid": "32", "grid": str(grid), "data_seed": draw, "n_samples": 4.0, "how": how},
        **{"metric": "trajectory_l2", "test_err": error if known else float("nan"), "trained_err": 1.0},
        **{"trained_relative_l2": 1.0, "relative_l2": error if known else float("nan"), "training_free": False},
        **{"status": str(Status.OK if known else Status.SKIPPED), "reason": "" if known else "of one grid"},
        **{"err_low": float("nan"), "err_high": float("nan")},
        **{"params": json.dumps({"beta": beta}), "trained_params": json.dumps({"beta": 1.0})},
    }


def figure(rows: list[dict], name: str):
    found = {stem: (table, x, label, trained) for stem, table, x, label, trained in _figures(pd.DataFrame(rows))}
    return _draw(*found[f"toy_{name}"], {})


def points_of(drawn) -> dict[float, float]:
    line = drawn.axes[0].lines[0]
    return dict(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


def small_print(drawn) -> str:
    return " ".join(text.get_text() for text in drawn.texts)


def test_a_draw_of_the_data_on_which_little_was_evaluated_is_left_out_and_the_figure_says_so():
    some = [row("a", 2.0, beta=0.5), row("a", 3.0), row("a", 4.0, beta=2.0)]
    drawn = figure([*some, row("a", 30.0, draw=7)], "beta")
    assert points_of(drawn) == {0.5: 2.0, 1.0: 3.0, 2.0: 4.0}
    assert "data seed 0; not all of this was evaluated on data seed 7" in small_print(drawn)
    whole = figure([*some, *({**one, "data_seed": 7, "test_err": 3 * one["test_err"]} for one in some)], "beta")
    assert points_of(whole) == pytest.approx({0.5: 4.0, 1.0: 6.0, 2.0: 8.0})
    assert "data seed" not in small_print(whole)


def test_a_parameter_has_its_ticks_where_models_were_evaluated():
    drawn = figure([row("a", 2.0, beta=0.05), row("a", 3.0), row("a", 4.0, beta=2.0)], "beta")
    assert [label.get_text() for label in drawn.axes[0].get_xticklabels()] == ["0.05", "1", "2"]


def test_the_small_print_names_the_points_that_a_model_lacks_and_no_others():
    rows = [row("a", 1.0), row("a", None, grid=16), row("a", None, grid=64), row("a", 2.0, grid=64, how="interpolated")]
    rows += [row("b", 1.0), row("b", None, grid=16), row("b", None, grid=64)]
    table = pd.DataFrame(rows)
    carried, *others = _notes(table.assign(points=table["grid"].map(int)), "points", {})
    assert carried.endswith("grid and back: a.")
    assert sorted(others) == ["a at 16: of one grid", "b at 16, 64: of one grid"]


def test_a_table_says_of_what_its_ratios_are(tmp_path):
    table = pd.DataFrame([row("a", 2.0), row("a", 3.0, grid=64)])
    assert "trajectory_l2; ratio: of relative_l2 · data seed 0" in to_markdown(table)
    assert "ratio: of" not in to_markdown(table.assign(metric="relative_l2"))
    paths, complaints = draw_evaluations(table, {}, tmp_path, ["png"])
    assert ([path.name for path in paths], complaints) == (["toy_resolution.png"], [])
