"""The U-Net keeps the contract of pdebench-hss, on grids of any size. Install the package first."""

from __future__ import annotations

import pytest
import torch
from pdebench_unet.model import UNet

from pdebench_hss import Recipe, Scale, TaskSpec
from pdebench_hss.testing import cases

TASKS = "heat_1d,helmholtz_2d"  # the quick ones; `pdebench-hss check unet` tries all tasks


@pytest.mark.parametrize("case", cases("unet", tasks=TASKS), ids=str)
def test_contract(case):
    case.run()


@pytest.mark.parametrize("grid", [(13,), (13, 22), (7, 9, 10)])
def test_grids_need_not_be_powers_of_two(grid):
    scale = Scale(grid=grid, train=1, test=1, recipe=Recipe(batch=1, steps=1))
    settings = {"dim": len(grid), "in_channels": 3, "out_channels": 2, "linear": False, "generate": "nowhere:generate"}
    task = TaskSpec(name="odd", title="", equation="", scales={"smoke": scale}, **settings).info("smoke")
    assert UNet(task, width=4, levels=2)(torch.zeros(1, 3, *grid)).shape == (1, 2, *grid)
