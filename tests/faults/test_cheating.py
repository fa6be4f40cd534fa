"""The process of a model holds neither the answers nor the scorer, and what it leaves behind is data, not code."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.timeout(180)

TOYS, CHEATS = (str(Path(__file__).parent.parent / "toys" / name) for name in ("toy_plugin.py", "cheats.py"))


IMPORTED = """
import sys
import numpy as np
from pdebench_hss import ModelSpec, hookimpl

def flatter(prediction, target, metric, mask=None):
    return dict.fromkeys(("test_err", "rmse", "max_error", metric), np.zeros(len(prediction)))

for name, module in list(sys.modules.items()):
    if name.startswith("pdebench_hss") and hasattr(module, "sample_errors"):
        module.sample_errors = flatter

@hookimpl
def pdebench_hss_models():
    return [ModelSpec(name="cheat_atimport", title="", build="cheat_modules:Honest")]
"""
SCORED = ("readsframes", "scansgarbage", "patchesthemetric", "atimport")
FAILED = ("leavesapickle", "forgesaresult", "babbles")


@pytest.fixture(scope="module")
def board(shared_cli):
    """The rows of one run of all cheats beside an honest model, by task and model; and the file that a pickle makes.

    Also on a task that sees the stored outputs as its inputs (`toy_shared`).
    """
    folder, cli = shared_cli
    (folder / "at_import.py").write_text(IMPORTED)
    names = ",".join(f"cheat_{name}" for name in ("honest", *SCORED, *FAILED))
    plugins = ("--plugin", TOYS, "--plugin", CHEATS, "--plugin", "at_import.py")
    options = ("--models", names, "--tasks", "toy,toy_shared", "--scale", "smoke", "--out", "board")
    done = cli("run", *plugins, *options, BOMB=str(folder / "bomb"))
    assert done.code == 1, done.err + done.out
    assert "Traceback" not in done.out + done.err
    return pd.read_csv(folder / "board" / "results.csv").set_index(["task", "model"]), folder / "bomb"


@pytest.fixture(params=["toy", "toy_shared"])
def rows(board, request):
    return board[0].loc[request.param]


@pytest.mark.parametrize("cheat", SCORED)
def test_a_cheat_scores_what_an_honest_model_does(rows, cheat):
    """One of them is brought by a file that changes the metric when it is imported: it is not, where it is scored."""
    assert rows.test_err[f"cheat_{cheat}"] == rows.test_err["cheat_honest"] == 1.0


@pytest.mark.parametrize("cheat", FAILED)
def test_a_forged_result_is_a_failed_trial_and_the_end_of_its_trial_only(rows, cheat):
    assert rows.status[f"cheat_{cheat}"] == "failed"
    assert set(rows.status.drop([f"cheat_{name}" for name in FAILED])) == {"ok"}


def test_a_pickle_in_the_place_of_a_result_runs_nothing(board, rows):
    assert "can't be read" in rows.reason["cheat_leavesapickle"]
    assert not board[1].exists()


def test_babble_on_the_line_is_named(board, rows):
    assert "message" in rows.reason["cheat_babbles"]
    assert not board[1].exists()
