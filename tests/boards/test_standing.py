"""How the trained rows of a board stand: what they beat, who can be told apart, and what the board says about it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from factories.records import make_record

from pdebench_hss.boards.caveats import caveats
from pdebench_hss.boards.frames import leaderboard
from pdebench_hss.boards.standing import FORMULA, GUESS, SOLVER, Share, errors_by_cell, standing, standing_page
from pdebench_hss.boards.writing import sorted_results, write_board
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.registry import Registry
from pdebench_hss.trials.store import Store

EASY = np.random.default_rng(0).uniform(0.5, 2.0, 64)  # how hard each test sample is, for every model alike


def trained(model: str, error: float, noise: float = 0.01, seeds=(0, 1, 2), **changes):
    """Records of several seeds, each sample a little off by itself."""
    records = []
    for seed in seeds:
        draws = np.random.default_rng([seed, len(model), ord(model[0])]).normal(size=64)
        errors = error * EASY * (1 + noise * draws)
        record = make_record(model, float(errors.mean()), seed=seed, **changes)
        data = {**record.data, "n_test": len(errors)}
        records.append(dataclasses.replace(record, samples={"error_test_err": errors}, data=data))
    return records


def free(model: str, error: float, **changes):
    return trained(model, error, 0.0, [0], training_free=True, **changes)


def stands(*several, guesses=("mean",), solvers=("coarse",)):
    records = [record for records in several for record in records]
    results = sorted_results(records)
    samples = {record.key: record.samples["error_test_err"] for record in records if record.samples}
    return standing(leaderboard(results, samples), guesses, solvers, errors_by_cell(results, samples))


def test_a_row_is_ahead_of_a_kind_if_it_beats_all_of_it():
    found = stands(
        trained("net", 0.1),
        trained("slow", 0.4),
        free("mean", 0.5),
        free("fit", 0.2),
        free("fit2", 0.3),
        free("coarse", 0.05),
    )
    assert found.rows == 2
    assert found.ahead == {GUESS: Share(2, 2), FORMULA: Share(1, 2), SOLVER: Share(0, 2)}
    assert found.behind == {}


def test_kinds_that_a_table_lacks_are_not_counted():
    assert stands(trained("net", 0.1)).ahead == {}


def test_what_a_guess_beats_is_named_and_so_is_what_did_not_end():
    lost = [make_record("lost", status="diverged", reason="it left every bound")]
    found = stands(trained("net", 0.6, noise=0.0), lost, free("mean", 0.5))
    net, mean = (f"{factor * EASY.mean():.4f}" for factor in (0.6, 0.5))
    assert found.ahead[GUESS] == Share(0, 2)
    assert found.behind == {
        "net on toy": f"toy: net has {net}; mean has {mean}",
        "lost on toy": f"toy: lost is diverged (it left every bound); mean has {mean}",
    }


def test_skipped_rows_are_nobodys_fault():
    skipped = [make_record("absent", status="skipped", reason="2D only")]
    assert stands(skipped, free("mean", 0.5)).rows == 0
    assert standing_page(stands(skipped, free("mean", 0.5))) == ""


def test_rows_are_told_apart_sample_by_sample():
    """Samples are hard or easy for all, so unpaired intervals of errors 3 % apart would overlap by far."""
    found = stands(trained("a", 0.100), trained("bb", 0.103), trained("ccc", 0.1031))
    assert found.neighbours == Share(1, 2)
    assert found.firsts == Share(1, 1)
    board = leaderboard(
        sorted_results(records := [*trained("a", 0.100), *trained("bb", 0.103)]),
        {record.key: record.samples["error_test_err"] for record in records},
    )
    assert board["err_high"].min() > board["err_low"].max()


def test_of_one_seed_it_is_not_said():
    found = stands(trained("a", 0.1, seeds=[0]), trained("bb", 0.9, seeds=[0]))
    assert (found.neighbours, found.firsts) == (Share(0, 0), Share(0, 0))
    assert "told apart" not in standing_page(found)


@pytest.mark.parametrize(("error", "said"), [(0.6, 1), (0.4, 0)])
def test_the_header_of_a_board_says_which_rows_are_no_better_than_a_guess(error, said):
    records = [*trained("net", error), *free("mean", 0.5)]
    board = leaderboard(sorted_results(records))
    lines = [line for line in caveats(board, ["mean"]) if "no better than a guess" in line]
    assert len(lines) == said
    assert all(line.startswith("1 of 1 trained rows are") for line in lines)


def counts(page: str) -> dict[str, str]:
    """The first table of a page, without its head."""
    section = page.partition("\n\n##")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")][2:]
    return {cells[1].strip(): cells[2].strip() for cells in rows}


def test_the_page_counts_and_lists():
    page = standing_page(stands(trained("net", 0.6), trained("good", 0.1), free("mean", 0.5)))
    assert counts(page)["ahead of every guess"] == "1 of 2 (50 %)"
    assert counts(page)["told apart from the next trained row"] == "1 of 1 (100 %)"
    assert "No better than a guess:\n\n- toy: net has 0." in page


def test_a_ladder_of_three_seeds_says_who_is_told_apart_and_who_is_converged(tmp_path):
    """On disk, as `run` and `leaderboard` write it; of the budgets the largest counts."""
    ladders = {"a": (0.5, 0.2), "bb": (0.4, 0.3), "ccc": (0.31, 0.301)}
    records = [
        record
        for model, errors in ladders.items()
        for steps, error in zip((10, 40), errors, strict=True)
        for record in trained(model, error, budget=Budget("steps", steps))
    ]
    store = Store(tmp_path / "board")
    store.prepare()
    store.add_to_plan([record.trial for record in records], "pdebench-hss run --budget steps=10,40 --seeds 3")
    for record in records:
        store.put(record)
    write_board(store, Registry())
    page = (store.path / "statistics.md").read_text()
    assert counts(page) == {
        "told apart from the next trained row": "1 of 2 (50 %)",  # 0.3 and 0.301 are not
        "tables whose first two trained rows are told apart": "1 of 1 (100 %)",
        "converged": "1 of 3 (33 %)",  # by a doubling: -37, -13 and -1.5 %
    }
