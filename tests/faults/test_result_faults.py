"""Nothing wrong is shown, nothing good is lost: errors that blow up, forced runs that fail, refused runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from bad_boards import command
from filelock import FileLock

pytestmark = pytest.mark.timeout(240)

BLOW_UP = str(Path(__file__).parent.parent / "toys" / "blow_up_plugin.py")


def run(plugin: str, models: str, tasks: str, out: Path, *more: str) -> tuple[int, str]:
    """Exit code of `run`, and what it printed."""
    return command(
        *("run", "--plugin", plugin, "--models", models, "--tasks", tasks, "--scale", "smoke"),
        *("--executor", "inline", "--out", out, *more),
        seconds=200,
    )


def board(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "leaderboard.csv").set_index("model")


# --- errors that are not finite --------------------------------------------------------------------------------------


def test_a_closed_form_that_blows_up_is_scored_by_what_it_predicts(tmp_path):
    """Finite 1e200 on heat_1d for some of nine seeds: their errors are 1e200, not infinite and not left out."""
    code, printed = run(BLOW_UP, "blow_up,mean", "heat_1d", tmp_path, "--seeds", "9")
    assert code == 0, printed
    assert " inf" not in printed.lower()
    trials = pd.read_csv(tmp_path / "results.csv").query("model == 'blow_up'")
    blown = trials["test_err"] > 1e100
    assert 0 < blown.sum() < 9
    assert trials["test_err"].map(math.isfinite).all()
    row = board(tmp_path).loc["blow_up"]
    assert (row["n_seeds"], row["n_expected"]) == (9, 9)
    assert row["test_err_mean"] == pytest.approx(trials["test_err"].sum() / 9)
    assert 1e199 < row["test_err_std"] < math.inf
    assert row["rank"] == 2


def test_a_metric_beyond_floating_point_is_diverged_and_its_row_is_not_ranked(tmp_path):
    name = "blow_up[size=1e+308]"
    code, printed = run(BLOW_UP, "blow_up[size=1e308],mean", "shift[factor=1e-300]", tmp_path, "--seeds", "4")
    assert code == 1, printed
    trials = pd.read_csv(tmp_path / "results.csv").query("model == @name")
    diverged = trials[trials["status"] == "diverged"]
    assert 0 < len(diverged) < 4
    assert set(diverged["reason"]) == {"the test error test_err is not finite"}
    row = board(tmp_path).loc[name]
    assert (row["n_seeds"], row["n_expected"], row["status"]) == (4 - len(diverged), 4, "diverged")
    assert math.isnan(row["rank"])


def test_data_of_any_size_score_what_the_same_data_of_size_one_score(tmp_path):
    code, printed = run(BLOW_UP, "mean", "shift,shift[factor=1e200],shift[factor=1e-200]", tmp_path)
    assert code == 0, printed
    errors = pd.read_csv(tmp_path / "results.csv").set_index("task")["relative_l2"]
    assert errors.tolist() == pytest.approx([errors["shift"]] * 3, rel=1e-9)


# --- forced runs that fail -------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def usual(toys, tmp_path):
    """``usual(*more)``: two quick trials of the toy task, into ``board``."""

    def call(*more: str, out: str = "board") -> tuple[int, str]:
        return run(toys, "mean,toy_conv", "toy", tmp_path / out, *more)

    return call


def test_a_forced_run_that_fails_keeps_the_records_that_ended_well(usual, tmp_path, cache):
    """Its attempts lie beside them, and each is told in one line."""
    assert usual()[0] == 0
    records = tmp_path / "board" / "records"
    before, table = contents(records), (tmp_path / "board" / "results.csv").read_bytes()
    (data,) = (cache / "data").glob("*.h5")
    for file in (cache / "data").iterdir():
        file.unlink()
    data.mkdir()  # the dataset can't be made again
    (data / "in the way").touch()
    code, printed = usual("--force")
    assert code == 1, printed
    assert contents(records) == before
    assert (tmp_path / "board" / "results.csv").read_bytes() == table
    attempts = sorted((tmp_path / "board" / "attempts").glob("*.json"))
    assert [json.loads(path.read_text())["status"] for path in attempts] == ["failed", "failed"]
    for path in attempts:
        (line,) = [line for line in printed.splitlines() if path.name in line]
        assert "failed: " in line
        assert f"(the ok record is kept; this attempt: attempts/{path.name})" in line
    (data / "in the way").unlink()
    data.rmdir()
    assert usual("--force")[0] == 0
    assert not list((tmp_path / "board" / "attempts").glob("*.json"))


# --- runs that are refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["board", "new/place"])
def test_a_run_without_a_cache_is_refused_and_leaves_nothing(usual, tmp_path, monkeypatch, out):
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", "/proc/nope")
    code, printed = usual(out=out)
    assert code == 2
    assert "error: can't write to /proc/nope/data: " in printed
    assert "set PDEBENCH_HSS_CACHE to another place" in printed
    assert list(tmp_path.iterdir()) == []


def test_a_refused_run_changes_nothing_in_a_board_that_is_there(usual, tmp_path, monkeypatch):
    assert usual()[0] == 0
    before = contents(tmp_path / "board"), contents(tmp_path / "board" / "records")
    code, printed = usual("--force", "--seeds", "2", "--data-dir", "nowhere")
    assert (code, "--data-dir nowhere: no such directory" in printed) == (2, True)
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", "/proc/nope")
    assert usual("--force", "--seeds", "2")[0] == 2
    assert (contents(tmp_path / "board"), contents(tmp_path / "board" / "records")) == before


def test_a_run_that_has_to_wait_for_the_lock_clears_nothing_away(usual, tmp_path):
    """What looks like a killed writer's leftover is the record another run is writing."""
    records = tmp_path / "board" / "records"
    records.mkdir(parents=True)
    being_written = records / ".abc.json.x1.tmp"
    being_written.write_text("half a rec")
    with FileLock(tmp_path / "board" / ".lock"):
        code, printed = usual()
    assert (code, "another run is writing to" in printed) == (2, True)
    assert being_written.exists()
    assert usual()[0] == 0
    assert not being_written.exists()
