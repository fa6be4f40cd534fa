"""The contract of the whole: every installed model on every installed task, through the real runner."""

from __future__ import annotations

import pandas as pd
import pytest

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
