"""`pdebench_hss.testing` passes a good model and catches the mistakes that published code has made."""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys

import h5py
import pytest
import torch
from factories.tasks import make_spec
from torch import nn

from pdebench_hss import ModelSpec, TaskSpec
from pdebench_hss.base.errors import ContractError
from pdebench_hss.data import cache as data
from pdebench_hss.testing import Case, promises
from pdebench_hss.testing.watching import watch


def make_task() -> TaskSpec:
    def generate(seeds, size):
        fields = [torch.randn(2, *size.grid, generator=torch.Generator().manual_seed(seed % 2**31)) for seed in seeds]
        x = torch.stack(fields).double().numpy()
        return x, x[:, :1] + x[:, 1:]

    return make_spec("sum_1d", channels=(2, 1), generate=generate)


TASK = make_task()


class Good(nn.Module):
    """A perceptron on the whole field."""

    def __init__(self, task, width=32):
        super().__init__()
        points = task.grid[0]
        self.first = nn.Linear(task.in_channels * points, width)
        self.last = nn.Linear(width, task.out_channels * points)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x.flatten(1)))).unflatten(1, (1, -1))


def starting_at_zero(network: type[Good]) -> type[Good]:
    """The same with a last layer of zeros, so that every input has the same answer at first."""

    class StartsAtZero(network):
        def __init__(self, task, width=32):
            super().__init__(task, width)
            nn.init.zeros_(self.last.weight)
            nn.init.zeros_(self.last.bias)

    return StartsAtZero


class UnusedBlock(Good):
    def __init__(self, task, width=32):
        super().__init__(task, width)
        self.block = nn.Linear(width, width)

    def forward(self, x):
        self.block(torch.tanh(self.first(x.flatten(1))))
        return super().forward(x)


class LeavesABlockOutInEvaluation(Good):
    def __init__(self, task, width=32):
        super().__init__(task, width)
        self.block = nn.Linear(task.grid[0], task.grid[0])

    def forward(self, x):
        y = super().forward(x)
        return y + self.block(y) if self.training else y


class MultipliedAway(Good):
    def __init__(self, task, width=32):
        super().__init__(task, width)
        self.extra = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return super().forward(x) + 0.0 * self.extra


class Frozen(Good):
    """Its first layer is cut off from the gradient."""

    def forward(self, x):
        return self.last(torch.tanh(self.first(x.flatten(1))).detach()).unflatten(1, (1, -1))


class IgnoresInput(Good):
    def forward(self, x):
        return super().forward(torch.ones_like(x))


class MixesSamples(Good):
    def forward(self, x):
        return super().forward(x) - super().forward(x).mean(dim=0, keepdim=True)


class Random(Good):
    def forward(self, x):
        return super().forward(x) + 0.1 * torch.randn(x.shape[0], 1, x.shape[-1])


class ForgetsState(Good):
    """A random tensor that it needs is not in its state dict."""

    def __init__(self, task, width=32):
        super().__init__(task, width)
        self.shift = torch.randn(1)

    def forward(self, x):
        return super().forward(x) + self.shift


class StaysSingle(Good):
    def forward(self, x):
        return super().forward(x).float()


class HidesParameters(Good):
    def __init__(self, task, width=32):
        super().__init__(task, width)
        self.hidden = [nn.Parameter(torch.ones(1))]

    def forward(self, x):
        return super().forward(x) * self.hidden[0]


class FixedSize(Good):
    def __init__(self, task, width=32):
        super().__init__(task, 32)


class WrongShape(Good):
    def forward(self, x):
        return super().forward(x)[..., :-1]


class CannotLearn(Good):
    def forward(self, x):
        return super().forward(x) * 1e-4


class ChangesItsInput(Good):
    def forward(self, x):
        x -= x.mean()
        return super().forward(x)


class ReadsFrames(Good):
    def forward(self, x):
        sys._getframe(1).f_locals.get("samples")
        return super().forward(x)


class InspectsTheStack(Good):
    def forward(self, x):
        inspect.stack()
        return super().forward(x)


class RaisesToSeeFrames(Good):
    """Frames by way of an exception, without asking `sys`."""

    def forward(self, x):
        try:
            raise ValueError
        except ValueError as error:
            error.__traceback__.tb_frame.f_back.f_locals.get("samples")
        return super().forward(x)


class ScansGarbage(Good):
    def forward(self, x):
        [thing for thing in gc.get_objects() if type(thing).__name__ == "Split"]
        return super().forward(x)


class ListsTheCache(Good):
    def forward(self, x):
        list(data.data_dir().glob("*.h5"))
        return super().forward(x)


class OpensTheCache(Good):
    def forward(self, x):
        with contextlib.suppress(OSError), h5py.File(data.data_dir() / "sum_1d.h5", "r") as file:
            file["test/outputs"][:]
        return super().forward(x)


class FitsInPlace:
    def __init__(self, task, width=32):
        self.grid = task.grid

    def fit(self, train):
        train.outputs.sub_(train.outputs.mean())

    def __call__(self, x):
        return x[:, :1]


class SolvesInPlace:
    def __init__(self, task, width=32):
        pass

    def solve(self, inputs):
        inputs[:, 0] += inputs[:, 1]
        return inputs[:, :1]


def broken_promises(network: type[nn.Module]) -> set[str]:
    spec = ModelSpec(name="subject", title="", build=network, hparams={"width": 32}, size_knob="width")
    asked = [*promises.TRAINED, promises.size_knob_changes_the_size, promises.learns_four_samples]
    broken = set()
    for promise in asked:
        try:
            Case(spec, TASK, promise).run()
        except (ContractError, RuntimeError, ValueError):
            broken.add(promise.__name__)
    return broken


@pytest.mark.parametrize("network", [Good, starting_at_zero(Good)])
def test_a_good_model_keeps_every_promise(network):
    assert broken_promises(network) == set()


@pytest.mark.parametrize(
    ("network", "promise"),
    [
        (UnusedBlock, "every_parameter_gets_a_gradient"),
        (LeavesABlockOutInEvaluation, "every_parameter_has_a_part_in_the_prediction"),
        (MultipliedAway, "every_parameter_gets_a_gradient"),
        (Frozen, "every_parameter_gets_a_gradient"),
        (IgnoresInput, "output_depends_on_the_input"),
        (starting_at_zero(IgnoresInput), "output_depends_on_the_input"),
        (MixesSamples, "samples_do_not_mix"),
        (starting_at_zero(MixesSamples), "samples_do_not_mix"),
        (Random, "deterministic_under_a_seed"),
        (ForgetsState, "state_dict_round_trips"),
        (StaysSingle, "moves_dtype_and_device"),
        (HidesParameters, "honest_parameter_count"),
        (FixedSize, "size_knob_changes_the_size"),
        (WrongShape, "shapes"),
        (CannotLearn, "learns_four_samples"),
    ],
)
def test_a_mistake_is_caught_by_the_promise_it_breaks(network, promise):
    assert promise in broken_promises(network)


class WeighsItsTerms(Good):
    """A parameter of its own loss, which no prediction needs."""

    def __init__(self, task, width=32):
        super().__init__(task, width)
        self.weight = nn.Parameter(torch.zeros(1))

    def loss(self, prediction, target, batch):
        return (prediction - target).square().mean() * self.weight.exp().squeeze() - self.weight.squeeze()


def test_a_loss_may_have_parameters_that_no_prediction_needs():
    assert broken_promises(WeighsItsTerms) == set()


@pytest.mark.parametrize(
    ("network", "promise", "words"),
    [
        (ChangesItsInput, promises.leaves_its_inputs_alone, "training changes its input in place"),
        (FitsInPlace, promises.leaves_its_inputs_alone, "fit changes its input in place"),
        (SolvesInPlace, promises.leaves_its_inputs_alone, "solve changes its input in place"),
        (ReadsFrames, promises.looks_at_nothing_else, r"in training it reads the stack frames .* test_contract_suite"),
        (InspectsTheStack, promises.looks_at_nothing_else, r"it reads the stack frames .*, at test_contract_suite.py:"),
        (RaisesToSeeFrames, promises.looks_at_nothing_else, "it reads the stack frames of its callers"),
        (ScansGarbage, promises.looks_at_nothing_else, r"it reads what the garbage collector knows \(gc\)"),
        (ListsTheCache, promises.looks_at_nothing_else, "it lists data in the data cache"),
        (OpensTheCache, promises.looks_at_nothing_else, "it opens sum_1d.h5 in the data cache"),
    ],
)
def test_a_model_that_reaches_beyond_its_inputs_is_named(network, promise, words, cache):
    (cache / "data").mkdir(parents=True)
    spec = ModelSpec(name="subject", title="", build=network, hparams={"width": 32})
    assert promise in (*promises.TRAINED, *promises.UNTRAINED)
    with pytest.raises(ContractError, match=words):
        Case(spec, TASK, promise).run()


def test_what_is_not_watched_may_read_what_it_likes():
    with watch() as acts:
        sys._getframe()
    assert len(acts) == 1
    sys._getframe()
    gc.get_objects()
    assert len(acts) == 1


def test_the_command_names_the_promise_and_the_parameter(cli, tmp_path):
    (tmp_path / "bad.py").write_text(
        "from pdebench_hss import ModelSpec, hookimpl\n"
        "@hookimpl\ndef pdebench_hss_models():\n"
        "    return [ModelSpec(name='bad', title='Bad', build='bad_net:Net')]\n"
    )
    (tmp_path / "bad_net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, task):\n"
        "        super().__init__()\n"
        "        self.used, self.idle = nn.Conv1d(1, 1, 1), nn.Conv1d(1, 1, 1)\n"
        "    def forward(self, x):\n"
        "        return self.used(x)\n"
    )
    done = cli("check", "bad", "--plugin", "bad.py", "--tasks", "poisson_1d")
    assert done.code == 1
    assert "every_parameter_gets_a_gradient: no gradient reaches idle.bias, idle.weight" in done.out
