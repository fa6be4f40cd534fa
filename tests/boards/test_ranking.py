"""Ranks, fronts and break-even: against published tables, scipy and cases worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pdebench_hss as pb
from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.frames import LEADERBOARD_COLUMNS, results
from pdebench_hss.boards.ranking import average_ranks, break_even, critical_difference, indistinct, pareto
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.store import Store

# Demšar 2006, table 5(a): critical values q at 0.05 for 2 to 10 classifiers.
DEMSAR = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}


def row(task: str, model: str, error: float, **values) -> dict:
    defaults = {
        "scale": "small", "budget": "steps=1", "n_train": 8, "data_id": task, "device": "cpu", "hardware": "here",
        "status": "ok" if error == error else "failed", "rank": 1 if error == error else None,
        "fit_seconds": 1.0, "predict_ms": 1.0, "data_seconds": 1.0,
    }  # fmt: skip
    return {**defaults, "task": task, "model": model, "test_err_mean": error, **values}


def board_of(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=LEADERBOARD_COLUMNS)


def board_from(errors: np.ndarray) -> pd.DataFrame:
    """Tasks x models."""
    return board_of(*(row(f"task{i}", f"m{j}", error) for i, line in enumerate(errors) for j, error in enumerate(line)))


@pytest.mark.parametrize(("k", "q"), DEMSAR.items())
def test_critical_differences_are_the_published_ones(k, q):
    assert critical_difference(k, 30) == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 30)), abs=2e-3)


def test_the_worked_example_of_the_literature():
    # Demšar 2006: four algorithms on fourteen data sets have CD = 1.25
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 8), st.integers(3, 6), st.integers(0, 10**6))
def test_ranks_and_friedmans_p_are_scipys(n, k, seed):
    errors = np.random.default_rng(seed).permuted(np.tile(np.arange(1.0, k + 1), (n, 1)), axis=1)
    ranking = average_ranks(board_from(errors))
    expected = pd.Series(stats.rankdata(errors, axis=1).mean(axis=0), [f"m{j}" for j in range(k)])
    pd.testing.assert_series_equal(ranking.ranks.sort_index(), expected, check_names=False)
    chi2 = stats.friedmanchisquare(*errors.T).statistic
    if chi2 < n * (k - 1):
        f = (n - 1) * chi2 / (n * (k - 1) - chi2)
        assert ranking.p_value == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)), rel=1e-6)
    else:
        assert ranking.p_value == 0.0


def test_ties_share_their_mean_rank():
    ranking = average_ranks(board_from(np.array([[0.1, 0.1, 0.3], [0.2, 0.1, 0.3]])))
    assert ranking.ranks.to_dict() == {"m1": 1.25, "m0": 1.75, "m2": 3.0}
    alike = average_ranks(board_from(np.full((3, 3), 0.1)))
    assert alike.p_value == 1.0


def test_a_family_of_variants_has_one_vote():
    # m0 wins on three variants of one equation and loses on two other equations
    errors = np.array([[0.1, 0.2], [0.1, 0.2], [0.1, 0.2], [0.2, 0.1], [0.2, 0.1]])
    alone = average_ranks(board_from(errors))
    assert (alone.families, alone.ranks.to_dict()) == (5, {"m0": 1.4, "m1": 1.6})
    ranking = average_ranks(board_from(errors), families={f"task{i}": "same" for i in range(3)})
    assert (ranking.families, len(ranking.tasks)) == (3, 5)
    assert ranking.ranks.to_dict() == pytest.approx({"m1": 4 / 3, "m0": 5 / 3})
    assert ranking.difference == pytest.approx(critical_difference(2, 3))
    assert ranking.difference > alone.difference


def test_the_models_of_a_family_are_ranked_by_their_average_over_its_variants():
    errors = np.array([[0.1, 0.2, 0.3], [0.1, 0.3, 0.2], [0.3, 0.2, 0.1]])
    ranking = average_ranks(board_from(errors), families={"task0": "one", "task1": "one"})
    assert ranking.ranks.to_dict() == {"m2": 1.75, "m0": 2.0, "m1": 2.25}  # (1, 2.5, 2.5) and (3, 2, 1)


def test_settings_of_a_task_are_variants_of_it():
    board = board_of(*(row(task, m, e) for task in ("a", "a[k=2]", "b") for m, e in (("m", 0.1), ("n", 0.2))))
    assert average_ranks(board).families == 2


def test_built_in_variants_of_one_equation_are_one_family():
    families = load_registry().families()
    poisson = {family for task, family in families.items() if task.startswith("poisson_")}
    assert poisson == {"poisson"}
    assert families["gray_scott_forward"] == families["gray_scott_inverse"]
    assert len(set(families.values())) == 12


def test_a_model_that_did_not_finish_everything_is_left_out_and_named():
    errors = np.array([[0.1, 0.2, math.nan], [0.1, 0.2, 0.05]])
    ranking = average_ranks(board_from(errors))
    assert ranking.ranks.to_dict() == {"m0": 1.0, "m1": 2.0}
    assert ranking.left_out == {"m2": 1}
    assert ranking.tasks == ["task0", "task1"]


def test_chosen_models_are_ranked_where_all_of_them_finished():
    errors = np.array([[0.1, 0.2, math.nan], [0.1, 0.2, 0.05]])
    ranking = average_ranks(board_from(errors), models=["m0", "m2"])
    assert ranking.ranks.to_dict() == {"m2": 1.0, "m0": 2.0}
    assert ranking.tasks == ["task1"]
    assert math.isnan(ranking.difference)
    with pytest.raises(UsageError, match="no model 'm9'"):
        average_ranks(board_from(errors), models=["m9"])


def test_a_task_that_was_run_in_two_ways_is_not_ranked_twice():
    board = board_of(row("a", "m", 0.1), row("a", "m", 0.2, budget="seconds=1"))
    with pytest.raises(UsageError, match="budget"):
        average_ranks(board)


def test_models_within_the_critical_difference_form_the_longest_runs():
    ranks = pd.Series({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0})
    assert indistinct(ranks, 1.0) == [["a", "b"], ["b", "c"]]
    assert indistinct(ranks, 0.1) == []
    assert indistinct(ranks, 9.0) == [["a", "b", "c", "d"]]
    assert indistinct(ranks, math.nan) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8))
def test_the_front_is_what_nothing_dominates(points):
    board = board_of(*(row("t", f"m{i}", float(y), predict_ms=float(x)) for i, (x, y) in enumerate(points)))
    on_front = list(pareto(board, "predict_ms")["on_front"])
    for (x, y), found in zip(points, on_front):
        dominated = any(a <= x and b <= y and (a, b) != (x, y) for a, b in points)
        assert found == (not dominated)


def test_each_task_has_its_own_front_and_rows_without_the_cost_are_not_on_it():
    board = board_of(
        row("a", "cheap", 0.2, params_real=10),
        row("a", "dear", 0.3, params_real=20),
        row("b", "dear", 0.1, params_real=20),
        row("b", "unknown", 0.1, params_real=None),
    )
    found = pareto(board, "params_real")
    assert list(found["model"]) == ["cheap", "dear", "dear"]
    assert list(found["on_front"]) == [True, False, True]
    with pytest.raises(UsageError, match="no cost 'price'"):
        pareto(board, "price")


def solver(level: int, error: float, ms: float) -> dict:
    return row("t", f"coarse_solver[level={level}]", error, predict_ms=ms)


LEVELS = (solver(0, 0.0, 50.0), solver(1, 0.05, 5.0), solver(2, 0.2, 0.5))


def repaid(board, levels=None):
    return break_even(board, ["coarse_solver"], ["mean", "persistence"], levels)


def test_break_even_by_hand():
    # 8 s of data and 12 s of training against 5 ms - 1 ms saved per solve: 5000 solves
    board = board_of(row("t", "net", 0.1, data_seconds=8.0, fit_seconds=12.0, predict_ms=1.0), *LEVELS)
    (found,) = repaid(board).to_dict("records")
    assert found["break_even"] == pytest.approx(5000)
    assert found["solver"] == "coarse_solver[level=1]"  # the fastest that is at least as accurate
    assert (found["solver_err"], found["solver_ms"], found["note"]) == (0.05, 5.0, "")


def test_levels_that_the_solvers_trial_measured_count_like_rows_of_the_board():
    net = row("t", "net", 0.1, data_seconds=8.0, fit_seconds=12.0, predict_ms=1.0)
    on_board = board_of(net, row("t", "coarse_solver", 0.0, predict_ms=50.0))
    (alone,) = repaid(on_board).to_dict("records")
    assert math.isnan(alone["break_even"])
    assert "one level of the solver was measured" in alone["note"]
    elsewhere = board_of(*({**level, "task": "u"} for level in LEVELS))
    assert repaid(on_board, elsewhere)["note"].tolist() == [alone["note"]]  # levels of another task
    (found,) = repaid(on_board, board_of(*LEVELS)).to_dict("records")
    assert (found["break_even"], found["solver"]) == (pytest.approx(5000), "coarse_solver[level=1]")


@pytest.mark.parametrize("guess", ["mean", "persistence"])
def test_a_model_no_better_than_a_guess_repays_nothing(guess):
    board = board_of(row("t", "net", 1.2e5, predict_ms=0.1), row("t", guess, 0.5), *LEVELS)
    (found,) = repaid(board).to_dict("records")
    assert found["model"] == "net"  # and the guess itself is not a model to be repaid
    assert math.isnan(found["break_even"])
    assert found["note"] == f"no better than {guess}"


def test_a_model_that_is_not_faster_never_pays():
    board = board_of(row("t", "net", 0.1, predict_ms=5.0), *LEVELS)
    assert repaid(board)["break_even"].tolist() == [math.inf]


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"test_err_mean": -0.1}, "no level of the solver is this accurate"),
        ({"hardware": "elsewhere"}, "another machine"),
        ({"data_seconds": math.nan}, "making the data took is not recorded"),
        ({"fit_seconds": math.nan}, "training took is not recorded"),
    ],
)
def test_what_is_not_known_is_said_and_not_guessed(changes, note):
    board = board_of({**row("t", "net", 0.1, predict_ms=1.0), **changes}, *LEVELS)
    (found,) = repaid(board).to_dict("records")
    assert math.isnan(found["break_even"])
    assert note in found["note"]


def test_a_task_without_a_classical_solver_says_so():
    board = board_of(row("t", "net", 0.1), *LEVELS, row("u", "net", 0.1))
    assert repaid(board)["note"].tolist() == ["", "no classical solver on the board"]


def test_solvers_and_unfinished_models_have_no_break_even():
    board = board_of(row("t", "net", math.nan), solver(1, 0.05, 5.0))
    assert repaid(board).empty


def test_a_trial_of_the_classical_solver_measures_all_its_levels(tmp_path, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "cache"))
    pb.run(models=["coarse_solver", "linear", "mean"], tasks="poisson_1d", scale="smoke", out=str(tmp_path / "board"))
    records = {record.trial.model: record for record in Store(tmp_path / "board").current()}
    levels = records["coarse_solver"].levels
    errors = [level["test_err"] for level in levels]
    assert [level["level"] for level in levels] == list(range(len(levels)))
    assert len(levels) > 2
    assert errors[0] < 1e-12  # level 0 made the data
    assert errors == sorted(errors)
    assert all(level["predict_ms"] > 0 for level in levels)
    default = records["coarse_solver"].trial.hparams["level"]
    assert errors[default] == pytest.approx(records["coarse_solver"].metrics["test_err"], rel=1e-9)
    assert records["linear"].levels == []
    found = results(records.values()).set_index("model")["data_seconds"]
    assert found["coarse_solver"] == 0.0  # what uses no data is not charged for data
    assert found["linear"] > 0
    assert "coarse_solver[level=" in (tmp_path / "board" / "statistics.md").read_text()
