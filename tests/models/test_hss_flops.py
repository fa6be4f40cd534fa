"""What a step of Neural-HSS is charged with does not depend on how it is executed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.neural_hss.apply.ways import WAYS
from pdebench_hss_models.neural_hss.model import NeuralHSS
from pdebench_hss_models.neural_hss.triton import layer as triton_layer

from pdebench_hss.training import flops
from pdebench_hss.training.counting import counting
from pdebench_hss.training.loop import count_step_flops
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.windows import TrainSet


def step_flops(way: str, grid: tuple[int, ...], terms: int, batch: int = 9) -> float:
    task, one = make_task(grid=grid), Affine(np.zeros(1), np.ones(1))
    train = TrainSet(torch.randn(batch, 1, *grid), torch.randn(batch, 1, *grid), Normalizer(one, one), task)
    return count_step_flops(NeuralHSS(task, levels=2, rank=2, layers=2, outer_rank=terms, way=way), train, batch)


@pytest.mark.parametrize(("grid", "terms"), [((64,), 1), ((64,), 2), ((16, 20), 3), ((8, 8, 8), 2)], ids=str)
def test_a_step_costs_the_same_whichever_way_it_is_executed(monkeypatch, grid, terms):
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    counts = {way: step_flops(way, grid, terms) for way in WAYS}
    assert counts["tree"] > 0
    assert set(counts.values()) == {counts["tree"]}, counts


def test_what_is_executed_can_be_counted_too_and_is_the_models_own_way():
    x = torch.randn(4, 1, 64)
    models = {way: NeuralHSS(make_task(grid=(64,)), levels=2, rank=2, way=way) for way in ("tree", "dense")}
    executed = {way: flops.count(lambda m=model: m(x)) for way, model in models.items()}
    charged = {way: flops.count_step(lambda m=model: m(x)) for way, model in models.items()}
    assert executed["dense"] > executed["tree"] == charged["tree"] == charged["dense"]


def test_counting_ends_also_when_the_model_fails():
    seen = []

    def fail() -> None:
        seen.append(counting())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        flops.count_step(fail)
    assert seen == [True]
    assert not counting()
