"""neuraloperator's networks keep the contract of pdebench-hss. Install the package first."""

from __future__ import annotations

import neuralop
import pytest
import torch
from pdebench_hss_neuralop import MODELS
from pdebench_hss_neuralop.networks import SingleSpectralConv

from pdebench_hss import Recipe, Scale, TaskSpec
from pdebench_hss.testing import cases

TASKS = "heat_1d,helmholtz_2d"  # the quick ones; `pdebench-hss check neuralop_fno` tries all tasks
NAMES = [spec.name for spec in MODELS]


@pytest.mark.parametrize("case", [case for name in NAMES for case in cases(name, tasks=TASKS)], ids=str)
def test_contract(case):
    case.run()


def task_on(grid: tuple[int, ...], periodic: bool = False):
    scale = Scale(grid=grid, train=1, test=1, recipe=Recipe(batch=1, steps=1))
    settings = {"dim": len(grid), "in_channels": 3, "out_channels": 2, "linear": False, "generate": "nowhere:generate"}
    spec = TaskSpec(name="odd", title="", equation="", scales={"small": scale}, periodic=periodic, **settings)
    return spec.info("small")


@pytest.mark.parametrize("spec", MODELS, ids=NAMES)
@pytest.mark.parametrize("grid", [(32,), (16, 16), (8, 8, 8)])
def test_networks_are_the_librarys_in_every_dimension(spec, grid):
    task = task_on(grid)
    network = spec.make(task, spec.hparams_for(task))
    assert type(network.net) is getattr(neuralop.models, spec.title.split()[0])
    assert network(torch.zeros(1, 3, *grid)).shape == (1, 2, *grid)
    assert any(isinstance(module, SingleSpectralConv) for module in network.modules())


@pytest.mark.parametrize("spec", MODELS, ids=NAMES)
def test_what_it_leaves_is_tensors_and_loads_again(spec):
    task = task_on((16, 16))
    first, second = (spec.make(task, spec.hparams_for(task)) for _ in range(2))
    state = first.state_dict()
    assert all(torch.is_tensor(value) for value in state.values())
    second.load_state_dict(state)
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(first(x), second(x))


def test_the_convolution_is_the_librarys_in_single_precision():
    torch.manual_seed(0)
    ours = SingleSpectralConv(3, 4, (6, 6))
    theirs = neuralop.layers.spectral_convolution.SpectralConv(3, 4, (6, 6))
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(ours(x), theirs(x))
    assert ours(x.double()).dtype == torch.float64


@pytest.mark.parametrize("spec", MODELS, ids=NAMES)
@pytest.mark.parametrize("periodic", [False, True])
def test_every_end_of_the_search_space_can_be_built(spec, periodic):
    task = task_on((16, 16), periodic)
    default = spec.hparams_for(task)
    for name, found in spec.search_for(task).items():
        if name in default:
            for value in getattr(found, "values", None) or (found.low, found.high):
                network = spec.make(task, {**default, name: value})
                assert network(torch.zeros(1, 3, 16, 16)).shape == (1, 2, 16, 16)
