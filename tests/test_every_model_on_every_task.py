"""The contract of the whole: every installed model on every installed task, through the real runner."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import loaded_answers
import pandas as pd
import pytest

from pdebench_hss import Store
from pdebench_hss.boards.packing import pack
from pdebench_hss.contract.registry import load_registry


@pytest.mark.early
@pytest.mark.timeout(600)
def test_every_model_on_every_task_at_scale_smoke(cli, tmp_path):
    done = cli("run", "--models", "all", "--tasks", "*", "--scale", "smoke", "--out", "board", timeout=590)
    assert done.code == 0, done.out + done.err
    rows = pd.read_csv(tmp_path / "board" / "results.csv")
    registry = load_registry()
    assert len(rows) == len(registry.models) * len(registry.tasks)
    assert set(rows.status) == {"ok", "skipped"}
    assert rows[rows.status == "ok"].test_err.notna().all()
    assert rows[rows.status == "skipped"].reason.str.len().gt(3).all()
    for task, group in rows.groupby("task"):
        assert (group.status == "ok").sum() >= 5, f"too few models can do {task}"
        assert group[group.status == "ok"].data_hash.nunique() == 1  # the same samples for everybody
    assert_models_answer_as_scored(tmp_path, len(rows[rows.status == "ok"]))


def assert_models_answer_as_scored(folder: Path, count: int) -> None:
    """Loaded in a fresh process from the board, moved and packed: the errors are those of the records, to the bit."""
    shutil.move(folder / "board", folder / "elsewhere")
    pack(Store(folder / "elsewhere"))
    command = [sys.executable, loaded_answers.__file__, str(folder / "elsewhere")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == count
    assert {name: same for name, same in found.items() if same is not True} == {}
