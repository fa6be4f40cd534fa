"""The metric is recorded and ranked by, like the built-in ones. Install the package first."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_energy.energy import energy_error

import pdebench_hss


def test_a_field_that_is_a_tenth_too_large_has_a_fifth_too_much_energy():
    target = np.random.default_rng(0).normal(size=(3, 2, 16))
    setting = pdebench_hss.Setting("box", 1, (16,), target[:, :1], np.linspace(0, 1, 16)[None], (1 / 15,))
    np.testing.assert_allclose(energy_error(1.1 * target, target, setting), 1.1**2 - 1)
    assert np.isnan(energy_error(target, 0 * target, setting)).all()


def test_a_run_records_it_and_a_leaderboard_ranks_by_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "cache"))
    board = tmp_path / "board"
    results = pdebench_hss.run(
        models="mean,linear", tasks="poisson_1d", scale="smoke", executor="inline", out=str(board)
    ).results
    table = pdebench_hss.leaderboard(board, metric="energy_error").set_index("model")
    for _, trial in results.iterrows():
        assert table.loc[trial["model"], "test_err_mean"] == pytest.approx(trial["energy_error"])
    assert table["rank"].notna().all()
