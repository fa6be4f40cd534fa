"""Muon's matrices are nearly orthogonal, it trains, and the network keeps the contract."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from pdebench_muon.model import MixerMuon
from pdebench_muon.muon import Muon, orthogonalised
from torch import nn

from pdebench_hss import load_task, run
from pdebench_hss.testing import cases


@pytest.mark.parametrize("case", cases("mixer_muon", tasks="poisson_1d"), ids=str)
def test_contract(case):
    case.run()


@pytest.mark.parametrize("shape", [(8, 8), (5, 20), (20, 5)])
def test_singular_values_come_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=torch.float64)
    found = orthogonalised(matrix)
    u, _, vt = torch.linalg.svd(matrix, full_matrices=False)
    values = torch.diagonal(u.T @ found @ vt.T)
    assert values.min() > 0.6
    assert values.max() < 1.3
    torch.testing.assert_close(found, u @ torch.diag(values) @ vt, rtol=0, atol=1e-10)


def test_it_goes_on_where_its_state_was_saved():
    def one_more(net: nn.Module, muon: Muon) -> None:
        muon.zero_grad()
        (net(torch.ones(2, 4)) - 1).square().mean().backward()
        muon.step()

    torch.manual_seed(1)
    whole = nn.Linear(4, 4)
    optimizer = Muon(whole.parameters())
    one_more(whole, optimizer)
    copy = nn.Linear(4, 4)
    copy.load_state_dict(whole.state_dict())
    other = Muon(copy.parameters())
    other.load_state_dict(deepcopy(optimizer.state_dict()))
    for net, muon in ((whole, optimizer), (copy, other)):
        one_more(net, muon)
    assert torch.equal(whole.weight, copy.weight)
    assert torch.equal(whole.bias, copy.bias)


def test_matrices_take_the_orthogonal_step_and_biases_adam_s(tmp_path, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "cache"))
    model = MixerMuon(load_task("poisson_1d", scale="smoke").task, width=4, blocks=1)
    groups = Muon(model.parameters()).param_groups
    assert {p.ndim for p in groups[0]["params"]} == {2}
    assert {p.ndim for p in groups[1]["params"]} == {1}
    results = run("mixer_muon", "poisson_1d", scale="smoke", executor="inline", out=tmp_path / "board").results
    assert results["status"].item() == "ok"
    assert results["training"].item() == "own optimiser"
