"""Both ways to compute an FNO are one function with one gradient; the choice follows from sizes and costs no FLOPs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.fno import FNO as SPEC
from pdebench_hss_models.fno.model import FNO, Pointwise, SpectralConvolution
from pdebench_hss_models.fno.truncated import fourier_layer
from pdebench_hss_models.fno.ways import WAYS, way_taken
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss.training import flops
from pdebench_hss.training.loop import count_step_flops
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.windows import TrainSet

CPU = torch.device("cpu")
ROUNDING = {torch.float32: 5e-6, torch.float64: 1e-14}
GRIDS = [
    # grid, modes: odd and even, rectangles, from a single mode to Nyquist's limit
    ((16,), 3),
    ((16,), 8),
    ((17,), 8),
    ((9, 12), 1),
    ((16, 24), 8),
    ((15, 18), 7),
    ((24, 11), 4),
    ((8, 6, 9), 3),
    ((7, 8, 8), 2),
    ((6, 4, 6, 5), 2),
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def network(way: str, grid=(16, 12), layers=3, width=5, modes=4, channels=(2, 3)) -> FNO:
    return FNO(make_task(grid=grid, channels=channels), layers, width, modes, way=way)


def twins(**sizes) -> tuple[FNO, FNO]:
    """The same weights in both ways."""
    plain, ours = network("fft", **sizes), network("dft", **sizes)
    ours.load_state_dict(plain.state_dict())
    return plain, ours


def assert_equal_to_rounding(ours, expected, dtype=torch.float32) -> None:
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert (one - other).norm() <= ROUNDING[dtype] * other.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("activate", [True, False], ids=["gelu", "linear"])
@pytest.mark.parametrize(("grid", "modes"), GRIDS, ids=str)
def test_a_layer_and_its_gradients_are_those_of_torchs_ffts(grid, modes, activate, dtype):
    spectral, bypass = SpectralConvolution(len(grid), 4, modes).to(dtype), Pointwise(4, 4).to(dtype)
    v = torch.randn(3, 4, *grid, dtype=dtype, requires_grad=True)
    expected = spectral(v) + bypass(v)
    expected = F.gelu(expected) if activate else expected
    y = fourier_layer(v, spectral.weight, bypass.weight[..., 0], bypass.bias, activate)
    wanted, g = [v, spectral.weight, bypass.weight, bypass.bias], torch.randn_like(y)
    assert_equal_to_rounding(
        [y, *torch.autograd.grad(y, wanted, g)], [expected, *torch.autograd.grad(expected, wanted, g)], dtype
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("grid", "modes"), GRIDS, ids=str)
def test_the_network_and_its_gradients_are_those_of_torchs_ffts(grid, modes, layers, dtype):
    plain, ours = (m.to(dtype) for m in twins(grid=grid, modes=modes, layers=layers))
    u = torch.randn(3, 2, *grid, dtype=dtype, requires_grad=True)
    g = torch.randn(3, 3, *grid, dtype=dtype)
    found = []
    for model in (ours, plain):
        y = model(u)
        found.append([y, *torch.autograd.grad(y, [u, *model.parameters()], g)])
    assert_equal_to_rounding(*found, dtype)


def test_fields_and_gradients_may_lie_in_memory_in_any_order():
    plain, ours = twins()
    u = torch.randn(16, 12, 2, 3).permute(3, 2, 0, 1)  # (3, 2, 16, 12), the batch innermost
    found = []
    for model in (ours, plain):
        model(u).sum().backward()  # a gradient of one number, shown as a field
        found.append([p.grad for p in model.parameters()])
    assert_equal_to_rounding(*found)


@pytest.mark.parametrize("evaluate", [torch.no_grad, torch.inference_mode])
def test_a_prediction_before_training_changes_nothing(evaluate):
    model = network("dft", grid=(10, 14))  # a grid of its own: its transform is made while predicting
    u = torch.randn(2, 2, 10, 14)
    with evaluate():
        before = model(u)
    after = model(u)
    assert torch.equal(before, after)
    after.square().mean().backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())


def test_training_goes_the_same_way_to_rounding_and_so_does_a_copy():
    plain, ours = twins()
    u, target = torch.randn(4, 2, 16, 12), torch.randn(4, 3, 16, 12)
    losses = []
    for model in (plain, ours, copy.deepcopy(ours)):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(model(u), target)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[1] == losses[2]


def test_weights_are_drawn_and_named_as_ever_whichever_way():
    width, modes = 5, 4
    torch.manual_seed(7)
    expected = {}

    def pointwise(name: str, inputs: int, outputs: int, bias: bool = True) -> None:
        for part, value in nn.Conv1d(inputs, outputs, 1, bias=bias).named_parameters():
            expected[f"{name}.{part}"] = value

    pointwise("lift", 2, width)
    pointwise("lift_coords", 2, width, bias=False)
    for i in range(3):
        uniform = torch.rand(width, width, 2 * modes, modes, dtype=torch.cfloat)
        expected[f"layers.{i}.spectral.weight"] = uniform / width**2
        pointwise(f"layers.{i}.bypass", width, width)
    pointwise("projection", width, 3)
    for way in WAYS:
        torch.manual_seed(7)
        state = network(way, width=width, modes=modes).state_dict()
        assert list(state) == list(expected)
        assert all(torch.equal(state[name], value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("grid", "modes", "expected"), [((64,), 5, 514_816), ((16, 12), 6, 2_215_384), ((8, 8, 8), 3, 5_987_328)], ids=str
)
def test_a_step_is_charged_with_the_ffts_whichever_way_it_is_executed(grid, modes, expected):
    one = Affine(np.zeros(1), np.ones(1))
    task = make_task(grid=grid)
    train = TrainSet(torch.randn(9, 1, *grid), torch.randn(9, 1, *grid), Normalizer(one, one), task)
    models = {way: FNO(task, 2, 4, modes, way=way) for way in WAYS}
    assert {way: count_step_flops(model, train, 9) for way, model in models.items()} == dict.fromkeys(WAYS, expected)
    executed = {way: flops.count(lambda m=model: m(train.inputs)) for way, model in models.items()}
    assert executed["fft"] != executed["dft"] == executed["auto"]


def test_what_the_products_cannot_do_is_refused_and_the_ffts_can():
    plain, ours = twins()
    u = torch.randn(1, 2, 16, 12, requires_grad=True)

    def curvature(model: FNO) -> Tensor:
        (slope,) = torch.autograd.grad(model(u).square().sum(), u, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), u)[0]

    assert curvature(plain).abs().max() > 0
    with pytest.raises(RuntimeError, match="differentiated twice; choose way 'fft'"):
        curvature(ours)
    assert torch.func.jacrev(plain)(u.detach()).shape == (1, 3, 16, 12, *u.shape)
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.jacrev(ours)(u.detach())
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(RuntimeError, match="autocast; choose 'fft' or 'auto'"):
        ours(u)


def test_auto_takes_products_for_few_modes_on_a_cpu_and_ffts_elsewhere():
    assert way_taken("auto", (64, 64), 8, CPU) == "dft"
    assert way_taken("auto", (4096,), 2048, CPU) == "fft"
    assert way_taken("auto", (64, 64), 8, torch.device("cuda")) == "fft"
    assert way_taken("dft", (64, 64), 8, torch.device("cuda")) == "dft"
    with torch.autocast("cpu", torch.bfloat16):
        assert way_taken("auto", (64, 64), 8, CPU) == "fft"
    assert SPEC.hparams_for(make_task())["way"] == "auto"


def test_a_network_without_layers_and_a_way_that_does_not_exist_are_refused():
    with pytest.raises(ValueError, match="layers=0, but it needs at least one"):
        network("auto", layers=0)
    with pytest.raises(ValueError, match="way 'dct' is not one of auto, fft, dft"):
        network("dct")
