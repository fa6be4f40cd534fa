"""What the page shows is what the records say: every trial, to the last bit, with its reason if it has no result."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from factories.boards import held_out_record, page_record, page_trial, usual_board, write_board
from pdebench_hss_studies.published import published_tables

from pdebench_hss.boards.claims import result_of
from pdebench_hss.boards.trust import Check, write_checks
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.reference_table import printed
from pdebench_hss.report.packing import pack
from pdebench_hss.report.page_data import CURVE_POINTS, QUANTILES, Board, page_data, read_board
from pdebench_hss.trials.store import Store


def data_of(*boards: Path) -> dict:
    return page_data([read_board(Store(path), path.name) for path in boards], published_tables())


def rows_of(data: dict) -> dict[tuple[str, str], dict]:
    return {(row["task"], row["model"]): row for row in data["summary"]["rows"]}


def test_rows_have_mean_deviation_rank_skill_and_all_their_trials(tmp_path):
    row = rows_of(data_of(usual_board(tmp_path / "board")))["poisson_2d", "fno"]
    errors = [0.2, 0.21]
    assert row["test_err_mean"] == pytest.approx(np.mean(errors), rel=1e-15)
    assert row["test_err_std"] == pytest.approx(np.std(errors, ddof=1), rel=1e-12)
    assert (row["rank"], row["skill"]) == (2, pytest.approx(1 - 0.205 / 0.9))
    assert [(trial["seed"], trial["test_err"]) for trial in row["trials"]] == [(0, 0.2), (1, 0.2 + 0.01)]


def test_a_board_brings_its_caveats_and_a_ladder_what_its_last_step_changed(tmp_path):
    trials = [page_trial(budget=Budget("steps", amount)) for amount in (100, 400)]
    ladder = write_board(tmp_path / "ladder", [page_record(t, e) for t, e in zip(trials, (0.4, 0.2), strict=True)])
    data = data_of(ladder)
    assert [line["text"].partition(":")[0] for line in data["summary"]["caveats"]] == [
        "1 of 1 trained rows are not converged",
        "options were not tuned for this board",
        "every trained row has one seed",
    ]
    assert [row["note"] for row in data["summary"]["rows"]] == ["", "converged: no (−50 % by ×4)"]


def test_skipped_failed_and_missing_cells_are_rows_with_their_reason(tmp_path):
    rows = rows_of(data_of(usual_board(tmp_path / "board")))
    found = {model: (rows["poisson_2d", model]["status"], rows["poisson_2d", model]["reason"]) for model in
             ("green_learning", "resnet", "deeponet")}  # fmt: skip
    assert found == {
        "green_learning": ("skipped", "needs a linear PDE"),
        "resnet": ("failed", "ValueError: the kernel is too wide"),
        "deeponet": ("missing", "not run yet"),
    }
    assert all(rows["poisson_2d", model]["test_err_mean"] is None for model in found)
    assert all(rows["poisson_2d", model]["rank"] is None for model in found)


def test_errors_keep_every_bit(tmp_path):
    error = 3.123456789012345e-8
    board = write_board(tmp_path / "board", [page_record(page_trial(), error)])
    data = json.loads(json.dumps(data_of(board)))
    (row,) = data["summary"]["rows"]
    assert row["test_err_mean"] == error
    assert row["trials"][0]["test_err"] == error


def test_rows_that_are_not_ranked_together_are_in_different_groups(tmp_path):
    trials = [page_trial(), page_trial(n_train=32), page_trial("resnet"), page_trial(task="heat_1d")]
    board = write_board(tmp_path / "board", [page_record(trial) for trial in trials])
    groups = {(r["task"], r["model"], r["n_train"]): r["group"] for r in data_of(board)["summary"]["rows"]}
    assert groups["poisson_2d", "fno", 64] == groups["poisson_2d", "resnet", 64]
    assert len(set(groups.values())) == 3


def test_the_same_trial_on_two_boards_is_two_trials(tmp_path):
    one = write_board(tmp_path / "one", [page_record(page_trial(), 0.1)])
    two = write_board(tmp_path / "two", [page_record(page_trial(), 0.2)])
    data = data_of(one, two)
    assert [(row["board"], row["test_err_mean"]) for row in data["summary"]["rows"]] == [(0, 0.1), (1, 0.2)]
    assert len(data["details"]["trials"]) == 2
    assert data["summary"]["boards"] == ["one", "two"]


def test_every_trial_has_its_settings_provenance_curve_and_errors(tmp_path):
    data = data_of(usual_board(tmp_path / "board"))["details"]
    (trial,) = (page_trial("fno", "heat_1d", 1),)
    detail = data["trials"][f"0-{trial.key}"]
    settings = data["pools"]["settings"][detail["settings"]]
    assert (settings["hparams.width"], settings["optimizer.lr"]) == (8, 1e-3)
    assert data["pools"]["hardware"][detail["hardware"]]["id"] == "machine-a"
    errors = 0.021 * np.array([0.5, 0.8, 1.0, 1.2, 1.5])
    np.testing.assert_allclose(detail["errors"], np.quantile(errors, QUANTILES), rtol=1e-3)
    steps, losses = detail["curve"]
    assert (steps[0], steps[-1]) == (1, 100)
    assert len(steps) == len(losses) <= CURVE_POINTS
    np.testing.assert_allclose(losses, np.exp(-(np.array(steps) - 1) / 30), rtol=1e-3)


def test_what_trials_share_is_stored_once(tmp_path):
    data = data_of(usual_board(tmp_path / "board"))["details"]
    assert len(data["trials"]) == 15
    assert len(data["pools"]["versions"]) == 2  # that of every trial that ran, and none of the missing one
    assert len(data["pools"]["settings"]) == 1


def test_the_papers_numbers_stand_beside_ours(tmp_path):
    papers = data_of(usual_board(tmp_path / "board"))["summary"]["papers"]
    lines = {(paper["name"], row["task"]): row["cells"] for paper in papers for row in paper["rows"]}
    ours = lines["table_2d", "poisson_2d"]["fno"]
    assert ours["test_err"] == pytest.approx(0.205)
    assert ours["paper_test_err"] == printed(published_tables(), "poisson_2d", "fno").test_err
    assert lines["table_2d", "poisson_2d"]["resnet"]["test_err"] is None
    assert lines["table_1d", "heat_1d"]["neural_hss"]["test_err"] == pytest.approx(0.0105)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_missing_and_the_data_stay_json(value):
    record = page_record(page_trial(), value, predict_ms=value)
    board = Board("board", [record], {record.key: np.array([0.1, 0.2])}, {record.key: ([1, 2], [0.5, value])})
    data = page_data([board])
    json.dumps(data, allow_nan=False)
    assert data["summary"]["rows"][0]["predict_ms"] is None
    assert data["details"]["trials"][f"0-{record.key}"]["curve"] == [[1, 2], [0.5, None]]


def test_an_empty_board_gives_an_empty_page():
    data = page_data([Board("empty", [])])
    assert data["summary"]["rows"] == []
    assert data["details"]["trials"] == {}


def test_packing_keeps_every_value_and_repeats_no_name(tmp_path):
    data = data_of(usual_board(tmp_path / "board"))
    packed = pack(data)["summary"]
    rows = [dict(zip(packed["rows"], values)) for values in zip(*packed["rows"].values())]
    trials = [dict(zip(packed["trials"], values)) for values in zip(*packed["trials"].values())]
    for number, row in enumerate(rows):
        row["trials"] = [{n: v for n, v in trial.items() if n != "row"} for trial in trials if trial["row"] == number]
    assert rows == data["summary"]["rows"]
    assert json.dumps(pack(data)).count("test_err_mean") == 1


def test_the_same_records_give_the_same_data(tmp_path):
    board = usual_board(tmp_path / "board")
    assert json.dumps(data_of(board)) == json.dumps(data_of(board))


def test_a_row_says_what_is_the_models_own_of_its_training_and_how_it_was_tuned(tmp_path):
    tuned = {"tries": 12, "seconds": 34.5, "options": {"lr": 0.004, "width": 20}}
    records = [
        page_record(page_trial("fno", training="own loss, own optimiser", tuned=tuned)),
        page_record(page_trial("resnet", training="trains itself")),
        page_record(page_trial("deeponet")),
    ]
    data = data_of(write_board(tmp_path / "board", records))
    assert {row["model"]: row["note"] for row in data["summary"]["rows"]} == {
        "fno": "own loss, own optimiser; 12 tries, 34 s: lr=0.004 width=20",
        "resnet": "trains itself",
        "deeponet": "",
    }
    pool, trials = data["details"]["pools"]["settings"], data["details"]["trials"]
    settings = {record.trial.model: pool[trials[f"0-{record.key}"]["settings"]] for record in records}
    assert (settings["fno"]["training"], settings["fno"]["tuned in tries"]) == ("own loss, own optimiser", 12)
    assert (settings["fno"]["tuning / s"], settings["fno"]["tuned.lr"]) == (34.5, 0.004)
    assert not {name for name in settings["deeponet"] if "train" in name or "tun" in name or "held" in name}


def test_the_curve_of_the_held_out_error_is_there_where_samples_were_held_out(tmp_path):
    curve = [0.5, math.inf, 0.25]  # infinite: a prediction was not finite there
    record, other = held_out_record(page_trial(val=16), curve), page_record(page_trial("resnet"))
    data = data_of(write_board(tmp_path / "board", [record, other]))
    trials = data["details"]["trials"]
    assert trials[f"0-{record.key}"]["held_out"] == [[10, 20, 30], [0.5, None, 0.25]]
    assert trials[f"0-{other.key}"]["held_out"] == []
    rows = {row["model"]: row for row in data["summary"]["rows"]}
    assert (rows["fno"]["held_out"], rows["resnet"]["held_out"]) == (16, 0)
    assert (rows["fno"]["trials"][0]["val_err"], rows["resnet"]["trials"][0]["val_err"]) == (0.25, None)


def test_rows_and_trials_say_how_far_they_can_be_trusted(tmp_path):
    record = page_record(page_trial(), 0.1)
    board = write_board(tmp_path / "b", [record, page_record(page_trial("mean"), 0.3)], [page_trial("deeponet")])
    rows = {row["model"]: row for row in data_of(board)["summary"]["rows"]}
    ours = "self-reported (machine-a, 2023-11-14)"  # that of the run
    assert {model: row["trust"] for model, row in rows.items()} == {"fno": ours, "mean": ours, "deeponet": ""}
    result = result_of(record, record.samples["error_test_err"])
    write_checks(board, [Check(record.key, result, "re-run", "equal to the bit", "machine-b", 1_700_000_000.0, "1")])
    rows = {row["model"]: row for row in data_of(board)["summary"]["rows"]}
    assert rows["fno"]["trust"] == "re-run (machine-b, 2023-11-14)"
    assert rows["mean"]["trust"] == ours
    (trial,) = rows["fno"]["trials"]
    assert (trial["trust"], trial["trust_machine"], trial["trust_when"]) == ("re-run", "machine-b", "2023-11-14")
