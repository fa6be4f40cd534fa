"""Tables: derived from records by fixed rules. Nothing is averaged away, rounded away or left out."""

from __future__ import annotations

import csv
import dataclasses
import math
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from factories.records import make_record, make_trial
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.boards.frames import LEADERBOARD_COLUMNS, leaderboard, results
from pdebench_hss.boards.text import format_error, format_skill, to_markdown
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.registry import Registry
from pdebench_hss.trials.record import Record, missing
from pdebench_hss.trials.store import Store

DOCUMENTED = [
    *("task", "equation", "model", "scale", "budget", "n_train", "metric", "params_real", "params_numel"),
    *("test_err_mean", "test_err_std", "n_seeds", "n_expected", "rank", "skill", "fit_seconds", "predict_ms"),
    *("peak_memory_mb", "flops_step", "status", "reason", "data_hash", "hardware"),
]


def board_of(*records: Record) -> pd.DataFrame:
    return leaderboard(results(records)).set_index("model")


def test_columns_are_the_documented_ones_in_that_order():
    assert LEADERBOARD_COLUMNS[: len(DOCUMENTED)] == DOCUMENTED
    assert list(leaderboard(results([make_record(error=0.1)])).columns) == LEADERBOARD_COLUMNS
    shared = set(DOCUMENTED) - {"test_err_mean", "test_err_std", "n_seeds", "n_expected", "rank", "skill"}
    assert shared | {"key", "seed", "test_err"} <= set(results([]).columns)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(1e-12, 1e3), min_size=2, max_size=6))
def test_mean_and_standard_deviation_are_over_seeds_with_n_minus_one(errors):
    row = board_of(*(make_record(error=error, seed=seed) for seed, error in enumerate(errors))).loc["net"]
    assert row["test_err_mean"] == pytest.approx(statistics.fmean(errors), rel=1e-12)
    assert row["test_err_std"] == pytest.approx(statistics.stdev(errors), rel=1e-9, abs=1e-15 * max(errors))
    assert (row["n_seeds"], row["n_expected"]) == (len(errors), len(errors))


def test_one_seed_has_no_standard_deviation():
    assert math.isnan(board_of(make_record(error=0.1)).loc["net", "test_err_std"])


def test_ranks_go_by_error_and_ties_share_one():
    errors = {"a": 0.3, "b": 0.1, "c": 0.2, "d": 0.1}
    board = leaderboard(results(make_record(model, error) for model, error in errors.items()))
    assert list(zip(board["model"], board["rank"])) == [("b", 1), ("d", 1), ("c", 3), ("a", 4)]


@pytest.mark.parametrize("status", ["failed", "diverged", "timeout", "out_of_memory", "skipped", "missing"])
def test_a_model_with_an_unfinished_seed_has_a_row_its_reason_and_no_rank(status):
    board = board_of(
        make_record("half", 0.001, seed=0),
        make_record("half", seed=1, status=status, reason="because"),
        make_record("whole", 0.5, seed=0),
        make_record("whole", 0.7, seed=1),
    )
    half = board.loc["half"]
    assert (half["status"], half["reason"]) == (status, "because")
    assert (half["n_seeds"], half["n_expected"]) == (1, 2)
    assert pd.isna(half["rank"])
    assert math.isnan(half["test_err_std"])
    assert (board.loc["whole", "rank"], board.loc["whole", "status"]) == (1, "ok")


@pytest.mark.parametrize("status", ["failed", "diverged", "timeout", "out_of_memory", "skipped", "missing"])
def test_what_a_failed_trial_measured_on_the_way_is_never_averaged_in(status):
    board = board_of(make_record(error=0.1, seed=0), make_record(error=99.0, seed=1, status=status))
    assert board.loc["net", "test_err_mean"] == 0.1


@pytest.mark.parametrize("status", ["failed", "skipped", "missing"])
def test_a_board_on_which_nothing_succeeded_is_still_a_board(status):
    board = board_of(*(make_record(seed=seed, status=status, reason="needs a linear PDE") for seed in range(2)))
    row = board.loc["net"]
    assert (row["n_seeds"], row["n_expected"]) == (0, 2)
    assert math.isnan(row["test_err_mean"])
    assert pd.isna(row["rank"])
    assert "needs a linear PDE" in to_markdown(board.reset_index())


def test_a_missing_cell_prints_as_missing():
    trial = make_trial("late")
    text = to_markdown(leaderboard(results([make_record("net", 0.1), missing(trial.key, trial)])))
    (line,) = (line for line in text.splitlines() if " late " in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["–", "late", "–", "–", "–", "–", "–", "not run yet"]


def test_an_incomplete_row_says_how_many_seeds_it_has():
    board = leaderboard(results([make_record(error=0.25), make_record(seed=1, status="timeout", reason="60 s")]))
    text = to_markdown(board)
    assert "0.2500 (1 of 2 seeds)" in text
    assert "timeout: 60 s" in text


def test_skill_is_against_the_best_training_free_baseline():
    board = board_of(
        make_record("mean", 0.8, training_free=True),
        make_record("linear", 0.4, training_free=True),
        make_record("good", 0.1),
        make_record("bad", 0.6),
    )
    skill = board["skill"].to_dict()
    assert skill == pytest.approx({"mean": -1.0, "linear": 0.0, "good": 0.75, "bad": -0.5})


def test_errors_that_differ_by_rounding_share_a_rank_and_have_no_skill():
    board = board_of(
        make_record("linear", 3e-15, training_free=True),
        make_record("exact", 9e-15),
        make_record("close", 2e-12),
    )
    assert board["rank"].to_dict() == {"linear": 1, "exact": 1, "close": 3}
    assert board["skill"].to_dict() == pytest.approx({"linear": 0.0, "exact": 0.0, "close": 1 - 2e-12 / 3e-15})


def test_rounding_is_measured_by_the_size_of_the_field():
    """A trajectory's norm is not relative: 1e-9 is nothing beside a field of size 1e6, and much beside one of 1."""

    def with_size(model: str, error: float, size: float, **changes) -> Record:
        record = make_record(model, error, metric="trajectory_l2", **changes)
        return dataclasses.replace(record, metrics={"test_err": error, "relative_l2": error / size})

    for size, ranks in ((1e6, [1, 1]), (1.0, [1, 2])):
        board = board_of(with_size("linear", 1e-9, size, training_free=True), with_size("net", 5e-9, size))
        assert board["rank"].tolist() == ranks


def test_far_below_zero_the_skill_says_how_many_times_the_error_it_is():
    shown = [format_skill(value) for value in (0.75, 0.0, -2.0, 1 - 250.0, 1 - 3.2e12, math.nan)]
    assert shown == ["+75%", "+0%", "-200%", "250×", "3e+12×", "–"]


def test_a_baseline_that_did_not_finish_is_no_yardstick():
    board = board_of(
        make_record("mean", 0.8, seed=0, training_free=True),
        make_record("mean", 0.8, seed=1, training_free=True),
        make_record("linear", 0.1, seed=0, training_free=True),
        make_record("linear", seed=1, status="failed", training_free=True),
        make_record("net", 0.4, seed=0),
        make_record("net", 0.4, seed=1),
    )
    assert board.loc["net", "skill"] == pytest.approx(0.5)


def test_without_a_baseline_there_is_no_skill():
    assert math.isnan(board_of(make_record(error=0.1)).loc["net", "skill"])
    perfect = board_of(make_record("exact", 0.0, training_free=True), make_record("net", 0.1))
    assert math.isnan(perfect.loc["net", "skill"])


@pytest.mark.parametrize(
    "change",
    [
        {"task_label": "other"},
        {"scale": "small"},
        {"budget": "steps=8"},
        {"n_train": 4},
        {"params_target": 300_000},
        {"data_seed": 1, "data_id": "e", "sha256": "def"},
    ],
)
def test_only_like_is_ranked_against_like_and_averaged_with_like(change):
    board = leaderboard(
        results(
            [
                make_record("mean", 0.8, training_free=True),
                make_record("net", 0.4),
                make_record("mean", 0.2, training_free=True, **change),
                make_record("net", 0.1, **change),
            ]
        )
    )
    nets = board[board["model"] == "net"].sort_values("test_err_mean")
    assert list(nets["test_err_mean"]) == [0.1, 0.4]
    assert list(nets["rank"]) == [1, 1]
    assert list(nets["skill"]) == pytest.approx([0.5, 0.5])


def test_rows_made_on_different_machines_name_both():
    here, there = make_record(error=0.1, seed=0), make_record(error=0.1, seed=1)
    there.provenance["hardware"] = {"id": "elsewhere"}
    assert board_of(here, there).loc["net", "hardware"] == "machine|elsewhere"


def test_parameters_are_shown_both_ways():
    row = board_of(make_record(error=0.1)).loc["net"]
    assert (row["params_real"], row["params_numel"]) == (200, 100)


def first_row(path: Path) -> dict[str, str]:
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.DictReader(file))


@pytest.mark.parametrize("error", [3.1e-8, 0.1 + 0.2, 1 / 3, 1.2345678901234567e-300])
def test_errors_keep_full_precision_through_csv(tmp_path, error):
    store = Store(tmp_path)
    store.prepare()
    store.put(make_record(error=error))
    write_board(store, Registry())
    assert float(first_row(tmp_path / "results.csv")["test_err"]) == error
    assert float(first_row(tmp_path / "leaderboard.csv")["test_err_mean"]) == error


@settings(deadline=None)
@given(st.floats(1e-300, 1e300))
def test_an_error_is_never_printed_as_zero_nor_far_from_itself(error):
    assert float(format_error(error)) == pytest.approx(error, rel=0.01)


def test_the_same_records_give_the_same_bytes_in_whatever_order_they_came(tmp_path):
    trials = [(model, seed) for model in ("b", "a", "mean") for seed in (2, 0, 1)]
    contents = []
    for name, order in (("one", trials), ("two", trials[::-1])):
        store = Store(tmp_path / name)
        store.prepare()
        store.add_to_plan(make_trial(model, seed) for model, seed in order)
        for model, seed in order:
            if (model, seed) != ("b", 1):  # one stays missing
                store.put(make_record(model, 0.1 + seed, seed))
        _, paths = write_board(store, Registry())
        contents.append({path.name: path.read_bytes() for path in paths})
        write_board(store, Registry())
        assert {path.name: path.read_bytes() for path in paths} == contents[-1]
    assert contents[0] == contents[1]
    assert set(contents[0]) == {"results.csv", "leaderboard.csv", "leaderboard.md", "README.md", "statistics.md"}


def test_a_superseded_trial_leaves_the_table(tmp_path):
    store = Store(tmp_path)
    store.prepare()
    for version, error in (("1", 0.5), ("2", 0.1)):
        store.add_to_plan([make_trial(model_version=version)])
        store.put(make_record(error=error, model_version=version))
    board, _ = write_board(store, Registry())
    assert list(board["test_err_mean"]) == [0.1]
    assert list(board["n_expected"]) == [1]


def test_results_have_one_row_per_trial_with_its_status():
    table = results([make_record(error=0.1), make_record(seed=1, status="failed", reason="ValueError: no")])
    assert list(table["status"]) == ["ok", "failed"]
    assert list(table["reason"]) == ["", "ValueError: no"]
    assert table.loc[0, "test_err"] == 0.1
    assert np.isnan(table.loc[1, "test_err"])


def test_no_records_give_an_empty_board():
    board = leaderboard(results([]))
    assert list(board.columns) == LEADERBOARD_COLUMNS
    assert len(board) == 0
    assert to_markdown(board) == ""
