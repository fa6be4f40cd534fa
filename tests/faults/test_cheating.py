"""The process of a model holds neither the answers nor the scorer, and what it leaves behind is data, not code."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.timeout(180)

CHEATS = str(Path(__file__).parent.parent / "toys" / "cheats.py")


@pytest.fixture
def scored(cli, toys, tmp_path):
    """The rows of a run of the cheats, by task and model."""

    def run(models: str, tasks: str = "toy", code: int = 0, more: tuple[str, ...] = ()) -> pd.DataFrame:
        names = ",".join(f"cheat_{name}" for name in models.split(","))
        done = cli(
            *("run", "--plugin", toys, "--plugin", CHEATS, "--models", names, "--tasks", tasks),
            *("--scale", "smoke", "--out", "board", *more),
            BOMB=str(tmp_path / "bomb"),
        )
        assert done.code == code, done.err + done.out
        assert "Traceback" not in done.out + done.err
        return pd.read_csv(tmp_path / "board" / "results.csv").set_index(["task", "model"])

    return run


@pytest.mark.parametrize("cheat", ["readsframes", "scansgarbage", "patchesthemetric"])
def test_a_cheat_scores_what_an_honest_model_does(scored, cheat):
    """Also where a task sees the stored outputs as its inputs (`toy_shared`)."""
    rows = scored(f"honest,{cheat}", "toy,toy_shared")
    for task in ("toy", "toy_shared"):
        errors = rows.loc[task]
        assert errors.test_err[f"cheat_{cheat}"] == errors.test_err["cheat_honest"] == 1.0


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


def test_a_file_that_brings_a_model_is_not_even_imported_where_it_is_scored(scored, tmp_path):
    (tmp_path / "at_import.py").write_text(IMPORTED)
    rows = scored("honest,atimport", more=("--plugin", "at_import.py"))
    assert rows.test_err["toy", "cheat_atimport"] == 1.0


def test_a_pickle_in_the_place_of_a_result_runs_nothing_and_fails_its_trial(scored, tmp_path):
    row = scored("leavesapickle,honest", code=1).loc["toy"]
    assert row.status.to_dict() == {"cheat_leavesapickle": "failed", "cheat_honest": "ok"}
    assert "can't be read" in row.reason["cheat_leavesapickle"]
    assert not (tmp_path / "bomb").exists()


def test_a_forged_result_is_a_failed_trial(scored):
    row = scored("forgesaresult,honest", code=1).loc["toy"]
    assert row.status.to_dict() == {"cheat_forgesaresult": "failed", "cheat_honest": "ok"}


def test_babble_on_the_line_is_the_end_of_its_trial_only(scored, tmp_path):
    row = scored("babbles,honest", code=1).loc["toy"]
    assert row.status.to_dict() == {"cheat_babbles": "failed", "cheat_honest": "ok"}
    assert "message" in row.reason["cheat_babbles"]
    assert not (tmp_path / "bomb").exists()
