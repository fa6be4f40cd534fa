"""Green Learning: the integral written out, exact gradients in chunks, an exact Green's function recovered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from factories.tasks import make_task, numel
from pdebench_hss_models.green_learning import GREEN_LEARNING, recipe
from pdebench_hss_models.green_learning import model as module
from pdebench_hss_models.green_learning.quadrature import cell_sizes
from pdebench_hss_models.green_learning.rational import Rational, RationalFunction

from pdebench_hss import TaskInfo, load_task
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.training import loop
from pdebench_hss.training.windows import prepare


def build(task: TaskInfo, **changes):
    return GREEN_LEARNING.make(task, {**GREEN_LEARNING.hparams_for(task), **changes})


def gradients(model, f, loss=lambda u: u.square().sum()):
    model.zero_grad()
    loss(model(f)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def left_half(grid):
    mask = np.zeros(grid, dtype=bool)
    mask[: grid[0] // 2] = True
    return mask


# --- the rational activation


def test_the_rational_starts_near_relu():
    x = torch.linspace(-1, 1, 201)
    assert (Rational()(x) - x.relu()).abs().max() < 0.03


def test_the_rationals_backward_is_its_derivative():
    torch.manual_seed(0)
    rational = Rational().double()
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(RationalFunction.apply, (x, rational.numerator, rational.denominator))


# --- the integral


def test_the_output_is_the_quadrature_of_the_kernel_times_the_source():
    torch.manual_seed(0)
    task = make_task(grid=(4, 3), channels=(2, 3), domain=((0.0, 2.0), (-1.0, 1.0)))
    model = build(task).double().eval()
    f = torch.randn(1, 2, 4, 3, dtype=torch.float64)
    u = model(f)
    points, cells = model.points, cell_sizes(task).ravel()
    target = 7
    expected = torch.zeros(3, dtype=torch.float64)
    for j in range(12):
        kernel = model.green(points[target : target + 1], points[j : j + 1]).reshape(3, 2)
        expected += cells[j] * kernel @ f[0, :, j // 3, j % 3]
    assert torch.allclose(u[0, :, target // 3, target % 3], expected, rtol=1e-6)  # cells are kept in float32


def test_cells_tile_the_domain():
    assert cell_sizes(make_task(grid=(5,))).tolist() == [0.125, 0.25, 0.25, 0.25, 0.125]
    assert cell_sizes(make_task(grid=(4,), periodic=True)).tolist() == [0.25] * 4
    assert cell_sizes(make_task(grid=(4, 6), domain=((0.0, 2.0), (-1.0, 2.0)))).sum() == pytest.approx(6.0)


def test_points_outside_the_domain_neither_give_nor_get():
    task = make_task(grid=(6, 5), mask=left_half)
    model = build(task).eval()
    f = torch.randn(2, 1, 6, 5)
    changed = f.clone()
    changed[:, :, 3:] += 1.0
    u = model(f)
    assert torch.equal(u, model(changed))
    assert torch.equal(u[:, :, 3:], torch.zeros(2, 1, 3, 5))
    assert u[:, :, :3].abs().min() > 0


# --- training in chunks and by samples


def test_gradients_in_chunks_are_those_of_the_whole_sum(monkeypatch):
    torch.manual_seed(0)
    model = build(make_task(grid=(6, 5)), targets_per_step=30).double()
    f = torch.randn(2, 1, 6, 5, dtype=torch.float64)
    plain = model.integral(model.points, f.flatten(2) * model.cells).unflatten(2, (6, 5))
    plain_gradient = torch.autograd.grad(plain.square().sum(), list(model.parameters()))
    monkeypatch.setitem(module.CHUNK, "cpu", 4 * 30 * 8)  # 8 chunks of up to four targets, 30 sources, width 8
    assert len(list(model.chunks())) == 8
    assert torch.allclose(model(f), plain, rtol=1e-13)
    expected = torch.cat([g.flatten() for g in plain_gradient])
    assert torch.allclose(gradients(model, f), expected, rtol=1e-11, atol=1e-13)


def test_exact_gradients_also_reach_the_input(monkeypatch):
    monkeypatch.setitem(module.CHUNK, "cpu", 3 * 6 * 8)
    model = build(make_task(grid=(6,), channels=(2, 1)), targets_per_step=6).double().eval()
    f = torch.randn(2, 2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, f)


def test_sampled_targets_give_the_gradient_on_average(monkeypatch):
    torch.manual_seed(0)
    model = build(make_task(grid=(12,)), targets_per_step=3).double()
    f, u = torch.randn(2, 4, 1, 12, dtype=torch.float64)
    loss = lambda prediction: (prediction - u).square().mean()  # noqa: E731
    model.eval()
    exact_output, exact = model(f).detach(), gradients(model, f, loss)
    with torch.no_grad():
        model(f)  # stores all rows
    model.train()
    draws = torch.arange(12).reshape(4, 3)  # each target in one of four draws
    sampled = []
    for draw in draws:
        monkeypatch.setattr(torch, "randperm", lambda n, device, draw=draw: draw)
        assert torch.allclose(model(f), exact_output, rtol=1e-12)
        sampled.append(gradients(model, f, loss))
    assert torch.allclose(torch.stack(sampled).mean(dim=0), exact, rtol=1e-10, atol=1e-12)
    assert (sampled[0] - exact).norm() > 1e-3 * exact.norm()


def test_predictions_evaluate_the_kernel_once_and_again_after_a_change():
    model = build(make_task(grid=(10,))).eval()
    calls = []
    model.green.register_forward_hook(lambda *_: calls.append(1))
    f = torch.randn(2, 1, 10)
    with torch.no_grad():
        first = model(f)
        assert torch.equal(model(f), first)
        assert len(calls) == 1
        model.green.last.bias.add_(1.0)  # what an optimizer or load_state_dict does
        assert not torch.equal(model(f), first)
        assert len(calls) == 2
        assert model.double()(f.double()).dtype == torch.float64
        assert len(calls) == 3


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_prediction_after_fused_steps_is_another(mode):
    """Fused AdamW changes parameters without raising their version."""
    torch.manual_seed(0)
    model = getattr(build(make_task(grid=(12,)), targets_per_step=12), mode)()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    f = torch.randn(4, 1, 12)

    def predict():
        with torch.no_grad():
            return model(f)

    first = predict()
    for _ in range(5):
        gradients(model, f)
        optimizer.step()
    trained = predict()
    assert not torch.equal(trained, first)
    gradients(model, f)
    predict()  # between the gradient and the step
    optimizer.step()
    last = predict()
    assert not torch.equal(last, trained)
    assert torch.allclose(last, model(f).detach(), rtol=1e-5, atol=1e-7)


def test_a_prediction_after_sampled_training_uses_fresh_rows_everywhere():
    torch.manual_seed(0)
    model = build(make_task(grid=(12,)), targets_per_step=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    f = torch.randn(4, 1, 12)
    for _ in range(3):
        gradients(model, f)
        optimizer.step()
    model.eval()
    differentiable = model(f).detach()
    with torch.inference_mode():
        assert torch.allclose(model(f), differentiable, rtol=1e-5, atol=1e-7)
    model.train()
    gradients(model, f)  # training goes on after a prediction in inference mode


def test_the_green_function_of_the_1d_poisson_problem_is_recovered():
    """-u'' = f, u(0) = u(1) = 0: G(x, y) = min(x, y) (1 - max(x, y))."""
    torch.manual_seed(0)
    task = make_task(grid=(64,))
    x = torch.from_numpy(task.coords[0]).float()
    exact = torch.minimum(x[:, None], x) * (1 - torch.maximum(x[:, None], x))
    k = torch.arange(1, 21)[:, None]
    waves = torch.cat([torch.sin(torch.pi * k * x), torch.cos(torch.pi * k * x)])
    f = torch.randn(100, 40) @ waves
    u = f * torch.from_numpy(cell_sizes(task)).float() @ exact
    scale = f.abs().max() / u.abs().max()
    f, u = f[:, None] / f.abs().max(), u[:, None] / u.abs().max()

    model = build(task, layers=4, width=32, targets_per_step=64)
    steps = 400
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.99), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 1e-5)
    for _ in range(steps):
        gradients(model, f, lambda prediction: (prediction - u).square().mean())
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        learned = model.green(model.points, model.points)[..., 0] / scale
    error = (learned - exact).norm() / exact.norm()
    assert error < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson_2d", "poisson_2d_grf"])
def test_the_2d_setting_of_scale_small_trains(name):
    """Three quarters of the training samples, the rest held out: clearly better than their mean, which a setting with
    8 of 1,024 targets a step was not."""
    data = load_task(name, scale="small")
    recipe, pairs = data.task.size.recipe, prepare(data, torch.float32)
    train, held = (
        replace(pairs, inputs=pairs.inputs[s], outputs=pairs.outputs[s]) for s in (slice(384), slice(384, None))
    )
    torch.manual_seed(0)
    model = build(data.task)
    numbers = {"lr": recipe.lr, "lr_min": recipe.lr_min, "weight_decay": recipe.weight_decay}
    optimizer = Optimizer(recipe.batch, **{**numbers, **GREEN_LEARNING.recipe_for(data.task)})
    loop.fit(model, train, recipe.budget, optimizer, seed=0, device=torch.device("cpu"), flops_step=0.0)
    with torch.no_grad():
        wrong = (model.eval()(held.inputs) - held.outputs).norm()
    assert wrong < 0.8 * (held.outputs - train.outputs.mean(dim=0)).norm()


def test_in_2d_at_scale_small_a_step_sees_32_targets_with_a_rate_of_its_own():
    task = make_task("poisson_2d", (32, 32), "small")
    assert GREEN_LEARNING.hparams_for(task) == {"layers": 3, "width": 24, "targets_per_step": 32}
    assert recipe(task, "small") == {"lr": 1e-2}
    assert recipe(make_task("poisson_1d", (256,), "small"), "small") == {}


def test_a_sampled_step_costs_its_own_rows_alone():
    model = build(make_task(grid=(12,)), targets_per_step=3)
    rows = []
    model.green.register_forward_hook(lambda _, args, __: rows.append(len(args[0])))
    gradients(model, torch.randn(2, 1, 12))
    assert rows == [3]


# --- counts and the contract


@pytest.mark.parametrize(
    ("name", "grid", "expected"),
    [
        ("poisson_1d", (256,), 83_115),  # paper: 83K everywhere
        ("heat_1d", (256,), 83_115),
        ("poisson_1d_neumann", (256,), 83_115),
        ("poisson_2d", (64, 64), 83_371),
        ("helmholtz_2d", (64, 64), 83_371),
    ],
)
def test_parameter_counts_at_scale_paper(name, grid, expected):
    task = make_task(name, grid, "paper")
    with torch.device("meta"):
        model = build(task)
    assert numel(model) == expected
    layers, width = 6, 128
    assert expected == (2 * task.dim + 1) * width + (layers - 1) * (width + 1) * width + width + 1 + 7 * layers
    assert model.targets_per_step == len(model.points)  # the paper's gradients are exact


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize(("grid", "channels"), [((40,), (1, 1)), ((8, 12), (4, 2))])
def test_shapes_and_every_parameter_gets_a_gradient(grid, channels, mode):
    model = getattr(build(make_task(grid=grid, channels=channels)), mode)()
    y = model(torch.randn(3, channels[0], *grid))
    assert y.shape == (3, channels[1], *grid)
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_the_same_seed_gives_the_same_training():
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        model = build(make_task(grid=(40,)))
        results.append(gradients(model, torch.ones(1, 1, 40)))
    assert torch.equal(*results)


def test_the_size_knob_turns_the_size():
    sizes = [numel(build(make_task(), **{GREEN_LEARNING.size_knob: width})) for width in (4, 8, 16)]
    assert sizes == sorted(set(sizes))


def test_what_it_can_not_do_is_said():
    assert GREEN_LEARNING.unsupported(make_task(linear=False)) == "needs a linear PDE"
    assert GREEN_LEARNING.unsupported(make_task(grid=(4, 4, 4))).startswith("1D and 2D only")
    assert GREEN_LEARNING.unsupported(make_task(grid=(4, 4))) is None
