"""The Well's networks keep the contract of pdebench-hss, and `check` catches a fault they had. Install it first."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from pdebench_hss_well import MODELS
from pdebench_hss_well.library import networks

from pdebench_hss import Recipe, Scale, TaskSpec
from pdebench_hss.testing import cases

NAMES = [spec.name for spec in MODELS]
BY_NAME = {spec.name: spec for spec in MODELS}
# The quick ones, each model in every dimension that it has; `pdebench-hss check NAME` tries all tasks.
TASKS = {
    "well_unet_classic": "heat_1d,helmholtz_2d",
    "well_unet_convnext": "helmholtz_2d",
    "well_dilated_resnet": "heat_1d,helmholtz_2d",
}


@pytest.mark.parametrize("case", [case for name, tasks in TASKS.items() for case in cases(name, tasks=tasks)], ids=str)
def test_contract(case):
    case.run()


def check(folder, name: str, plugin: str, tasks: str) -> tuple[int, str]:
    """``pdebench-hss check`` as it is typed in that folder: exit code and output."""
    command = [sys.executable, "-m", "pdebench_hss", "check", name, "--plugin", plugin, "--tasks", tasks]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout


# No built-in task has a grid of several patches at scale smoke.
PATCHES = """
import numpy as np
from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

def generate(seeds, size):
    fields = np.stack([np.random.default_rng(seed).standard_normal((1, *size.grid)) for seed in seeds])
    return fields, np.roll(fields, 1, axis=-1) + fields**2

@hookimpl
def pdebench_hss_tasks():
    scale = Scale(grid=(32, 32), train=8, test=4, recipe=Recipe(steps=4, batch=4))
    settings = {"dim": 2, "in_channels": 1, "out_channels": 1, "linear": False, "generate": generate}
    return [TaskSpec(name="patches", title="", equation="", scales={"smoke": scale}, **settings)]
"""


def test_avit_keeps_the_contract(tmp_path):
    (tmp_path / "patches.py").write_text(PATCHES)
    code, output = check(tmp_path, "well_avit", "patches.py", "patches")
    assert (code, "promises kept on 1 task " in output) == (0, True), output


def task_on(grid: tuple[int, ...], train: int = 4, batch: int = 2):
    scale = Scale(grid=grid, train=train, test=1, recipe=Recipe(batch=batch, steps=1))
    settings = {"dim": len(grid), "in_channels": 3, "out_channels": 2, "linear": False, "generate": "nowhere:generate"}
    return TaskSpec(name="odd", title="", equation="", scales={"small": scale}, **settings).info("small")


@pytest.mark.parametrize("grid", [(32,), (48, 32), (32, 32, 32)])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_answers_in_every_dimension_that_it_supports(name, grid):
    spec, task = BY_NAME[name], task_on(grid)
    if reason := spec.unsupported(task):
        assert (reason, len(grid)) == ("2D and 3D only", 1)
        return
    network = spec.make(task, spec.hparams_for(task)).eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, *grid)).shape == (1, 2, *grid)


def test_networks_are_the_librarys():
    made = {spec.name: spec.make(task_on((32, 32)), spec.hparams_for(task_on((32, 32)))) for spec in MODELS}
    made["well_avit"] = made["well_avit"].net
    found = {name: (type(net).__module__, type(net).__name__) for name, net in made.items()}
    folder = "the_well.benchmark.models"
    assert found == {
        "well_unet_classic": (f"{folder}.unet_classic", "UNetClassic"),
        "well_unet_convnext": (f"{folder}.unet_convnext", "UNetConvNext"),
        "well_dilated_resnet": (f"{folder}.dilated_resnet", "DilatedResNet"),
        "well_avit": (f"{folder}.avit", "AViT"),
    }


def test_biases_that_the_library_never_adds_are_gone_and_nothing_else_changes():
    task = task_on((32, 32))
    spec = BY_NAME["well_unet_convnext"]
    ours = spec.make(task, spec.hparams_for(task))
    options = {"dim_in": 3, "dim_out": 2, "n_spatial_dims": 2, "spatial_resolution": (32, 32)}
    theirs = networks("unet_convnext").UNetConvNext(**options, stages=4, blocks_per_stage=1, init_features=3)
    report = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert len(report.missing_keys) == 8  # one for each way down and up
    assert all(name.endswith("resample.block.0.bias") for name in report.missing_keys)
    assert not report.unexpected_keys
    x = torch.randn(2, 3, 32, 32)
    theirs(x).sum().backward()
    assert torch.equal(ours(x), theirs(x))
    idle = {name for name, parameter in theirs.named_parameters() if parameter.grad is None}
    assert idle == set(report.missing_keys)


@pytest.mark.parametrize(
    ("name", "task", "reason"),
    [
        ("well_unet_classic", task_on((40, 32)), "four poolings need a grid of multiples of 16, not 40 x 32"),
        ("well_unet_classic", task_on((16, 16), train=5, batch=2), "a batch of 1 on a grid of 16 x 16 leaves one"),
        ("well_unet_classic", task_on((16,), train=1, batch=8), "batch norm needs more than one value"),
        ("well_unet_convnext", task_on((31, 32)), "its stages halve the grid, which 31 x 32 can't be"),
        ("well_avit", task_on((16, 32)), "two or more patches of 16 points along each axis, not a grid of 16 x 32"),
    ],
)
def test_pooling_batch_norm_and_patches_say_what_they_do_not_support(name, task, reason):
    assert reason in BY_NAME[name].unsupported(task)


def test_what_batch_norm_refuses_would_fail():
    """The reason is real: the network can't be trained on that batch, and can on the next larger one."""
    spec, task = BY_NAME["well_unet_classic"], task_on((16, 16), train=5, batch=2)
    network = spec.make(task, spec.hparams_for(task)).train()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        network(torch.randn(1, 3, 16, 16))
    network(torch.randn(2, 3, 16, 16))
    assert spec.unsupported(task_on((16, 16), train=6, batch=2)) is None


@pytest.mark.parametrize("spec", MODELS, ids=NAMES)
def test_every_end_of_the_search_space_can_be_built(spec):
    task = task_on((32, 32))
    default = spec.hparams_for(task)
    for name, found in spec.search_for(task).items():
        if name in default:
            for value in (found.low, found.high):
                network = spec.make(task, {**default, name: value}).eval()
                assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 2, 32, 32)


def test_the_library_is_left_as_it_was():
    """Somebody who imports the library's networks by themselves gets the library's own way, whatever was built here."""
    program = (
        "import sys, pdebench_hss_well.library as library\n"
        "library.networks('unet_convnext')\n"
        "names = ('timm', 'huggingface_hub', 'the_well.benchmark.models')\n"
        "print(sorted(name for name in sys.modules if name.startswith(names)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == "[]"


# The library's FNO as it was until its issue 64: each block is evaluated and its answer thrown away, so that the model
# trains, predicts, and counts millions of parameters that do nothing.
DROPPED = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, modes, 2) / width)
        self.skip = nn.Conv1d(width, width, 1)
        self.modes = modes

    def forward(self, x):
        found = torch.fft.rfft(x)
        kept = torch.einsum("bik,iok->bok", found[..., : self.modes], torch.view_as_complex(self.weight))
        return torch.relu(torch.fft.irfft(kept, n=x.shape[-1]) + self.skip(x))

class Net(nn.Module):
    def __init__(self, task, width=8, modes=4, layers=3):
        super().__init__()
        self.lifting = nn.Conv1d(task.in_channels, width, 1)
        self.fno_blocks = nn.ModuleList(Block(width, modes) for _ in range(layers))
        self.projection = nn.Sequential(nn.GELU(), nn.Conv1d(width, task.out_channels, 1))

    def forward(self, x):
        x = self.lifting(x)
        for block in self.fno_blocks:
            ANSWER
        return self.projection(x)
"""
SPEC = """
from pdebench_hss import ModelSpec, hookimpl

@hookimpl
def pdebench_hss_models():
    return [ModelSpec(name="NAME", title="", build="NAME_net:Net", hparams={"width": 8}, size_knob="width")]
"""


@pytest.mark.parametrize(
    ("name", "answer", "complaint"),
    [
        ("dropped", "block(x)", "every_parameter_gets_a_gradient: no gradient reaches fno_blocks.0.skip.bias"),
        (
            "late",
            "x = block(x) if self.training else x",
            "fno_blocks.0.weight and 6 more do not change a prediction",
        ),
        ("sound", "x = block(x)", ""),
    ],
)
def test_check_catches_blocks_whose_output_is_dropped(tmp_path, name, answer, complaint):
    (tmp_path / f"{name}.py").write_text(SPEC.replace("NAME", name))
    (tmp_path / f"{name}_net.py").write_text(DROPPED.replace("ANSWER", answer))
    code, output = check(tmp_path, name, f"{name}.py", "poisson_1d")
    broken = [line for line in output.splitlines() if "every_parameter" in line]
    assert (code, bool(broken)) == ((1, True) if complaint else (0, False)), output
    assert complaint in " ".join(" ".join(broken).split())
