"""Ladders of budgets: what the last step changed, who is converged, who overtakes; what a board says of itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from factories.records import make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.boards.caveats import caveats, leaderboard_page
from pdebench_hss.boards.frames import GROUP, leaderboard, results, solver_levels
from pdebench_hss.boards.ladders import (
    SAME,
    change_text,
    crossing_lines,
    crossings,
    has_ladders,
    is_converged,
    ladder_groups,
    top,
    with_levels,
)
from pdebench_hss.boards.ranking_page import statistics_page
from pdebench_hss.boards.text import display_headers, to_markdown
from pdebench_hss.boards.writing import sorted_results
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.registry import Registry


def rungs(model: str, errors: dict[float, float], seeds=1, kind="core_seconds", spread=0.0, **changes):
    """A record for each budget and seed; seeds lie ``spread`` apart."""
    return [
        make_record(model, error * (1 + spread * seed), seed=seed, budget=Budget(kind, amount), **changes)
        for amount, error in errors.items()
        for seed in range(seeds)
    ]


def board_of(*records) -> pd.DataFrame:
    records = [record for several in records for record in several]
    samples = {record.key: record.samples["error_test_err"] for record in records if record.samples}
    return leaderboard(sorted_results(records), samples)


LADDER = {10: 0.4, 40: 0.2, 160: 0.19}


def test_each_row_says_what_the_last_step_of_the_ladder_changed():
    board = board_of(rungs("net", LADDER), rungs("mean", dict.fromkeys(LADDER, 0.5), training_free=True))
    net = board[board["model"] == "net"].set_index("budget")
    assert net["budget_factor"].dropna().to_dict() == {"core_seconds=40": 4.0, "core_seconds=160": 4.0}
    assert net["budget_change"].dropna().to_dict() == pytest.approx(
        {"core_seconds=40": -0.5, "core_seconds=160": -0.05}
    )
    assert net["converged"].dropna().to_dict() == {"core_seconds=40": "no", "core_seconds=160": "yes"}
    assert board.loc[board["model"] == "mean", "budget_change"].isna().all()  # a formula has nothing to converge
    text = to_markdown(board)
    assert "no (−50 % by ×4)" in text
    assert "yes (−5 % by ×4)" in text


def test_rungs_stand_in_the_order_of_their_size_and_not_of_their_spelling():
    board = board_of(rungs("net", {160: 0.1, 10: 0.4, 40: 0.2}))
    assert list(board["budget"]) == ["core_seconds=10", "core_seconds=40", "core_seconds=160"]


def test_a_board_without_a_ladder_has_no_further_column():
    board = board_of(rungs("net", {10: 0.4}), rungs("other", {10: 0.3}), rungs("far", {40: 0.2}, task="elsewhere"))
    assert not has_ladders(board)
    assert "converged" not in board
    assert "converged" not in display_headers(board)
    assert top(board) is board


def test_budgets_of_two_kinds_are_not_one_ladder():
    assert not has_ladders(board_of(rungs("net", {10: 0.4}), rungs("net", {40: 0.4}, kind="steps")))


def test_a_rung_with_a_failed_seed_tells_nothing():
    failed = make_record("net", status="failed", reason="no", seed=1, budget=Budget("core_seconds", 10))
    board = board_of(
        rungs("net", {10: 0.4}), [failed], rungs("net", {40: 0.2}, seeds=2), rungs("net", {160: 0.1}, seeds=2)
    )
    assert board.set_index("budget")["budget_change"].notna().to_dict() == {
        "core_seconds=10": False, "core_seconds=40": False, "core_seconds=160": True,
    }  # fmt: skip


def test_an_exact_model_is_converged():
    board = board_of(rungs("net", {10: 0.0, 40: 0.0}))
    assert board["converged"].dropna().tolist() == ["yes"]


@settings(deadline=None)
@given(st.floats(0.05, 2.0), st.floats(1.1, 64.0))
def test_convergence_is_judged_by_a_doubling_whatever_the_factor(ratio, factor):
    assert is_converged(ratio, factor) == is_converged(ratio**2, factor**2)
    assert is_converged(0.96, 2.0)
    assert not is_converged(0.94, 2.0)


def test_the_columns_that_rungs_share_are_those_of_a_table():
    assert {*SAME, "budget"} == set(GROUP)


def test_ranks_and_break_even_are_those_of_the_largest_budget():
    tasks = [
        *(rungs("slow", {10: 0.9, 40: 0.1}, task=task) for task in ("one", "two")),
        *(rungs("fast", {10: 0.5, 40: 0.4}, task=task) for task in ("one", "two")),
    ]
    assert set(top(board_of(*tasks))["budget"]) == {"core_seconds=40"}
    page = statistics_page(board_of(*tasks), Registry())
    slow, fast = (next(line for line in page.splitlines() if line.startswith(f"| {name}")) for name in ("slow", "fast"))
    assert "1.00" in slow
    assert "2.00" in fast
    assert "- one: slow overtakes fast at about" in page


# ---------------------------------------------------------------- crossings


def of(*records):
    (group,) = ladder_groups(board_of(*records))
    return crossings(group)


def test_a_crossing_is_where_the_lines_meet_on_logarithmic_axes():
    # slow falls by 4 where the budget grows by 16, fast does not move: they are level half-way, at 40 core-seconds.
    (found,) = of(rungs("slow", {10: 0.8, 160: 0.2}), rungs("fast", {10: 0.4, 160: 0.4}))
    assert (found.winner, found.loser, found.kind) == ("slow", "fast", "core_seconds")
    assert found.at == pytest.approx(40.0)
    assert crossing_lines([found]) == ["slow overtakes fast at about 40 core-seconds"]
    assert crossing_lines([replace(found, at=113.0)]) == ["slow overtakes fast at about 110 core-seconds"]


def test_a_baseline_can_be_overtaken_and_two_baselines_do_not_cross():
    formulas = [
        rungs(name, {10: a, 160: b}, training_free=True) for name, a, b in (("mean", 0.5, 0.4), ("linear", 0.4, 0.5))
    ]
    assert {(c.winner, c.loser) for c in of(rungs("net", {10: 0.9, 160: 0.1}), *formulas)} == {
        ("net", "mean"), ("net", "linear"),
    }  # fmt: skip


def test_what_is_within_noise_is_no_crossing():
    noisy = (
        rungs("a", {10: 0.40, 160: 0.38}, seeds=3, spread=0.3),
        rungs("b", {10: 0.41, 160: 0.37}, seeds=3, spread=0.3),
    )
    assert of(*noisy) == []


def test_a_rung_at_which_two_are_level_does_not_hide_their_crossing():
    (found,) = of(rungs("slow", {10: 0.8, 40: 0.4, 160: 0.2}), rungs("fast", {10: 0.4, 40: 0.4, 160: 0.4}))
    assert found.winner == "slow"
    assert found.at == pytest.approx(40.0)


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3))
def test_a_crossing_lies_between_rungs_and_ends_with_the_winner_ahead(one, two):
    amounts = [10, 40, 160]
    for found in of(
        rungs("one", dict(zip(amounts, one, strict=True))), rungs("two", dict(zip(amounts, two, strict=True)))
    ):
        assert 10 <= found.at <= 160
        mine, other = (one, two) if found.winner == "one" else (two, one)
        assert any(amount >= found.at and a < b for amount, a, b in zip(amounts, mine, other, strict=True))


def test_the_levels_of_a_classical_solver_are_lines_of_the_ladder():
    levels = [{"level": n, "test_err": e, "predict_ms": 1.0} for n, e in enumerate((1e-9, 0.05, 0.3))]
    solver = [
        replace(record, levels=levels)
        for record in rungs("solver", {10: 0.05, 160: 0.05}, training_free=True, hparams={"level": 1})
    ]
    net = rungs("net", {10: 0.4, 160: 0.1})
    (group,) = ladder_groups(board_of(solver, net))
    whole = with_levels(group, solver_levels([*solver, *net]))
    assert set(whole["model"]) == {"net", "solver", "solver[level=0]", "solver[level=2]"}  # level 1 is its own row
    assert {(c.winner, c.loser) for c in crossings(whole)} == {("net", "solver[level=2]")}


# ---------------------------------------------------------------- what a board says against itself

TUNED = {"tries": 8, "seconds": 1.0, "options": {}}


def test_a_board_of_one_seed_without_tuning_or_a_ladder_says_so():
    said = caveats(board_of(rungs("net", {10: 0.1})))
    assert said == [
        "convergence was not measured: every model has one budget",
        "options were not tuned for this board: every model has its defaults",
        "every trained row has one seed: another training may end elsewhere",
    ]
    assert leaderboard_page(board_of(rungs("net", {10: 0.1}))).startswith("Read with care:\n\n- convergence was not")


def test_a_board_without_reproach_says_nothing():
    board = board_of(
        rungs("net", {40: 0.1, 160: 0.1}, seeds=3, tuned=TUNED), rungs("two", {40: 0.2, 160: 0.2}, seeds=3, tuned=TUNED)
    )
    assert caveats(board) == []
    assert leaderboard_page(board) == to_markdown(board)


def test_a_board_of_formulas_says_nothing():
    assert caveats(board_of(rungs("mean", {10: 0.1}, training_free=True))) == []
    assert caveats(board_of([make_record("net", status="failed", reason="no")])) == []


def test_rows_that_are_not_converged_not_tuned_alike_or_of_one_seed_are_counted():
    board = board_of(
        rungs("good", {40: 0.1, 160: 0.1}, seeds=2, tuned=TUNED),
        rungs("falls", {40: 0.4, 160: 0.1}, tuned={**TUNED, "tries": 3}),
        rungs("late", {160: 0.1}, seeds=2, tuned=TUNED),
    )
    assert caveats(board) == [
        "1 of 3 trained rows are not converged: the last step up the ladder of budgets lowered their error by more "
        "than 5 % a doubling; of 1 trained rows it is not known whether they are converged",
        "not tuned alike: the number of tries is 3 in 1 rows, 8 in 2 rows",
        "1 of 3 trained rows have one seed: another training may end elsewhere",
    ]


def test_unlike_sizes_are_counted_by_table():
    large = [replace(record, parameters={"real": 2000, "numel": 2000}) for record in rungs("large", {10: 0.1})]
    assert "sizes of trained models differ by more than a factor of three in 1 of 1 tables" in caveats(
        board_of(rungs("net", {10: 0.1}), large)
    )


# ---------------------------------------------------------------- rollouts that leave every bound


def rollout(error: float, **changes):
    record = make_record("net", error, metric="relative_l2", **changes)
    return replace(record, metrics={**record.metrics, "correlation_time": 3.0})


def test_a_rollout_that_left_every_bound_has_diverged_in_the_tables_and_not_in_its_record():
    record = rollout(11.0)
    (row,) = leaderboard(results([record, rollout(0.5, seed=1)])).to_dict("records")
    assert record.status == "ok"
    assert (row["status"], row["n_seeds"], row["test_err_mean"]) == ("diverged", 1, 0.5)
    assert row["reason"] == "the rollout's relative error is 11, above 10"
    assert pd.isna(row["rank"])


@pytest.mark.parametrize(
    "record",
    [
        rollout(9.9),
        rollout(1e6, training_free=True),
        make_record("net", 11.0),
        make_record("net", 11.0, status="failed"),
    ],
    ids=["within the bound", "a formula", "steady", "failed"],
)
def test_anything_else_keeps_its_status(record):
    assert results([record])["status"].tolist() == [record.status]


def test_change_text_is_empty_where_nothing_was_measured():
    assert change_text(pd.Series({"budget_change": math.nan, "budget_factor": np.nan, "converged": np.nan})) == ""
    assert change_text(pd.Series({"model": "net"})) == ""
