"""Trained models elsewhere, and scores confirmed: predictions that were kept, weights, other grids and parameters."""

from __future__ import annotations

import dataclasses
import shutil
import sys

import h5py
import numpy as np
import pandas as pd
import pytest

from pdebench_hss.base import machine
from pdebench_hss.base.errors import UsageError
from pdebench_hss.base.files import BadFile
from pdebench_hss.boards.evaluations import read
from pdebench_hss.cli.evaluate import evaluate as command
from pdebench_hss.cli.rescore import rescore as rescore_command
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.selection import Choice
from pdebench_hss.data.cache import ensure
from pdebench_hss.data.cache import load as load_data
from pdebench_hss.runs.config import make_config
from pdebench_hss.runs.runner import Run
from pdebench_hss.training.streaming import bytes_in_memory
from pdebench_hss.trials import predictions
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.training_pairs import at_once_in_test
from pdebench_hss.use.again import INTERPOLATED, KEPT, REBUILT, WEIGHTS, Outcome
from pdebench_hss.use.evaluating import Condition, Request, evaluate, parse_grids
from pdebench_hss.use.rescoring import CONFIRMED, CONTRADICTED, ROUNDED, UNCHECKED, judge, rescore
from pdebench_hss.use.sources import own_dataset, scored_records

MODELS = "fno,deeponet,neural_hss,linear,coarse_solver,persistence"
ANY_GRID = {"fno", "deeponet", "coarse_solver", "persistence"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A board with models, predictions and held-out samples, and the cache that its data are in."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDEBENCH_HSS_CACHE", str(folder / "cache"))
        config = {"models": MODELS, "tasks": "burgers_1d", "scale": "smoke", "device": "cpu", "jobs": 1}
        Run(make_config({**config, "keep_predictions": True, "val": "25%", "out": str(folder / "board")})).execute()
    return folder


@pytest.fixture
def board(made, tmp_path, monkeypatch):
    """A copy that a test may spoil."""
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(made / "cache"))
    shutil.copytree(made / "board", tmp_path / "board")
    return Store(tmp_path / "board")


def verdicts(store, *sources):
    return {v.record.trial.model: v for v in rescore(store, load_registry(), ensure, sources=sources)}


def rows(store, *conditions, **request):
    found = list(evaluate(store, load_registry(), conditions, Request(**request), ensure))
    return pd.DataFrame(found).set_index("model")


def record_of(store, model):
    return next(record for record in scored_records(store) if record.trial.model == model)


# --- predictions that were kept ---------------------------------------------------------------------------------------


def test_a_kept_file_holds_what_was_scored(board):
    """Read by plain h5py, and scored by the formula."""
    record = record_of(board, "fno")
    with h5py.File(board.path / "predictions" / f"{record.key}.h5") as file:
        prediction, told = file["prediction"][:], dict(file.attrs)
    assert (told["key"], told["data"]) == (record.key, record.data["sha256"])
    truth = load_data(own_dataset(record, load_registry())).test.outputs
    errors = [np.linalg.norm(p - t) / np.linalg.norm(t) for p, t in zip(prediction, truth)]
    np.testing.assert_allclose(board.samples(record.key)["error_relative_l2"], errors, rtol=1e-12)


def test_a_file_whose_bytes_were_changed_or_cut_is_refused(board):
    record = record_of(board, "fno")
    path = board.predictions.path(record)
    with h5py.File(path, "r+") as file:
        file["prediction"][0, 0, 0, 0] += 1e-9
        shape = file["prediction"].shape
    with pytest.raises(BadFile, match="is not what was scored"):
        predictions.read(path, record, shape)
    with pytest.raises(BadFile, match="holds float64 of shape"):
        predictions.read(path, record, (1, *shape[1:]))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(BadFile, match="can't be read"):
        predictions.read(path, record, shape)


def test_a_killed_writer_leaves_a_record_with_its_predictions_or_neither(board):
    record = record_of(board, "fno")
    final, pending = board.predictions.path(record), board.predictions.pending(record.key)
    final.rename(pending)  # killed after the record was written
    board.finish_writes()
    assert final.exists()
    assert not pending.exists()
    other = record_of(board, "deeponet")
    shutil.copy(board.predictions.path(other), pending)  # killed before: another attempt's, without a record
    board.finish_writes()
    assert predictions.stated_hash(final) == record.artefacts["predictions"]["sha256"]
    assert not pending.exists()


# --- scores confirmed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [KEPT, WEIGHTS])
def test_every_number_of_a_board_is_confirmed_to_the_bit(board, source):
    found = verdicts(board, source)
    assert {model: v.verdict for model, v in found.items()} == dict.fromkeys(MODELS.split(","), CONFIRMED)
    assert {v.source for v in found.values()} == {source}
    assert all(set(v.record.metrics) == set(v.means) for v in found.values())
    assert all("val_err" in v.means for v in found.values())  # drawn again, and predicted by the weights


def test_a_held_out_error_that_was_changed_is_contradicted(board):
    record = record_of(board, "fno")
    arrays = {**board.samples(record.key), "error_val_err": 0.99 * board.samples(record.key)["error_val_err"]}
    metrics = {**record.metrics, "val_err": float(arrays["error_val_err"].mean())}
    board.live.write(dataclasses.replace(record, metrics=metrics, samples=arrays))
    for source in (KEPT, WEIGHTS):
        found = verdicts(board, source)["fno"]
        assert (found.verdict, found.metric) == (CONTRADICTED, "val_err")


def test_without_a_model_the_held_out_error_is_not_checked_and_the_command_says_so(board, capsys):
    for record in scored_records(board):
        board.models.remove(record.key)
    rescore_command(source=board.path)
    said = capsys.readouterr().out
    assert "6 confirmed to the bit, 0 within rounding, 0 contradicted, 0 not checked (6 from predictions)" in said
    assert "val_err of 6 records is not checked: no model: " in said


def test_a_record_that_states_another_error_is_contradicted_and_the_command_says_so(board, cli):
    record = record_of(board, "fno")
    arrays = {name: 0.99 * a if name.startswith("error_") else a for name, a in board.samples(record.key).items()}
    metrics = {name: 0.99 * value for name, value in record.metrics.items()}
    board.live.write(dataclasses.replace(record, metrics=metrics, samples=arrays))  # consistent, and sealed anew
    result = cli("rescore", str(board.path), "--write")
    assert result.code == 3, result.err
    assert "contradicted  burgers_1d fno seed 0: " in result.out
    assert "5 confirmed to the bit, 0 within rounding, 1 contradicted, 0 not checked (6 from predictions)" in result.out
    table = pd.read_csv(board.path / "rescored.csv")
    assert list(table.loc[table["verdict"] == CONTRADICTED, "model"]) == ["fno"]


def test_what_cant_be_checked_has_its_reason(board):
    record = record_of(board, "fno")
    board.predictions.path(record).unlink()
    assert verdicts(board, KEPT)["fno"].verdict == UNCHECKED
    assert "is not there any more" in verdicts(board, KEPT)["fno"].reason
    assert verdicts(board, KEPT, WEIGHTS)["fno"].source == WEIGHTS


def test_rounding_is_told_from_error(board):
    record = record_of(board, "fno")
    stated = {"test_err": np.array([0.1, 0.2]), "relative_l2": np.array([0.1, 0.2])}

    def verdict(change, source):
        return judge(record, stated, Outcome({"test_err": 0.15}, {"test_err": stated["test_err"] + change}), source)

    assert verdict(0.0, KEPT).verdict == CONFIRMED
    assert verdict(1e-11, KEPT).verdict == ROUNDED
    assert verdict(1e-6, KEPT).verdict == CONTRADICTED
    assert verdict(1e-6, WEIGHTS).verdict == ROUNDED
    assert verdict(1e-2, WEIGHTS).verdict == CONTRADICTED
    assert verdict(np.array([0, np.nan]), WEIGHTS).verdict == CONTRADICTED


def test_what_does_not_fit_in_memory_is_computed_in_parts_and_confirmed_to_the_bit(board, monkeypatch):
    dataset = own_dataset(record_of(board, "fno"), load_registry())
    whole = rows(board, Condition(grid=(64,)), interpolate=True)
    limit = 2 * bytes_in_memory(dataset, 1)
    monkeypatch.setattr(machine, "free_memory", lambda: 2 * limit)
    assert at_once_in_test(dataset, limit) == 2 < dataset.size.test
    for source in (KEPT, WEIGHTS):
        found = verdicts(board, source)
        assert {model: v.verdict for model, v in found.items()} == dict.fromkeys(MODELS.split(","), CONFIRMED)
        assert all("val_err" in v.means for v in found.values())
    parts = rows(board, Condition(grid=(64,)), interpolate=True)
    pd.testing.assert_frame_equal(parts, whole)


# --- elsewhere --------------------------------------------------------------------------------------------------------


def test_where_nothing_differs_the_error_is_the_recorded_one_to_the_bit(board):
    found = rows(board, Condition(Choice("burgers_1d"), (32,), 0))
    for record in scored_records(board):
        row = found.loc[record.trial.model]
        tested = {name: value for name, value in record.metrics.items() if name != "val_err"}
        assert {name: row[name] for name in tested} == tested
        assert row["data_hash"] == record.data["sha256"]


def test_another_grid_is_for_models_whose_weights_are_of_no_grid_and_the_others_say_why(board):
    found = rows(board, Condition(grid=(64,)), samples=2)
    good = found[found["status"] == "ok"]
    assert set(good.index) == ANY_GRID
    assert set(good["how"]) == {REBUILT}
    assert (good["n_samples"] == 2).all()
    refused = found.drop(index=good.index)
    assert set(refused["reason"]) == {"its weights belong to a grid of 32; --interpolate carries fields there and back"}
    carried = rows(board, Condition(grid=(64,)), samples=2, interpolate=True)
    assert set(carried.index[carried["how"] == INTERPOLATED]) == {"neural_hss", "linear"}
    assert (carried["status"] == "ok").all()


def test_a_grid_that_a_model_cant_be_built_on_is_refused_with_its_own_words(board):
    found = rows(board, Condition(grid=(4,)), samples=1, models=("fno",))
    assert "it can't be built on 4: fno: modes=3, but a grid of (4,) has 1 to 2" in found.loc["fno", "reason"]


def test_other_parameters_and_fresh_samples_are_other_data_on_the_same_grid(board):
    changed = rows(board, Condition(Choice("burgers_1d", {"beta": 0.5})), models=("fno",), samples=2)
    fresh = rows(board, Condition(data_seed=7), models=("fno",), samples=2)
    own = rows(board, Condition(), models=("fno",), samples=2)
    hashes = {table.loc["fno", "data_hash"] for table in (changed, fresh, own)}
    assert len(hashes) == 3
    assert changed.loc["fno", "evaluated_on"] == "burgers_1d[beta=0.5]"
    assert all(table.loc["fno", "grid"] == "32" for table in (changed, fresh, own))


def test_grids_are_read_as_people_write_them():
    assert parse_grids("64,128") == [(64,), (128,)]
    assert parse_grids("128x64") == [(128, 64)]


def test_the_command_writes_a_table_that_grows_and_figures(board, cli):
    first = cli("evaluate", str(board.path), "--grid", "32,64", "--models", "fno,linear", "--samples", "2")
    assert first.code == 0, first.err
    assert "its weights belong to a grid of 32" in " ".join(first.out.split())
    folder = board.path / "evaluations"
    assert len(read(folder)) == 4
    assert (folder / "burgers_1d_resolution.png").stat().st_size > 5000
    again = cli(
        *("evaluate", str(board.path), "--task", "burgers_1d[beta=0.05],burgers_1d", "--models", "fno"),
        *("--samples", "2"),
    )
    assert again.code == 0, again.err
    assert len(read(folder)) == 5  # one condition is new, the other replaced its row
    assert len(list(folder.glob("burgers_1d_beta.png"))) == 1
    assert "## `burgers_1d` on 64" in (folder / "evaluations.md").read_text()


def test_without_matplotlib_there_is_a_table_and_a_word_about_figures(board, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    command(source=board.path, grid="32", models="fno", samples=2)
    said = capsys.readouterr()
    assert "not drawn: figures need matplotlib: pip install 'pdebench-hss[plot]'" in said.err
    assert "evaluations.csv" in said.out
    assert len(read(board.path / "evaluations")) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--grid", "big"], "--grid big: write points along each axis (128)"),
        (["--grid", "1"], "a grid has at least 2 points"),
        (["--grid", "64x64"], "task 'burgers_1d' has 1 axes, and the grid (64, 64) has 2"),
        (["--task", "heat_1d"], "was trained on 'heat_1d'; it has burgers_1d"),
        (["--task", "burgers_1d[gamma=1]"], "no option 'gamma'"),
        (["--task", "burgers_1d[history=2]"], "history is part of a model's shape"),
        (["--data-seed", "x"], "--data-seed x: write whole numbers"),
        (["--models", "nobody"], "no model that was asked for"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_computed(board, arguments, words):
    options = {name.removeprefix("--").replace("-", "_"): value for name, value in zip(*[iter(arguments)] * 2)}
    with pytest.raises(UsageError) as refused:
        command(source=board.path, **options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
