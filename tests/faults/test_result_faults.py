"""Nothing wrong is shown, nothing good is lost: errors that blow up, forced runs that fail, refused runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from filelock import FileLock

pytestmark = pytest.mark.timeout(240)

BLOW_UP = str(Path(__file__).parent.parent / "toys" / "blow_up_plugin.py")


def board(folder: Path, *index: str) -> pd.DataFrame:
    return pd.read_csv(folder / "leaderboard.csv").set_index([*index] or "model")


# --- errors that are not finite --------------------------------------------------------------------------------------


def test_a_closed_form_that_blows_up_is_scored_by_what_it_predicts(cli, tmp_path):
    """Finite 1e200 on heat_1d for some of nine seeds: their errors are 1e200, not infinite and not left out."""
    done = cli(
        *("run", "--plugin", BLOW_UP, "--models", "blow_up,mean", "--tasks", "heat_1d", "--scale", "smoke"),
        *("--seeds", "9", "--out", "board"),
    )
    assert done.code == 0, done.err
    assert "inf" not in done.out.lower()
    trials = pd.read_csv(tmp_path / "board" / "results.csv").query("model == 'blow_up'")
    blown = trials["test_err"] > 1e100
    assert 0 < blown.sum() < 9
    assert trials["test_err"].map(math.isfinite).all()
    row = board(tmp_path / "board").loc["blow_up"]
    assert (row["n_seeds"], row["n_expected"]) == (9, 9)
    assert row["test_err_mean"] == pytest.approx(trials["test_err"].sum() / 9)
    assert 1e199 < row["test_err_std"] < math.inf
    assert row["rank"] == 2


def test_a_metric_beyond_floating_point_is_diverged_and_its_row_is_not_ranked(cli, tmp_path):
    done = cli(
        *("run", "--plugin", BLOW_UP, "--models", "blow_up[size=1e308],mean", "--tasks", "shift[factor=1e-300]"),
        *("--scale", "smoke", "--seeds", "4", "--out", "board"),
    )
    assert done.code == 1, done.err
    trials = pd.read_csv(tmp_path / "board" / "results.csv").query("model == 'blow_up[size=1e+308]'")
    diverged = trials[trials["status"] == "diverged"]
    assert 0 < len(diverged) < 4
    assert set(diverged["reason"]) == {"the test error test_err is not finite"}
    row = board(tmp_path / "board").loc["blow_up[size=1e+308]"]
    assert (row["n_seeds"], row["n_expected"], row["status"]) == (4 - len(diverged), 4, "diverged")
    assert math.isnan(row["rank"])


def test_data_of_any_size_score_what_the_same_data_of_size_one_score(cli, tmp_path):
    done = cli(
        *("run", "--plugin", BLOW_UP, "--models", "mean", "--scale", "smoke", "--out", "board"),
        *("--tasks", "shift,shift[factor=1e200],shift[factor=1e-200]"),
    )
    assert done.code == 0, done.err
    errors = pd.read_csv(tmp_path / "board" / "results.csv").set_index("task")["relative_l2"]
    assert errors.tolist() == pytest.approx([errors["shift"]] * 3, rel=1e-9)


# --- forced runs that fail -------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def arguments(toys: str, *more: str) -> list[str]:
    return [
        *("run", "--plugin", toys, "--models", "mean,toy_conv", "--tasks", "toy", "--scale", "smoke"),
        *("--executor", "inline", "--out", "board", *more),
    ]


def test_a_forced_run_that_fails_keeps_the_records_that_ended_well(cli, toys, tmp_path, cache):
    """Its attempts lie beside them, and each is told in one line."""
    assert cli(*arguments(toys)).code == 0
    records = tmp_path / "board" / "records"
    before, table = contents(records), (tmp_path / "board" / "results.csv").read_bytes()
    (data,) = (cache / "data").glob("*.h5")
    data.unlink()
    data.mkdir()  # the dataset can't be made again
    (data / "in the way").touch()
    forced = cli(*arguments(toys, "--force"))
    assert forced.code == 1, forced.out + forced.err
    assert contents(records) == before
    assert (tmp_path / "board" / "results.csv").read_bytes() == table
    attempts = sorted((tmp_path / "board" / "attempts").glob("*.json"))
    assert [json.loads(path.read_text())["status"] for path in attempts] == ["failed", "failed"]
    for path in attempts:
        (line,) = [line for line in forced.out.splitlines() if path.name in line]
        assert "failed: " in line
        assert f"(the ok record is kept; this attempt: attempts/{path.name})" in line
    (data / "in the way").unlink()
    data.rmdir()
    assert cli(*arguments(toys, "--force")).code == 0
    assert not list((tmp_path / "board" / "attempts").glob("*.json"))


# --- runs that are refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["board", "new/place"])
def test_a_run_without_a_cache_is_refused_and_leaves_nothing(cli, toys, tmp_path, out):
    done = cli(*arguments(toys)[:-1], out, PDEBENCH_HSS_CACHE="/proc/nope")
    assert done.code == 2
    assert "error: can't write to /proc/nope/data: " in done.err
    assert "set PDEBENCH_HSS_CACHE to another place" in done.err
    assert not (tmp_path / out).parent.joinpath("board").exists()
    assert not (tmp_path / "new").exists()


def test_a_refused_run_changes_nothing_in_a_board_that_is_there(cli, toys, tmp_path):
    assert cli(*arguments(toys)).code == 0
    before = contents(tmp_path / "board"), contents(tmp_path / "board" / "records")
    refused = cli(*arguments(toys, "--force", "--seeds", "2", "--data-dir", "nowhere"))
    assert (refused.code, "--data-dir nowhere: no such directory" in refused.err) == (2, True)
    assert cli(*arguments(toys, "--train-size", "5", "--data-seed", "9"), PDEBENCH_HSS_CACHE="/proc/nope").code == 2
    assert (contents(tmp_path / "board"), contents(tmp_path / "board" / "records")) == before


def test_a_run_that_has_to_wait_for_the_lock_clears_nothing_away(cli, toys, tmp_path):
    """What looks like a killed writer's leftover is the record another run is writing."""
    records = tmp_path / "board" / "records"
    records.mkdir(parents=True)
    being_written = records / ".abc.json.x1.tmp"
    being_written.write_text("half a rec")
    with FileLock(tmp_path / "board" / ".lock"):
        refused = cli(*arguments(toys))
    assert (refused.code, "another run is writing to board" in refused.err) == (2, True)
    assert being_written.exists()
    assert cli(*arguments(toys)).code == 0
    assert not being_written.exists()
