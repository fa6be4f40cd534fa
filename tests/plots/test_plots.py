"""Figures: what is drawn is what the table says, names never overlap, and nothing depends on colour alone."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.figure
from matplotlib.text import Text
from scipy.optimize import isotonic_regression, nnls

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.frames import LEADERBOARD_COLUMNS
from pdebench_hss.boards.ladders import crossings, ladder_groups, with_changes
from pdebench_hss.boards.ranking import average_ranks
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.study import make_study
from pdebench_hss.plots import (
    board_looks,
    compute,
    critical_difference,
    curves,
    dots,
    draw_board,
    draw_study,
    heatmaps,
    pareto,
)
from pdebench_hss.plots.looks import COLOURS, PRINTED, looks
from pdebench_hss.plots.style import SETTINGS, add_notes, failures, label_of, log_ticks, spread, uncrossed
from pdebench_hss.plots.timings import draw_timings

TITLES = {"net": "A Net", "mean": "Mean", "pde": "The PDE"}
POINT = {
    "task": "pde", "task_name": "pde", "scale": "smoke", "budget": "steps=4", "device": "cpu", "metric": "relative_l2",
    "test_err_std": np.nan, "n_seeds": 2, "n_expected": 2, "paper_err": np.nan, "params_real": 10.0, "fit_seconds": 1.0,
    "step_ms": 3.0, "predict_ms": 1.0, "flops_step": 1e6, "status": "ok", "reason": "", "data_hash": "a",
    "hardware": "h", "training_free": False,
}  # fmt: skip


def table_of(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame([{**POINT, "model_name": row["model"].partition("[")[0], **row} for row in rows])


def line_points(axes, x) -> list[tuple[float, ...]]:
    """The heights of each drawn line that runs over all of ``x``."""
    lines = [line for line in axes.get_lines() if list(line.get_xdata()) == list(x) and line.get_linestyle() != "None"]
    return [tuple(line.get_ydata()) for line in lines]


# ---------------------------------------------------------------- names beside lines


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), max_size=12), st.floats(0.01, 2))
def test_spreading_keeps_the_order_and_the_gap_and_moves_as_little_as_possible(wanted, gap):
    placed = spread(wanted, gap)
    order = np.argsort(wanted, kind="stable")
    ordered = np.array(placed)[order]
    assert (np.diff(ordered) >= gap * (1 - 1e-9)).all()
    if wanted:  # least squares under an order with gaps is isotonic regression after the gaps are taken out
        shift = gap * np.arange(len(wanted))
        best = isotonic_regression(np.array(wanted)[order] - shift).x + shift
        np.testing.assert_allclose(ordered, best, atol=1e-9)


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0.01, 2), st.floats(-5, 5))
def test_spreading_below_a_bound_moves_as_little_as_possible(wanted, gap, top):
    placed = np.sort(spread(wanted, gap, top))
    # Downwards from the top: each lies at its neighbour minus gap minus a slack that is not negative. In these slacks
    # it is a problem of non-negative least squares.
    below = top - gap * np.arange(len(wanted))
    slacks, _ = nnls(np.tril(np.ones((len(wanted), len(wanted)))), below - np.sort(wanted)[::-1])
    np.testing.assert_allclose(placed[::-1], below - np.cumsum(slacks), atol=1e-7)


def test_names_that_are_apart_already_stay_where_they_are():
    assert spread([3.0, 1.0, 2.0], 0.5) == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(("low", "high"), [(0.19, 0.39), (0.24, 0.45), (0.98, 1.01), (0.03, 0.9), (1e-8, 1.0)])
def test_numbers_along_a_logarithmic_axis_never_overlap_and_there_are_some(low, high):
    with mpl.rc_context(SETTINGS):
        figure = mpl.figure.Figure(figsize=(2.5, 2))
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        log_ticks(axes.xaxis)
        figure.draw_without_rendering()
        shown = [t for t in axes.xaxis.get_ticklabels() if t.get_text() and low <= t.get_position()[0] <= high]
        boxes = [text.get_window_extent() for text in shown]
    assert len(boxes) >= 2
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)


def test_names_at_the_ends_of_lines_never_overlap_even_where_all_lines_end_alike():
    models = [f"net[width={width}]" for width in range(9)]
    rows = [
        {"model": model, "n_train": n, "test_err_mean": error}
        for i, model in enumerate(models)
        for n, error in ((4, 10.0 ** (-i / 2)), (8, 0.1 + 1e-4 * i))
    ]
    with mpl.rc_context(SETTINGS):
        figure = curves.draw(table_of(*rows), {"kind": "curves", "x": "n_train"}, TITLES)
        figure.draw_without_rendering()
        (axes,) = figure.axes
        boxes = [Text.get_window_extent(text) for text in axes.texts]  # of the words, without their leaders
    assert [text.get_text() for text in axes.texts] == [f"A Net (width={width})" for width in range(9)]
    wanted = axes.transData.transform([(8, 0.1), (8, 0.1008)])[:, 1]
    assert wanted[1] - wanted[0] < boxes[0].height / 4  # all nine would stand on one another
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    assert all(box.x0 > axes.get_window_extent().x1 for box in boxes)  # and none covers the data


def crosses(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two segments, (2 ends, 2), have a point in common that is no end of either."""

    def side(a, b, c) -> float:
        return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    (a, b), (c, d) = one, other
    return side(a, b, c) * side(a, b, d) < -1e-9 and side(c, d, a) * side(c, d, b) < -1e-9


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=9, unique=True))
def test_lines_from_names_to_points_never_cross(points):
    at = np.array(points)
    heights = spread(list(at[:, 1]), 0.08, top=1.0)
    places = np.stack([np.full(len(at), 1.035), heights], axis=1)
    lines = [np.stack([point, places[place]]) for point, place in zip(at, uncrossed(at, places), strict=True)]
    assert not any(crosses(*pair) for pair in itertools.combinations(lines, 2))


def test_names_in_the_order_of_their_points_can_cross():
    """Why `uncrossed` is needed: the lower point's line runs over the higher point's, if each name is at its height."""
    at, places = np.array([[0.0, 0.50], [0.9, 0.51]]), np.array([[1.035, 0.7], [1.035, 0.78]])
    assert crosses(np.stack([at[0], places[0]]), np.stack([at[1], places[1]]))
    assert uncrossed(at, places) == [1, 0]


def test_series_differ_without_colour():
    look = looks([f"net{i}" for i in range(8)] + [f"base{i}" for i in range(5)], [f"base{i}" for i in range(5)], {})
    in_grey = [(style.marker, str(style.line), style.filled) for style in look.values()]
    assert len(set(in_grey)) == len(in_grey)
    assert all(not look[f"base{i}"].filled for i in range(5))


def test_a_model_looks_the_same_in_every_figure():
    titles = load_registry().titles()
    one = looks(["resnet", "mine", "neural_hss", "mean", "linear"], ["mean", "linear"], titles)
    other = looks(["neural_hss", "fno", "mean", "resnet", "mine", "hss_fit"], ["mean", "hss_fit"], titles)
    for name in ("resnet", "neural_hss", "mean", "mine"):
        assert one[name] == other[name]
    assert len(set(one.values())) == 5
    alone = looks(["mine"], [], titles)["mine"]
    assert alone == one["mine"]
    assert COLOURS.index(alone.colour) >= PRINTED  # a stranger does not take the colour of a printed model


def test_built_in_baselines_have_looks_of_their_own():
    names = [name for name, found in load_registry().models.items() if found.spec.training_free]
    together = looks(names, names, {})
    assert len({(style.marker, str(style.line)) for style in together.values()}) == len(names) > 4
    assert all(looks([name], [name], {})[name] == together[name] for name in names)


def test_labels_are_titles_with_their_options():
    assert label_of("net[rank=2]", TITLES) == "A Net (rank=2)"
    assert label_of("unknown", TITLES) == "unknown"


# ---------------------------------------------------------------- curves


def test_curves_have_the_tables_means_and_deviations():
    rows = [
        {"model": "net", "n_train": n, "test_err_mean": error, "test_err_std": 0.25 * error}
        for n, error in ((16, 0.1), (4, 0.4), (8, 0.2))
    ]
    figure = curves.draw(table_of(*rows), {"kind": "curves", "x": "n_train"}, TITLES)
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert line_points(axes, (4, 8, 16)) == [(0.4, 0.2, 0.1)]
    (bars,) = (collection for collection in axes.collections if len(collection.get_segments()) == 3)
    ends = {float(segment[0, 0]): tuple(segment[:, 1]) for segment in bars.get_segments()}
    assert ends == {4: pytest.approx((0.3, 0.5)), 8: pytest.approx((0.15, 0.25)), 16: pytest.approx((0.075, 0.125))}


def test_an_option_of_the_models_along_the_axis_makes_one_line_of_a_model():
    rows = [
        {"model": f"{name}[width={width}]", "n_train": 4, "width": width, "test_err_mean": error / width}
        for name, error in (("net", 1.0), ("mean", 3.0)) for width in (2, 4)
    ]  # fmt: skip
    (axes,) = curves.draw(table_of(*rows), {"kind": "curves", "x": "width"}, TITLES).axes
    assert line_points(axes, (2, 4)) == [(0.5, 0.25), (1.5, 0.75)]
    assert [text.get_text() for text in axes.texts] == ["A Net", "Mean"]


def test_points_that_share_a_place_are_never_averaged():
    rows = [{"model": "net", "task": task, "n_train": 4, "test_err_mean": 0.1} for task in ("pde", "other")]
    with pytest.raises(UsageError, match="the line 'net' has several points at one n_train"):
        curves.draw(table_of(*rows), {"kind": "curves", "x": "n_train"}, TITLES)


def test_a_reversed_axis_ends_at_its_smallest_value():
    rows = [{"model": "net", "n_train": 4, "beta": beta, "test_err_mean": beta} for beta in (1.0, 1e-2, 1e-4)]
    figure = curves.draw(table_of(*rows), {"kind": "curves", "x": "beta", "reverse": True}, TITLES)
    left, right = figure.axes[0].get_xlim()
    assert left > right
    assert figure.axes[0].texts[0].xy == (1e-4, 1e-4)  # what the name points at


def test_exact_methods_are_drawn_on_the_floor_with_their_value():
    rows = [{"model": "mean", "n_train": n, "test_err_mean": 3e-15, "training_free": True} for n in (4, 8)]
    rows += [{"model": "net", "n_train": n, "test_err_mean": 0.1} for n in (4, 8)]
    figure = curves.draw(table_of(*rows), {"kind": "curves", "x": "n_train", "floor": 1e-5}, TITLES)
    assert sorted(line_points(figure.axes[0], (4, 8))) == [(1e-5, 1e-5), (0.1, 0.1)]
    assert {text.get_text() for text in figure.axes[0].texts} == {"Mean  3e-15", "A Net"}


def test_panels_hold_their_own_lines_and_those_that_belong_everywhere():
    rows = [
        {"model": f"{model}[rank={rank}]", "rank": rank, "n_train": n, "test_err_mean": 0.1 * rank}
        for model in ("net", "other") for rank in (1, 2) for n in (4, 8)
    ] + [{"model": "mean", "rank": 2, "n_train": n, "test_err_mean": 0.9} for n in (4, 8)]  # fmt: skip
    options = {"kind": "curves", "x": "n_train", "line": "rank", "panel": "model_name", "everywhere": ["mean"]}
    figure = curves.draw(table_of(*rows), options, TITLES)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A Net", "other"]
    for axes in figure.axes:
        assert sorted(line_points(axes, (4, 8))) == [(0.1, 0.1), (0.2, 0.2), (0.9, 0.9)]
        assert {text.get_text() for text in axes.texts} == {"rank = 1", "rank = 2", "Mean"}


def test_timing_stands_beside_the_curves():
    rows = [{"model": m, "n_train": 4, "test_err_mean": 0.1, "step_ms": t} for m, t in (("net", 5.0), ("fast", 0.5))]
    figure = curves.draw(table_of(*rows), {"kind": "curves", "x": "n_train", "timing": True}, TITLES)
    times = figure.axes[1]
    assert [label.get_text() for label in times.get_yticklabels()] == ["A Net", "fast"]  # the fastest on top
    assert [text.get_text() for text in times.texts] == ["5", "0.5"]


# ---------------------------------------------------------------- dots and maps


def test_dots_show_ours_and_the_papers_and_say_why_there_is_none():
    values = [{"column": "test_err_mean", "text": "here"}, {"column": "paper_err", "text": "paper"}]
    table = table_of(
        {"model": "net", "test_err_mean": 0.2, "paper_err": 0.1},
        {"model": "mean", "test_err_mean": np.nan, "status": "skipped", "reason": "needs a linear PDE"},
    )
    (axes,) = dots.draw(table, {"kind": "dots", "values": values, "x_label": "error"}, TITLES).axes
    marks = [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axes.get_lines()]
    assert marks == [(0.2, 0), (0.1, 0)]
    assert [text.get_text() for text in axes.texts] == ["needs a linear PDE"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A Net", "Mean"]


def ablation() -> pd.DataFrame:
    rows = [
        {"model": f"net[{r}{o}{t}]", "rank": r, "outer_rank": o, "levels": t, "test_err_mean": r + 0.1 * o + 0.02 * t}
        for r in (2, 4) for o in (1, 3) for t in (1, 2)
    ]  # fmt: skip
    return table_of(*rows, {"model": "mean", "test_err_mean": 0.5})


def test_maps_average_over_the_third_parameter_and_print_the_number():
    options = {"kind": "heatmaps", "columns": ["rank", "outer_rank", "levels"]}
    figure = heatmaps.draw(ablation(), options, TITLES)
    first, *_ = figure.axes
    assert (first.get_xlabel(), first.get_ylabel()) == ("rank r", "outer rank r_out")
    np.testing.assert_allclose(first.images[0].get_array(), [[2.33, 4.33], [2.13, 4.13]])
    assert [text.get_text() for text in first.texts] == ["2.33", "4.33", "2.13", "4.13"]
    assert heatmaps.notes(ablation(), options, TITLES)[1:] == ["For comparison: Mean 0.5."]


def test_a_cell_with_an_unfinished_trial_is_left_empty():
    table = ablation()
    table.loc[0, ["status", "test_err_mean"]] = ["failed", np.nan]
    figure = heatmaps.draw(table, {"kind": "heatmaps", "columns": ["rank", "outer_rank", "levels"]}, TITLES)
    assert np.ma.getmaskarray(figure.axes[0].images[0].get_array()).tolist() == [[False, False], [True, False]]


# ---------------------------------------------------------------- small print and files


def test_what_failed_is_said_with_its_reason():
    table = table_of(
        {"model": "net", "n_train": 4, "test_err_mean": 0.1},
        {
            "model": "net",
            "n_train": 8,
            "test_err_mean": 0.1,
            "n_seeds": 1,
            "status": "diverged",
            "reason": "loss is nan",
        },
        {
            "model": "mean",
            "n_train": 4,
            "test_err_mean": np.nan,
            "n_seeds": 0,
            "status": "skipped",
            "reason": "1D only",
        },
    )
    lines = failures(table, TITLES)
    assert lines == ["A Net (1 of 2 points), 1 of 2 seeds: diverged: loss is nan", "Mean (1 of 1 points): 1D only"]
    figure = curves.draw(table, {"kind": "curves", "x": "n_train"}, TITLES)
    add_notes(figure, lines)
    assert figure.get_supxlabel() == "\n".join(lines)


STUDY = {
    "name": "some", "title": "Some study", "models": "net", "tasks": "pde", "scales": {"smoke": {}},
    "figure": {"kind": "curves", "x": "n_train"},
}  # fmt: skip


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_table_gives_the_same_bytes(tmp_path, kind):
    table = table_of(*({"model": "net", "n_train": n, "test_err_mean": 1 / n} for n in (2, 4)))
    contents = []
    for name in ("one", "two"):
        (path,) = draw_study(make_study(STUDY), table, TITLES, [tmp_path / f"{name}.{kind}"])
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert len(contents[0]) > 2000


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_text_of_strangers_is_drawn_as_it_stands(tmp_path, kind):
    bad = "$\\frac{$ \x1b[2J"  # no formula, and no character of XML
    table = table_of(
        {"model": f"net[a={bad}]", "n_train": 4, "test_err_mean": 0.1},
        {"model": "mean", "n_train": 4, "test_err_mean": np.nan, "n_seeds": 0, "status": "failed", "reason": bad},
    )
    figure = {"kind": "curves", "x": "n_train", "x_label": bad, "notes": [bad]}
    study = make_study({**STUDY, "title": bad, "paper": bad, "figure": figure})
    (path,) = draw_study(study, table, {**TITLES, "net": bad}, [tmp_path / f"a.{kind}"])
    if kind == "svg":
        drawn = "".join(ElementTree.parse(path).getroot().itertext())
        assert drawn.count(r"$\frac{$ \u001b[2J") == 7


def test_figures_that_can_not_be_drawn_say_why(tmp_path):
    table = table_of({"model": "net", "n_train": 4, "test_err_mean": 0.1})
    unknown = make_study({**STUDY, "figure": {"kind": "curvs"}})
    with pytest.raises(UsageError, match=r"no figure kind 'curvs'\. Did you mean 'curves'"):
        draw_study(unknown, table, TITLES, [tmp_path / "a.png"])
    nothing = table.assign(test_err_mean=np.nan, status="failed", reason="no")
    with pytest.raises(UsageError, match="no trial ended well"):
        draw_study(make_study(STUDY), nothing, TITLES, [tmp_path / "a.png"])


# ---------------------------------------------------------------- boards


def board_of(errors: dict[str, list[float]]) -> pd.DataFrame:
    """models x tasks -> a leaderboard."""
    rows = [
        {**POINT, "model": model, "task": f"task{i}", "n_train": 8, "data_id": f"d{i}", "params_target": np.nan,
         "test_err_mean": error, "params_real": float(100 * (1 + place)), "training_free": model == "mean",
         "fit_flops": 1e9 * (1 + place)}
        for place, (model, values) in enumerate(errors.items()) for i, error in enumerate(values)
    ]  # fmt: skip
    board = pd.DataFrame(rows).reindex(columns=LEADERBOARD_COLUMNS)
    return board.assign(rank=board.groupby("task")["test_err_mean"].rank())


BOARD = board_of({"net": [0.1, 0.1, 0.2], "other": [0.2, 0.3, 0.1], "mean": [0.9, 0.8, 0.7]})
FIVE = board_of({"net": [0.1, 0.1, 0.2, 0.1, 0.1], "other": [0.2, 0.3, 0.1, 0.2, 0.2], "mean": [0.9] * 5})
LOOK = board_looks(BOARD, TITLES)


def test_the_critical_difference_diagram_has_ranks_bars_and_the_difference():
    ranking = average_ranks(FIVE)
    (axes,) = critical_difference.draw(ranking, TITLES, LOOK).axes
    texts = [text.get_text().strip() for text in axes.texts]
    assert {"A Net  1.20", "other  1.80", "3.00  Mean"} <= set(texts)
    assert f"critical difference {ranking.difference:.2f}" in " ".join(texts)
    bars = [line for line in axes.get_lines() if line.get_linewidth() > 3]
    assert len(bars) == len(ranking.indistinct) == 2
    ends = bars[0].get_xdata()
    assert ends[0] < 1.2
    assert 1.8 < ends[1] < 3.0


def test_there_is_no_critical_difference_diagram_of_fewer_than_five_families():
    with pytest.raises(UsageError, match=r"at least 5 families of tasks .* here are 3 tasks"):
        critical_difference.draw(average_ranks(BOARD), TITLES, LOOK)
    variants = average_ranks(FIVE, families={"task3": "task0", "task4": "task0"})
    with pytest.raises(UsageError, match="here are 5 tasks of 3 families, each with one vote"):
        critical_difference.draw(variants, TITLES, LOOK)


def test_the_pareto_plot_marks_the_front_and_names_everybody():
    figure = pareto.draw(BOARD, "params_real", TITLES, LOOK)
    first, _, third = figure.axes
    assert {text.get_text() for text in first.texts} == {"A Net", "other", "Mean"}
    steps = [line for line in first.get_lines() if line.get_drawstyle() == "steps-post"]
    assert [list(line.get_xdata()) for line in steps] == [[100.0]]  # the cheapest is the best: a front of one
    (front,) = (line for line in third.get_lines() if line.get_drawstyle() == "steps-post")
    assert list(zip(front.get_xdata(), front.get_ydata())) == [(100.0, 0.2), (200.0, 0.1)]


def test_the_front_is_among_the_models_that_have_the_cost():
    """A solver without parameters is not drawn, and does not take the front away from those that are."""
    solver = board_of({"solver": [1e-9, 1e-9, 1e-9]}).assign(params_real=0.0)
    whole = pd.concat([BOARD, solver], ignore_index=True)
    figure = pareto.draw(whole, "params_real", TITLES, board_looks(whole, TITLES))
    (front,) = (line for line in figure.axes[2].get_lines() if line.get_drawstyle() == "steps-post")
    assert list(zip(front.get_xdata(), front.get_ydata())) == [(100.0, 0.2), (200.0, 0.1)]


def test_a_board_is_drawn_as_far_as_it_can_be(tmp_path):
    paths, complaints = draw_board(BOARD[BOARD["task"] == "task0"].assign(fit_flops=np.nan), TITLES, tmp_path, ["svg"])
    assert sorted(path.name for path in paths) == [
        *("pareto_fit_seconds.svg", "pareto_params_real.svg", "pareto_predict_ms.svg"),
    ]
    few, no_cost = complaints
    assert few.startswith("critical_difference: a critical-difference diagram needs at least 5 families")
    assert no_cost.startswith("pareto_fit_flops: no row of the board has")


def whisker_ends(axes) -> list[tuple[float, float]]:
    """Lower and upper ends of the vertical lines of an axes."""
    (lines,) = axes.collections
    return [tuple(segment[:, 1]) for segment in lines.get_segments()]


def test_whiskers_are_the_intervals_that_the_caption_promises(tmp_path):
    board = BOARD.assign(err_low=0.8 * BOARD["test_err_mean"], err_high=1.5 * BOARD["test_err_mean"])
    first = pareto.draw(board, "params_real", TITLES, LOOK).axes[0]
    np.testing.assert_allclose(sorted(whisker_ends(first)), [(0.08, 0.15), (0.16, 0.3), (0.72, 1.35)])
    (path, *_), _ = draw_board(board, TITLES, tmp_path, ["svg"], kinds=["pareto"])
    assert "whiskers: 95 % intervals" in "".join(ElementTree.parse(path).getroot().itertext())


def test_a_whisker_through_zero_runs_over_the_edge_and_is_not_cut_to_look_shorter():
    rows = [
        {"model": "net", "n_train": n, "test_err_mean": 0.1, "test_err_std": std} for n, std in ((4, 0.3), (8, 0.01))
    ]
    (axes,) = curves.draw(table_of(*rows), {"kind": "curves", "x": "n_train"}, TITLES).axes
    (low, high), short = whisker_ends(axes)
    assert low < axes.get_ylim()[0] / 1e9
    assert high == pytest.approx(0.4)
    assert short == pytest.approx((0.09, 0.11))
    assert axes.get_ylim()[0] < 0.09


def timing(model: str, task: str, batch: int, milliseconds: float) -> dict:
    return {
        "task": task, "model": model, "batch": batch, "batch_asked": 8, "step_ms": milliseconds,
        "step_ms_low": 0.9 * milliseconds, "step_ms_high": 1.2 * milliseconds, "hardware": "a machine", "threads": 1,
        "reason": "" if batch == 8 else f"batch {batch} instead of 8: the limits of a step are 2 s and 1 GB",
    }  # fmt: skip


def test_timings_have_no_bars_and_only_marks_of_one_batch():
    rows = [timing("net", "pde", 8, 10.0), timing("mean", "pde", 8, 2.0), timing("slow", "pde", 2, 50.0)]
    figure = draw_timings(rows, "step", TITLES)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert not axes.patches  # bars are patches
    marks = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axes.get_lines()}
    assert marks == {(10.0, 0.0), (2.0, 1.0)}
    (lines,) = axes.collections
    np.testing.assert_allclose([segment[:, 0] for segment in lines.get_segments()], [(9.0, 12.0), (1.8, 2.4)])
    assert {text.get_text() for text in axes.texts} == {"10", "2", "batch 2: 50"}
    assert "the limits of a step are 2 s and 1 GB" in figure.get_supxlabel().replace("\n   ", " ")


# ---------------------------------------------------------------- ladders


def ladder_of(errors: dict[str, list[float]]) -> pd.DataFrame:
    """models x budgets of 10, 40 and 160 core-seconds -> a leaderboard."""
    board = board_of(errors)
    budgets = board["task"].map({f"task{i}": f"core_seconds={10 * 4**i}" for i in range(3)})
    free = board["model"].isin(["mean", "exact"])
    return with_changes(board.assign(task="pde", data_id="d", budget=budgets, training_free=free))


LADDER = ladder_of({"net": [0.8, 0.4, 0.2], "other": [0.4, 0.4, 0.4], "mean": [0.6, 0.6, 0.6], "exact": [1e-9] * 3})


def test_the_ladder_has_a_line_for_every_model_level_ones_for_formulas_and_numbers_where_they_cross():
    (group,) = ladder_groups(LADDER)
    found = crossings(group)
    (axes,) = compute.draw(group, found, TITLES, board_looks(LADDER, TITLES)).axes
    rungs = [10.0, 40.0, 160.0]
    assert set(line_points(axes, rungs)) == {(0.8, 0.4, 0.2), (0.4, 0.4, 0.4)}
    assert set(line_points(axes, [10.0, 160.0])) == {(0.6, 0.6), (0.01, 0.01)}  # what is exact lies on the floor
    assert marks(axes) == {"1": pytest.approx((10 * (0.8 / 0.6) ** 2, 0.6)), "2": pytest.approx((40.0, 0.4))}
    assert {text.get_text() for text in axes.texts} - {"1", "2"} == {"A Net", "other", "Mean", "exact  1e-09"}
    assert compute.notes(group, found, TITLES) == [
        "A Net overtakes [1] Mean at about 18, [2] other at about 40 core-seconds.",
        "Arrows: far below the others, at the error that stands beside them; not to scale.",
        "Not converged at the largest budget: A Net (−50 % by ×4).",
    ]


def test_what_is_near_the_trained_models_is_drawn_to_scale_and_does_not_touch_the_floor():
    board = ladder_of({"net": [0.8, 0.4, 0.2], "mean": [3e-4] * 3, "exact": [1e-9] * 3})
    (group,) = ladder_groups(board)
    (axes,) = compute.draw(group, [], TITLES, board_looks(board, TITLES)).axes
    assert set(line_points(axes, [10.0, 160.0])) == {(3e-4, 3e-4), (1e-5, 1e-5)}


def marks(axes) -> dict[str, tuple[float, float]]:
    """The numbers of crossings and where they stand."""
    return {text.get_text(): text.get_position() for text in axes.texts if text.get_bbox_patch() is not None}


def test_crossings_too_close_for_a_number_each_share_a_mark_and_marks_never_overlap():
    flat = {f"other{i}": [0.4 + 0.002 * i] * 3 for i in range(4)}
    board = ladder_of({"net": [0.8, 0.4, 0.2], **flat, "mean": [0.6, 0.6, 0.6]})
    (group,) = ladder_groups(board)
    found = crossings(group)
    assert [crossing.loser for crossing in found] == ["mean", "other3", "other2", "other1", "other0"]
    with mpl.rc_context(SETTINGS):
        figure = compute.draw(group, found, TITLES, board_looks(board, TITLES))
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_bbox_patch() is not None]
    assert set(marks(figure.axes[0])) == {"1", "2–5"}
    assert not boxes[0].overlaps(boxes[1])
    (line,) = compute.notes(group, found, TITLES)[:1]
    assert [number in line for number in ("[1] Mean", "[2] other3", "[5] other0")] == [True] * 3


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=12), st.floats(0.1, 50))
def test_points_are_put_together_until_the_groups_are_apart(points, least):
    groups = compute.together(np.reshape(points, (-1, 2)), least)
    assert sorted(itertools.chain(*groups)) == list(range(len(points)))
    centres = [np.mean([points[i] for i in members], axis=0) for members in groups]
    assert all(np.hypot(*(a - b)) >= least for a, b in itertools.combinations(centres, 2))


@pytest.mark.parametrize(
    ("numbers", "text"), [([4], "4"), ([1, 2, 3], "1–3"), ([1, 3], "1, 3"), ([1, 2, 5, 7, 8], "1–2, 5, 7–8")]
)
def test_numbers_that_share_a_mark_are_written_short(numbers, text):
    assert compute.ranges(numbers) == text


def test_a_board_with_ladders_has_a_figure_for_each_task_and_the_others_of_its_largest_budget(tmp_path):
    board = pd.concat([LADDER, LADDER.assign(task="pde[beta=0.1]")], ignore_index=True)
    paths, _ = draw_board(board, TITLES, tmp_path, ["svg"], kinds=["compute"])
    assert [path.name for path in paths] == ["compute_pde.svg", "compute_pde_beta_0.1.svg"]
    _, complaints = draw_board(board, TITLES, tmp_path, ["svg"], kinds=["ranks", "pareto"])
    assert not [line for line in complaints if "several ways" in line]


def test_a_board_without_a_ladder_says_how_to_get_one_if_it_is_asked_for(tmp_path):
    paths, complaints = draw_board(BOARD, TITLES, tmp_path, ["svg"], kinds=["compute"])
    assert paths == []
    assert complaints == ["compute: no model has several budgets of one kind; run with --budget core_seconds=10,40,160"]
