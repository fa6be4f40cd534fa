"""Neural-HSS as a model: the paper's counts, every shape of task, gradients everywhere, its spec."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from factories.tasks import make_task, numel
from pdebench_hss_models.neural_hss import pdebench_hss_models
from pdebench_hss_models.neural_hss.hparams import PAPER
from pdebench_hss_models.neural_hss.lift import CPMap, field_map
from pdebench_hss_models.neural_hss.model import NeuralHSS
from torch import nn

from pdebench_hss import TaskInfo

SPEC = next(spec for spec in pdebench_hss_models() if spec.name == "neural_hss")


def build(task: TaskInfo, **changes) -> NeuralHSS:
    """With random numbers everywhere: tests/models/test_neural_hss_start.py is about the zeros it starts with."""
    return SPEC.make(task, {**SPEC.hparams_for(task), "init": "normal", **changes})


PAPER_TASKS = {
    "poisson_1d": ((256,), (1, 1), 28_272 + 3),
    "poisson_1d_neumann": ((256,), (1, 1), 37_696 + 3),
    "heat_1d": ((256,), (1, 1), 47_120 + 3),
    "burgers_1d": ((256,), (1, 1), 1_523_712 + 4),
    "poisson_2d": ((64, 64), (1, 1), 38_144 + 1),
    "helmholtz_2d": ((64, 64), (1, 1), 38_144 + 1),
    "navier_stokes_forward": ((128, 128), (1, 1), 303_104 + 2),
    "gray_scott_inverse": ((128, 128), (4, 2), 368_640 + 2 * 2 * 128 + 2),
    "poisson_3d": ((128, 128, 128), (1, 1), 32_640 + 1),
}


@pytest.mark.parametrize("name", PAPER_TASKS)
def test_counts_at_scale_paper_without_allocating(name: str) -> None:
    """Each is the notes' reading of the paper's table plus one slope per layer."""
    grid, channels, expected = PAPER_TASKS[name]
    with torch.device("meta"):
        model = build(make_task(name, grid, "paper", channels=channels))
    assert numel(model) == expected
    assert all(p.is_meta for p in model.parameters())


def test_the_literal_reading_of_the_2d_tables_is_a_matter_of_options() -> None:
    literal = {"layers": 3, "lift": "none", "projection": "none"}
    with torch.device("meta"):
        poisson = build(make_task("poisson_2d", (64, 64), scale="paper"), **literal)
        flow = build(make_task("navier_stokes_inverse", (128, 128), scale="paper"), layers=3)
    assert numel(poisson) == 65_280 + 3
    assert numel(flow) == 421_888 + 3


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("channels", [(1, 1), (3, 2)])
@pytest.mark.parametrize("grid", [(16,), (37,), (3,), (16, 16), (17, 10), (64, 6), (8, 8, 8), (7, 9, 4), (4, 4, 4, 4)])
def test_unknown_tasks_of_any_size_run_and_every_parameter_gets_a_gradient(grid, channels, linear) -> None:
    torch.manual_seed(0)
    model = build(make_task(grid=grid, channels=channels, linear=linear))
    y = model(torch.randn(2, channels[0], *grid))
    assert y.shape == (2, channels[1], *grid)
    y.square().sum().backward()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not dead


@pytest.mark.parametrize("kind", ["hss", "dense", "cp"])
def test_every_kind_of_lift_and_projection_changes_grid_and_channels(kind: str) -> None:
    torch.manual_seed(0)
    for grid, channels, embed in [((12,), (2, 3), 20), ((8, 10), (3, 1), 12), ((6, 5, 4), (1, 2), 8)]:
        model = build(make_task(grid=grid, channels=channels), lift=kind, projection=kind, embed=embed)
        assert model(torch.randn(2, channels[0], *grid)).shape == (2, channels[1], *grid)


def test_no_lift_and_no_projection_are_the_layers_alone() -> None:
    model = build(make_task(grid=(32,)), lift="none", projection="none", layers=2).double()
    x = torch.randn(3, 1, 32, dtype=torch.float64)
    assert torch.equal(model(x)[:, 0], model.layers(x[:, 0]))
    assert model.layers.active == (True, True)


def test_without_channels_to_map_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'none' can't map 2 channel\(s\) on \(16,\) to 1 on \(16,\)"):
        build(make_task(channels=(2, 1)), lift="none")
    with pytest.raises(ValueError, match=r"to 1 on \(32,\)"):
        build(make_task(), lift="none", embed=32)
    with pytest.raises(ValueError, match="'sparse' is not one of none, hss, dense, cp"):
        build(make_task(), lift="sparse")


def test_cp_map_is_the_low_rank_tensor_of_the_appendix() -> None:
    torch.manual_seed(0)
    cp = CPMap((2, 3), ((4, 5), (6, 7)), rank=3).double()
    w = torch.zeros(3, 6, 7, 2, 4, 5, dtype=torch.float64)
    for i in range(3):
        factors = [*(u[i] for u in cp.u), *(v[i] for v in cp.v)]
        w += cp.c[i] * torch.einsum("a,b,c,d,e,f->abcdef", *factors)
    x = torch.randn(2, 2, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(cp(x), torch.einsum("abcdef,ndef->nabc", w, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["hss", "dense", "cp"])
def test_maps_are_linear_and_mix_all_channels(kind: str) -> None:
    torch.manual_seed(0)
    tree = {"levels": 1, "rank": 2, "outer_rank": 2, "cp_rank": 4, "way": "auto"}
    m = field_map(kind, (2, 2), ((8, 6), (6, 8)), **tree).double()
    x, y = torch.randn(2, 1, 2, 8, 6, dtype=torch.float64)
    torch.testing.assert_close(m(2 * x - y), 2 * m(x) - m(y))
    x.requires_grad_()
    for channel in range(2):
        (gradient,) = torch.autograd.grad(m(x)[:, channel].sum(), x)
        assert (gradient.flatten(2).abs().sum(-1) > 0).all()


def test_scalar_channels_enter_as_their_mean_times_a_rank_one_field() -> None:
    torch.manual_seed(0)
    model = build(make_task("gray_scott_forward", (16, 16), channels=(4, 2), linear=False)).double()
    assert model.scalars.count == 2
    with torch.no_grad():
        for axis in model.scalars.axes:
            axis.normal_()
    a, b = model.scalars.axes
    values = torch.tensor([[0.3, -1.2]], dtype=torch.float64)
    x = values[:, :, None, None].expand(1, 2, 16, 16)
    expected = sum(values[0, c] * torch.outer(a[c], b[c]) for c in range(2))
    torch.testing.assert_close(model.scalars(x)[0, 0], expected)


def test_scalars_must_leave_a_field() -> None:
    with pytest.raises(ValueError, match="scalars=2 must be at least 0 and leave a field among the 2"):
        build(make_task(channels=(2, 1)), scalars=2)


@pytest.mark.parametrize("grid", [(64,), (16, 16), (8, 8, 8)])
def test_rank_turns_the_size(grid) -> None:
    sizes = [numel(build(make_task(grid=grid), rank=r)) for r in (1, 2, 4, 8)]
    assert sizes == sorted(set(sizes))


def test_the_output_has_the_size_of_the_input_at_the_start() -> None:
    """Whatever the dimension and the outer rank, a fresh model neither explodes nor vanishes."""
    torch.manual_seed(0)
    for grid in [(256,), (64, 64), (24, 24, 24)]:
        for linear in (True, False):
            y = build(make_task(grid=grid, linear=linear))(torch.randn(4, 1, *grid))
            assert 0.003 < y.std().item() < 3


def test_same_seed_same_weights_same_answer_in_both_precisions() -> None:
    def run(dtype: torch.dtype) -> torch.Tensor:
        torch.manual_seed(3)
        model = build(make_task(grid=(24, 24))).to(dtype)
        return model(torch.linspace(-1, 1, 2 * 24 * 24).reshape(2, 1, 24, 24).to(dtype)).detach()

    assert torch.equal(run(torch.float32), run(torch.float32))
    torch.testing.assert_close(run(torch.float64).float(), run(torch.float32), rtol=1e-4, atol=1e-5)


def test_state_dict_round_trips() -> None:
    first, second = build(make_task(grid=(20, 12))), build(make_task(grid=(20, 12)))
    second.load_state_dict(first.state_dict())
    x = torch.randn(2, 1, 20, 12)
    assert torch.equal(first(x), second(x))


def test_a_few_steps_of_training_lower_the_loss() -> None:
    torch.manual_seed(0)
    model = build(make_task(grid=(64,)))
    x = torch.randn(32, 1, 64)
    y = x.cumsum(-1) / math.sqrt(64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(60):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_every_paper_row_names_every_hyper_parameter() -> None:
    for name, row in PAPER.items():
        task = make_task(name, (16,) * {"1": 1, "2": 2, "3": 3}.get(name[-2:-1], 2))
        values = SPEC.hparams_for(task)
        assert set(row) <= set(values)
        assert SPEC.size_knob in values


def test_the_3d_experiment_has_the_papers_own_rates() -> None:
    task = make_task("poisson_3d", (128,) * 3, scale="paper")
    assert SPEC.recipe_for(task) == {"lr": 5e-3, "lr_min": 1e-3, "weight_decay": 0.0}
    assert SPEC.recipe_for(make_task("poisson_3d", (16,) * 3)) == {}


def test_importing_the_plugin_imports_no_torch() -> None:
    code = "import sys, pdebench_hss_models.neural_hss as m; m.pdebench_hss_models(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
