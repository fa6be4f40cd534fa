"""Comparisons can be believed: noise is called noise, change is called change, and unlike things are not compared."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from factories.comparisons import (
    MODELS,
    SEEDS,
    TASKS,
    compared,
    edited,
    make_board,
    notes,
    with_value,
)
from factories.records import make_record
from scipy import stats

import pdebench_hss as pb
from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.comparison import compare
from pdebench_hss.boards.reading import read_board
from pdebench_hss.boards.verdicts import benjamini_hochberg
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.registry import Registry
from pdebench_hss.trials.store import Store

SOURCES = {"directory": "", "results": "results.csv", "leaderboard": "leaderboard.csv"}


def test_a_board_does_not_differ_from_itself_in_any_form(board):
    forms = [read_board(board / form) for form in SOURCES.values()]
    for one, other in itertools.product(forms, forms):
        table = compare([one, other]).table
        assert len(table) == 4
        assert (table["change"] == 0).all()
        assert (table["verdict"] == "identical").all()


@pytest.mark.parametrize("form", SOURCES.values(), ids=SOURCES)
def test_a_worsened_copy_is_worse_there_and_nowhere_else(board, worse, form):
    table = compared(board / form, worse / form)
    assert table["verdict"].to_dict() == {
        ("heat", "fno"): "worse",
        ("heat", "net"): "identical",
        ("wave", "fno"): "identical",
        ("wave", "net"): "identical",
    }
    row = table.loc[("heat", "fno")]
    assert row["change"] == pytest.approx(0.3)
    assert row["low"] <= 0.3 + 1e-9
    assert row["high"] >= 0.3 - 1e-9


def test_another_draw_of_seeds_is_noise(board, tmp_path):
    again = make_board(tmp_path / "again", seeds=range(10, 10 + SEEDS))
    table = compared(board, again)
    assert set(table["verdict"]) == {"within noise"}
    assert (table["low"] < 0).all()
    assert (table["high"] > 0).all()
    assert (table["change"] != 0).all()


@pytest.mark.parametrize("form", SOURCES.values(), ids=SOURCES)
def test_one_seed_cant_tell_and_says_so(tmp_path, form):
    a = make_board(tmp_path / "a", seeds=[0])
    b = make_board(tmp_path / "b", {("heat", "fno"): 10.0}, seeds=[0])
    table = compared(a / form, b / form)
    row = table.loc[("heat", "fno")]
    assert row["verdict"] == "one seed: can't tell"
    assert row["change"] == pytest.approx(9)
    assert math.isnan(row["low"])
    assert set(table.drop(("heat", "fno"))["verdict"]) == {"identical"}
    assert "1 cell with one seed: the variation between trainings is unknown" in notes(a / form, b / form)


def test_one_seed_on_one_side_cant_tell_either(board, tmp_path):
    one = make_board(tmp_path / "one", {("heat", "fno"): 10.0}, seeds=[0])
    assert set(compared(board, one)["verdict"]) == {"one seed: can't tell"}
    assert "seeds differ in 4 cells (first: heat, fno: 0, 1, 2 and 0)" in notes(board, one)


def test_one_seed_of_the_same_weights_is_told_by_samples_if_asked(command, tmp_path):
    a = make_board(tmp_path / "a", seeds=[0])
    b = make_board(tmp_path / "b", {("heat", "fno"): 0.9}, seeds=[0])
    table = compared(a, b, same_weights=True)
    assert table.loc[("heat", "fno"), "verdict"] == "better"
    assert table.loc[("heat", "fno"), "basis"] == "samples"
    code, text, _ = command("compare", a, b, "--same-weights")
    assert code == 0
    assert "note: same weights: 1 cell compared over test samples only, not over training runs" in text
    from_csv = compared(a / "results.csv", b / "results.csv", same_weights=True)
    assert from_csv.loc[("heat", "fno"), "verdict"] == "can't tell"
    assert math.isnan(from_csv.loc[("heat", "fno"), "low"])


def test_closed_forms_are_told_with_one_seed(tmp_path):
    a = make_board(tmp_path / "a", seeds=[0], training_free=True)
    b = make_board(tmp_path / "b", {("heat", "fno"): 0.9}, seeds=[0], training_free=True)
    assert compared(a, b).loc[("heat", "fno"), "verdict"] == "better"
    assert "1 cell of closed forms compared over test samples" in notes(a, b)


def test_a_regression_is_not_seen_with_one_seed_and_that_is_said(command, tmp_path):
    a = make_board(tmp_path / "a", seeds=[0])
    b = make_board(tmp_path / "b", {("heat", "fno"): 10.0}, seeds=[0])
    code, _, err = command("compare", a, b, "--fail-on-regression")
    assert code == 0
    assert err == "not judged: 1 cell: heat fno; run more seeds on both boards\n"
    code, _, err = command("compare", a, b, "--fail-on-regression", "--same-weights")
    assert code == 3
    assert "regression: 1 cell" in err


def test_a_csv_knows_seeds_only_and_says_so(board, worse):
    table = compared(board / "leaderboard.csv", worse / "leaderboard.csv")
    assert table.loc[("heat", "fno"), "basis"] == "seeds"
    assert "no errors by sample" in notes(board / "leaderboard.csv", worse / "leaderboard.csv")


def test_what_is_missing_on_either_side_is_a_row(board, tmp_path):
    fewer = make_board(tmp_path / "fewer", tasks=["heat"])
    assert compared(board, fewer).loc[("wave", "net"), "verdict"] == "only in the first"
    assert compared(fewer, board).loc[("wave", "net"), "verdict"] == "not in the first"


@pytest.mark.parametrize(
    ("change", "word"),
    [({"sha256": "other"}, "data"), ({"metric": "rmse"}, "metric"), ({"scale": "paper"}, "scale")],
    ids=["data", "metric", "scale"],
)
def test_unlike_boards_are_refused_unless_forced(board, tmp_path, change, word):
    other = make_board(tmp_path / "other", **change)
    for form in SOURCES.values():
        with pytest.raises(UsageError, match=f"the {word} of heat differs") as refusal:
            compared(board / form, other / form)
        assert "and 3 more cells" in str(refusal.value)
        assert "--force" in str(refusal.value)
    assert len(compared(board, other, force=True)) == 4
    assert "forced" in notes(board, other, force=True)


def test_data_that_differ_are_not_paired_by_sample(board, tmp_path):
    factors = {(task, model): 0.97 for task in TASKS for model in MODELS}
    same, other = make_board(tmp_path / "s", factors), make_board(tmp_path / "o", factors, sha256="other")
    paired, unpaired = compared(board, same), compared(board, other, force=True)
    assert set(paired["verdict"]) == {"better"}
    assert (unpaired["high"] - unpaired["low"] > 3 * (paired["high"] - paired["low"])).all()


def test_times_are_compared_on_one_kind_of_machine_only(board, tmp_path):
    elsewhere = make_board(tmp_path / "elsewhere", hardware="other")
    assert compared(board, board)["fit_change"].notna().all()
    assert compared(board, elsewhere)["fit_change"].isna().all()
    assert compared(board, elsewhere)["predict_change"].isna().all()
    assert "left out across machines (machine and other)" in notes(board, elsewhere)
    assert compared(board, elsewhere, force=True)["fit_change"].notna().all()


def test_boards_of_different_budgets_are_compared_and_the_difference_is_said(board, tmp_path):
    timed = make_board(tmp_path / "timed", budget="seconds=60")
    assert len(compared(board, timed)) == 4
    assert "budget differs in 4 cells (first: heat, fno: steps=4 and seconds=60)" in notes(board, timed)


@pytest.mark.parametrize("budget", ["seconds=60", "core_seconds=60"])
def test_errors_of_equal_times_on_two_machines_are_said_to_be_such(tmp_path, budget):
    here, there = (make_board(tmp_path / name, hardware=name, budget=budget) for name in ("here", "there"))
    expected = f"4 cells trained for a time that machines use differently (first: heat, fno: {budget}): a change may be"
    assert expected in notes(here, there)
    assert "trained for a time" not in notes(here, here)
    steps = [make_board(tmp_path / f"{name}-steps", hardware=name) for name in ("here", "there")]
    assert "trained for a time" not in notes(*steps)


def test_where_a_board_has_several_budgets_each_is_a_cell(board, tmp_path):
    both = make_board(tmp_path / "both")
    make_board(both, {("heat", "fno"): 2.0}, budget="seconds=60")
    store = Store(both)
    assert len(store.all()) == 2 * 4 * SEEDS
    table = compare([read_board(both), read_board(board)]).table
    assert len(table) == 8
    assert set(table[table["budget"] == "steps=4"]["verdict"]) == {"identical"}
    assert set(table[table["budget"] == "seconds=60"]["verdict"]) == {"only in the first"}


def test_more_than_two_are_each_compared_with_the_first(board, worse, tmp_path):
    better = make_board(tmp_path / "better", {("heat", "fno"): 0.7})
    table = compare([read_board(path) for path in (board, worse, better)]).table
    found = table[(table["task"] == "heat") & (table["model"] == "fno")].set_index("board")["verdict"]
    assert found.to_dict() == {str(worse): "worse", str(better): "better"}


def with_seeds_lost(path: Path, seeds, status: str) -> Path:
    """A board on which some seeds of one cell did not end well."""
    store = Store(make_board(path))
    for seed in seeds:
        what = {"task": "heat", "task_label": "heat", "data_id": "heat"}
        record = make_record("fno", seed=seed, status=status, reason="loss is nan", **what)
        (store.records_dir / f"{record.key}.json").unlink()  # a record that ended well is not replaced
        store.put(record)
    write_board(store, Registry())
    return path


@pytest.mark.parametrize("form", SOURCES.values(), ids=SOURCES)
def test_a_model_that_fails_now_broke(board, tmp_path, form):
    broken = with_seeds_lost(tmp_path / "broken", [1], "failed")
    found = compare([read_board(board / form), read_board(broken / form)])
    row = found.table.set_index(["task", "model"]).loc[("heat", "fno")]
    assert (row["verdict"], row["reason"]) == ("broke", "loss is nan")
    assert len(found.regressions(10.0)) == 1
    assert compared(broken / form, board / form).loc[("heat", "fno"), "verdict"] == "mended"


@pytest.mark.parametrize("form", SOURCES.values(), ids=SOURCES)
def test_one_seed_of_three_that_diverges_is_chance(board, tmp_path, form):
    unlucky = with_seeds_lost(tmp_path / "unlucky", [1], "diverged")
    found = compare([read_board(board / form), read_board(unlucky / form)])
    row = found.table.set_index(["task", "model"]).loc[("heat", "fno")]
    assert row["verdict"] == "within noise"
    assert (row["reference_diverged"], row["diverged"], row["seeds"]) == (0, 1, 2)
    assert found.regressions(0.0).empty
    assert "seeds diverged in 1 cell (first: heat, fno: 0 of 3 and 1 of 3)" in "\n".join(found.notes)
    assert "seeds differ in 1 cell (first: heat, fno: " in "\n".join(found.notes)


@pytest.mark.parametrize("form", SOURCES.values(), ids=SOURCES)
def test_all_seeds_of_three_that_diverge_are_a_regression(command, board, tmp_path, form):
    gone = with_seeds_lost(tmp_path / "gone", [0, 1, 2], "diverged")
    assert compared(board / form, gone / form).loc[("heat", "fno"), "verdict"] == "diverges more"
    assert compared(gone / form, board / form).loc[("heat", "fno"), "verdict"] == "diverges less"
    code, _, err = command("compare", board / form, gone / form, "--fail-on-regression")
    assert code == 3
    assert "heat fno" in err


def test_an_ok_without_a_finite_error_counts_as_diverged(board):
    whole = read_board(board)
    results = whole.results.copy()
    results.loc[(results["model"] == "fno") & (results["seed"] == 1), "test_err"] = [math.nan, math.inf]
    damaged = dataclasses.replace(whole, results=results)
    found = compare([whole, damaged])
    table = found.table.set_index(["task", "model"])
    assert table["verdict"].to_dict() == {
        ("heat", "fno"): "within noise",
        ("heat", "net"): "identical",
        ("wave", "fno"): "within noise",
        ("wave", "net"): "identical",
    }
    assert table.loc[("heat", "fno"), "diverged"] == 1
    assert "2 seeds are ok and have no finite error; they count as diverged" in "\n".join(found.notes)


def test_a_seed_that_is_missing_is_noted_and_the_others_are_paired(board, tmp_path):
    fewer = make_board(tmp_path / "fewer", {("heat", "fno"): 1.3}, seeds=[0, 2])
    table = compared(board, fewer)
    assert "seeds differ in 4 cells (first: heat, fno: 0, 1, 2 and 0, 2)" in notes(board, fewer)
    assert table.loc[("heat", "fno"), "change"] == pytest.approx(0.3)
    assert table.loc[("heat", "net"), "change"] == pytest.approx(0)
    assert "seeds differ in 4 cells (first: heat, fno: 3 seeds and 2 seeds)" in notes(
        board / "leaderboard.csv", fewer / "leaderboard.csv"
    )


def test_closed_forms_do_not_differ_from_their_own_leaderboard_file(tmp_path):
    """The mean of three equal errors is not always that error: 0.1 + 0.1 + 0.1 is not 3 times 0.1."""
    store = Store(tmp_path / "board")
    store.prepare()
    values = np.random.default_rng(0).lognormal(0, 3, 40)
    for number, value in enumerate(values):
        for seed in range(SEEDS):
            store.put(make_record(f"m{number}", float(value), seed, training_free=True))
    write_board(store, Registry())
    assert set(compared(store.path, store.path / "leaderboard.csv")["verdict"]) == {"identical"}


def test_a_deviation_that_is_not_known_cant_tell(board, tmp_path):
    path = edited(board, tmp_path, lambda t: with_value("test_err_std", "")(with_value("test_err_mean", "9")(t)))
    table = compare([read_board(board / "leaderboard.csv"), read_board(path)]).table
    assert sorted(table["verdict"]) == ["can't tell", "identical", "identical", "identical"]


def test_many_comparisons_at_once_are_held_to_a_higher_standard():
    p_values = np.random.default_rng(0).uniform(size=50) ** 3
    np.testing.assert_allclose(benjamini_hochberg(p_values), stats.false_discovery_control(p_values))


def test_among_many_unchanged_cells_hardly_any_is_called_changed(tmp_path):
    models = [f"m{i:02d}" * (i + 1) for i in range(40)]
    a = make_board(tmp_path / "a", tasks=["heat"], models=models)
    b = make_board(tmp_path / "b", tasks=["heat"], models=models, seeds=range(5, 5 + SEEDS))
    assert compared(a, b)["verdict"].isin(["better", "worse"]).sum() <= 1


def test_the_python_api_takes_paths_and_tables(board, worse):
    table = pb.compare(str(board), worse)
    assert sorted(table["verdict"]) == ["identical", "identical", "identical", "worse"]
    with pytest.warns(UserWarning, match="no errors by sample"):
        tables = pb.compare(pb.leaderboard(board), pb.leaderboard(worse))
    assert sorted(tables["verdict"]) == sorted(table["verdict"])
