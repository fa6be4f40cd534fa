"""The network keeps the contract, and its loss is the relative error that its docstring states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pdebench_relative_l2.model import DilatedRelativeL2

from pdebench_hss import Batch, load_task, prepare
from pdebench_hss.testing import cases


@pytest.mark.parametrize("case", cases("dilated_l2", tasks="helmholtz_2d"), ids=str)
def test_contract(case):
    case.run()


def test_the_loss_is_the_mean_relative_error_in_physical_units():
    data = load_task("poisson_1d", scale="smoke")
    train = prepare(data, torch.float64)
    model = DilatedRelativeL2(data.task, width=4, blocks=1).double()
    prediction = model(train.inputs)
    loss = model.loss(prediction, train.outputs, Batch(train.inputs, data.task, train.normalizer))
    physical = train.normalizer.outputs.restore(prediction.detach().numpy())
    errors = [np.linalg.norm(p - y) / np.linalg.norm(y) for p, y in zip(physical, data.train.outputs)]
    assert loss.item() == pytest.approx(np.mean(errors), rel=1e-10)
