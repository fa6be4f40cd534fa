"""Nothing wrong is shown, nothing good is lost: errors that blow up, forced runs that fail, refused runs."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

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
