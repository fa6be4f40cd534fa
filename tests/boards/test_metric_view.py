"""A board through another metric: its order, its reasons, its comparisons; and the files that it leaves alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from factories.boards import page_record, page_trial, write_board

from pdebench_hss import MetricSpec, compare, leaderboard
from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.comparison import compare as compare_boards
from pdebench_hss.boards.frames import results
from pdebench_hss.boards.reading import read_board
from pdebench_hss.boards.writing import write_board as write_tables
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.plots import draw_board
from pdebench_hss.trials.store import Store

REGISTRY = load_registry()
VRMSE, TIME = REGISTRY.metric("vrmse").spec, REGISTRY.metric("correlation_time").spec
SPREAD = np.array([0.8, 0.9, 1.0, 1.1, 1.2])


def record(model, seed=0, error=0.1, task="poisson_2d", training_free=False, **metrics):
    """A record whose further metrics have the means that are given."""
    trial = page_trial(model, task, seed, training_free=training_free)
    usual = page_record(trial, error)
    samples = {**usual.samples, **{f"error_{name}": mean * SPREAD for name, mean in metrics.items()}}
    size = 1.0 + "abcmno".index(model[0])  # no two models cost the same
    cost = {"seconds": {"fit": size}, "predict_ms": size, "spent": {"flops": size}, "parameters": {"real": int(size)}}
    return page_record(trial, error, metrics={**usual.metrics, **metrics}, samples=samples, **cost)


def board(folder, factor=1.0, seeds=3):
    """By error a is better than b, by VRMSE and by time b is better than a; c has neither; another task has no time."""
    records = []
    for seed in range(seeds):
        wobble = 1 + 0.02 * seed
        records += [
            record("a", seed, 0.1, vrmse=0.4 * wobble, correlation_time=3.0 * wobble * factor),
            record("b", seed, 0.2, vrmse=0.3 * wobble, correlation_time=6.0 * wobble * factor),
            record("c", seed, 0.3),
            record("mean", seed, 0.9, training_free=True, vrmse=1.0, correlation_time=2.0),
            record("a", seed, 0.1, "heat_1d", vrmse=0.5),
            record("b", seed, 0.1, "heat_1d", vrmse=0.6),
        ]
    return write_board(folder, records)


def test_each_metric_has_an_order_of_its_own(tmp_path):
    path = board(tmp_path / "board")
    orders = {
        name: list(leaderboard(path, name).query("task == 'poisson_2d' and n_seeds > 0")["model"])
        for name in ("", "vrmse", "correlation_time")
    }
    assert orders == {"": ["a", "b", "c", "mean"], "vrmse": ["b", "a", "mean"], "correlation_time": ["b", "a", "mean"]}


def test_higher_is_better_where_the_metric_says_so(tmp_path):
    table = leaderboard(board(tmp_path / "board"), "correlation_time").set_index("model")
    assert table["rank"][["b", "a", "mean"]].tolist() == [1, 2, 3]
    assert table["skill"]["b"] == pytest.approx(6.0 * 1.02 / 2.0 - 1)
    assert table["skill"]["mean"] == 0.0
    low, high = table["err_low"]["b"], table["err_high"]["b"]
    assert low < table["test_err_mean"]["b"] < high  # over the samples of that metric


def test_a_trial_without_the_metric_says_so_and_a_task_without_it_is_left_out(tmp_path):
    found = read_board(board(tmp_path / "board"), metric=TIME)
    row = found.summary.set_index("model").loc["c"]
    assert (row["status"], row["reason"]) == ("missing", "correlation_time was not measured")
    assert math.isnan(row["test_err_mean"])
    assert set(found.summary["task"]) == {"poisson_2d"}
    assert found.absent == ("heat_1d",)
    assert set(found.summary["metric"]) == {"correlation_time"}


def test_a_table_says_the_same_as_the_records(tmp_path):
    path = board(tmp_path / "board")
    write_tables(Store(path), REGISTRY)
    columns = ["task", "model", "test_err_mean", "test_err_std", "rank", "n_seeds"]
    by_records = read_board(path, metric=VRMSE).summary[columns]
    by_table = read_board(path / "results.csv", metric=VRMSE).summary[columns]
    assert by_records.equals(by_table)
    with pytest.raises(UsageError, match="is a leaderboard, which has one metric"):
        read_board(path / "leaderboard.csv", metric=VRMSE)


def test_columns_stand_in_results_only_where_a_record_has_them_and_in_one_order():
    old, new = page_record(page_trial("old")), record("new", vrmse=0.3, brmse=0.1)
    assert "vrmse" not in results([old])
    forth, back = results([old, new]), results([new, old])
    assert list(forth.columns) == list(back.columns)
    assert list(forth.columns)[-2:] == ["brmse", "vrmse"]
    assert np.isnan(forth.set_index("model")["vrmse"]["old"])


def test_an_old_board_has_no_such_metric_and_says_what_to_do(tmp_path):
    path = write_board(tmp_path / "board", [page_record(page_trial())])
    with pytest.raises(UsageError, match=r"no trial of .* has the metric 'vrmse': its records are older"):
        read_board(path, metric=VRMSE)


def test_a_comparison_knows_which_end_is_the_better_one(tmp_path):
    before, after = board(tmp_path / "before"), board(tmp_path / "after", factor=2.0)
    table = compare(before, after, metric="correlation_time").set_index("model")
    assert table["change"]["a"] == pytest.approx(1.0)
    assert table["verdict"]["a"] == table["verdict"]["b"] == "better"
    back = compare_boards([read_board(path, metric=TIME) for path in (after, before)], higher=True)
    assert set(back.regressions(0.2)["model"]) == {"a", "b"}
    assert back.regressions(0.6).empty  # they fell by half
    alike = compare_boards([read_board(path, metric=VRMSE) for path in (before, after)]).table
    assert set(alike.query("model != 'c'")["verdict"]) == {"identical"}


def test_values_below_zero_have_no_ratio(tmp_path):
    spec = MetricSpec("bias", "Bias", "mean (p - t)", "a:b")
    path = write_board(tmp_path / "board", [record("a", bias=-0.1), record("b", bias=0.1)])
    sides = [read_board(path, metric=spec)] * 2
    assert list(sides[0].summary["model"]) == ["a", "b"]
    with pytest.raises(UsageError, match="bias has values below zero"):
        compare_boards(sides)


def test_the_command_line(tmp_path, cli):
    path = board(tmp_path / "board")
    write_tables(Store(path), REGISTRY)
    files = {file: file.read_bytes() for file in path.iterdir() if file.is_file()}
    shown = cli("leaderboard", str(path), "--metric", "correlation_time")
    assert shown.code == 0
    assert "higher is better" in shown.err
    assert "no correlation_time on heat_1d" in shown.err
    lines = [line.split()[:2] for line in shown.out.splitlines() if line[:1].isdigit()]
    assert lines == [["1", "b"], ["2", "a"], ["3", "mean"]]
    assert {file: file.read_bytes() for file in path.iterdir() if file.is_file()} == files
    wrong = cli("leaderboard", str(path), "--metric", "vrms")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "no metric 'vrms'. Did you mean 'vrmse'?" in wrong.err
    compared = cli("compare", str(path), str(path), "--metric", "vrmse")
    assert "5 identical" in compared.out
    drawn = cli("plot", str(path), "--metric", "vrmse", "--figure", "png")
    assert drawn.code == 0, drawn.err
    assert (path / "figures" / "vrmse" / "pareto_fit_seconds.png").is_file()


def test_fronts_are_drawn_of_errors_only(tmp_path):
    board_by_time = read_board(board(tmp_path / "board"), metric=TIME).summary
    paths, complaints = draw_board(board_by_time, {}, tmp_path, ["png"], TIME)
    assert paths == []
    few = [complaint for complaint in complaints if "families of tasks" in complaint]  # ranks would do, of more tasks
    assert len(few) == 1
    assert all("larger values are better" in complaint for complaint in complaints if complaint not in few)


def test_metrics_are_listed_and_shown_with_their_formula(cli):
    listed = cli("list", "metrics", "--format", "csv").out
    assert listed.splitlines()[0] == "metric,title,better,unit,needs,from"
    assert len(listed.splitlines()) == 1 + len(REGISTRY.metrics)
    shown = cli("show", "correlation_time").out
    for words in ("first falls below 0.8", "higher", "poisson_1d", "is steady", "navier_stokes"):
        assert words in " ".join(shown.split())
    wrong = cli("show", "vrmsee")
    assert (wrong.code, "Did you mean 'vrmse'" in wrong.err) == (2, True)
