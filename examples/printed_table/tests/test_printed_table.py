"""The table stands beside ours. Install the package first."""

from __future__ import annotations

import pandas as pd
import pytest
from printed_table import TABLE

import pdebench_hss


def test_a_board_with_one_of_its_tasks_has_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "cache"))
    board = tmp_path / "board"
    pdebench_hss.run(models="mean", tasks="poisson_1d", scale="smoke", executor="inline", out=str(board))
    table = pd.read_csv(board / f"{TABLE.name}.csv").set_index("task")
    ours = pdebench_hss.leaderboard(board).set_index("model").loc["mean", "test_err_mean"]
    row = table.loc["poisson_1d"]
    assert list(table.index) == [row.task for row in TABLE.rows]
    assert (row["mean_test_err"], row["mean_paper_test_err"]) == (ours, 0.5)
    assert row["mean_ratio"] == pytest.approx(ours / 0.5)
    assert row["linear_paper_params"] == 4100
    assert table.loc["pdebench_darcy", ["mean_test_err", "mean_ratio"]].isna().all()  # not run
    text = (board / f"{TABLE.name}.md").read_text()
    assert "Nobody's table of steady problems, ours and published" in text
    assert "Not run: pdebench_darcy." in text
    assert (board / f"{TABLE.name}.tex").exists()
