"""Two stages within one budget: nothing is overspent, and L-BFGS gets its share where it is of use."""

from __future__ import annotations

import pytest

from pdebench_hss import run
from pdebench_hss.testing import cases


@pytest.mark.parametrize("case", cases("cnn_two_stage", tasks="poisson_1d"), ids=str)
def test_contract(case):
    case.run()


@pytest.mark.parametrize("budget", ["steps=60", "epochs=20", "flops=20M"])
def test_it_keeps_to_its_budget_and_lbfgs_goes_further_than_adam(tmp_path, monkeypatch, budget):
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "cache"))
    models = "cnn_two_stage,cnn_two_stage[adam_share=1.0]"
    board = run(models, "poisson_1d", scale="smoke", budget=budget, executor="inline", out=tmp_path / "board")
    results = board.results
    assert list(results["status"]) == ["ok", "ok"]
    assert set(results["training"]) == {"trains itself"}
    two, adam = results["fit_flops"]
    assert two <= 1.05 * adam
    assert results["test_err"].iloc[0] != results["test_err"].iloc[1]
