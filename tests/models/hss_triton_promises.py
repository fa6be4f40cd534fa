"""What the Triton kernels promise, checked on the CPU by Triton's interpreter.

Run by test_hss_triton.py in a process of its own: Triton decides at import whether kernels are interpreted. By hand:

    TRITON_INTERPRET=1 pytest tests/models/hss_triton_promises.py
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.neural_hss import device_checks
from pdebench_hss_models.neural_hss.layer import HSSLayer
from pdebench_hss_models.neural_hss.model import NeuralHSS
from pdebench_hss_models.neural_hss.triton import launch as triton_launch
from pdebench_hss_models.neural_hss.triton import probe as triton_probe
from pdebench_hss_models.neural_hss.triton import report as triton_report
from pdebench_hss_models.neural_hss.triton.layer import apply_triton, merge_rows
from torch import Tensor

from pdebench_hss.training import flops


@dataclass(frozen=True)
class Case:
    """Small enough for the interpreter; by default one launch does everything."""

    terms: int = 1
    inputs: int = 1  # vectors x per row: 1 or terms
    leaves: int = 2
    m_out: int = 8
    m_in: int = 8
    rank: int = 2
    rows: int = 5
    sum_terms: bool = False
    bias: bool = True
    slope: float | None = 0.3
    dtype: torch.dtype = torch.float64

    def tensors(self) -> dict[str, Tensor | None]:
        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=self.dtype).requires_grad_()

        size, points = self.leaves * self.rank, self.leaves * self.m_out
        return {
            "D": normal(self.terms, self.leaves, self.m_out, self.m_in),
            "U": normal(self.terms, self.leaves, self.m_out, self.rank),
            "C": normal(self.terms, size, size),
            "V": normal(self.terms, self.leaves, self.m_in, self.rank),
            "x": normal(self.rows, self.inputs, self.leaves * self.m_in),
            "bias": normal(*((points,) if self.sum_terms else (self.terms, points))) if self.bias else None,
            "slope": None if self.slope is None else torch.full((1,), self.slope, dtype=self.dtype).requires_grad_(),
        }


ONE_LAUNCH = Case()
TWO_LAUNCHES = Case(terms=2, inputs=2)
SUMMED = Case(terms=2, sum_terms=True)

SIZES = [
    ONE_LAUNCH,
    TWO_LAUNCHES,
    SUMMED,
    Case(bias=False),
    Case(slope=None),
    Case(terms=2, inputs=2, bias=False, slope=None, sum_terms=True),
    Case(leaves=2, m_out=13, m_in=9, rank=3, rows=33),  # nothing is a multiple of anything
    Case(terms=3, leaves=1, m_out=7, m_in=19, rank=17, rows=35, sum_terms=True),
    Case(terms=2, leaves=1, m_out=70, m_in=34, rows=3),  # a leaf is several tiles wide and deep
    Case(leaves=4, m_out=70, m_in=3, rank=1, rows=1),  # more than 256 points: two launches for one term
    Case(leaves=1, m_out=20, m_in=20, rank=0),  # a tree that is its root
]


def reference(
    D: Tensor, U: Tensor, C: Tensor, V: Tensor, x: Tensor, bias: Tensor | None, slope: Tensor | None, sum_terms: bool
) -> Tensor:
    """The matrices written out, by torch."""
    matrices = [
        torch.block_diag(*d) + torch.block_diag(*u) @ c @ torch.block_diag(*v).T for d, u, c, v in zip(D, U, C, V)
    ]
    y = torch.stack([x[..., min(t, x.shape[-2] - 1), :] @ a.T for t, a in enumerate(matrices)], -2)
    y = y.sum(-2) if sum_terms else y
    y = y if bias is None else y + bias
    return y if slope is None else torch.where(y > 0, y, slope * y)


def value_and_gradients(function: object, tensors: dict[str, Tensor | None], **options: object) -> list[Tensor]:
    """y and the gradients of a fixed linear functional of it."""
    y = function(**tensors, **options)  # type: ignore[operator]
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    inputs = [tensor for tensor in tensors.values() if tensor is not None]
    return [y, *torch.autograd.grad((y * weights).sum(), inputs)]


def assert_as_reference(tensors: dict[str, Tensor | None], sum_terms: bool, tolerance: float) -> list[Tensor]:
    """The reference is computed in float64 whatever the dtype. Returns ours: y and its gradients."""
    ours = value_and_gradients(apply_triton, tensors, sum_terms=sum_terms)
    exact = {k: None if v is None else v.detach().double().requires_grad_() for k, v in tensors.items()}
    theirs = value_and_gradients(reference, exact, sum_terms=sum_terms)
    for name, a, b in zip(["y", *(k for k, v in tensors.items() if v is not None)], ours, theirs):
        assert a.shape == b.shape, name
        worst = (a.double() - b).abs().max().item() if a.numel() else 0.0
        assert worst <= tolerance * max(1.0, b.abs().max().item() if b.numel() else 0.0), f"{name}: {worst}"
    return ours


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("case", SIZES, ids=str)
def test_value_and_gradients_are_those_of_the_written_out_matrix(case: Case) -> None:
    assert_as_reference(case.tensors(), case.sum_terms, 1e-12)


@pytest.mark.parametrize("case", [ONE_LAUNCH, SUMMED], ids=str)
def test_float32_is_as_near_to_float64_as_float32_allows(case: Case) -> None:
    narrow = Case(**{**vars(case), "dtype": torch.float32, "m_in": 32, "rows": 40})
    assert_as_reference(narrow.tensors(), narrow.sum_terms, 2e-6)


@pytest.mark.parametrize("case", [ONE_LAUNCH, Case(terms=2, leaves=1, sum_terms=True)], ids=["one", "summed"])
def test_gradients_are_derivatives(case: Case) -> None:
    tensors = case.tensors()

    def function(*inputs: Tensor) -> Tensor:
        return apply_triton(**dict(zip(tensors, inputs)), sum_terms=case.sum_terms)

    assert torch.autograd.gradcheck(function, tuple(tensors.values()), fast_mode=True)


@pytest.mark.parametrize("rank", range(1, 21))
def test_every_rank_up_to_20(rank: int) -> None:
    for case in (Case(rank=rank, rows=2), Case(terms=2, leaves=1, rank=rank, rows=2, sum_terms=True)):
        tensors = case.tensors()
        y = apply_triton(**tensors, sum_terms=case.sum_terms)
        torch.testing.assert_close(y, reference(**tensors, sum_terms=case.sum_terms), rtol=0, atol=1e-11)


@pytest.mark.parametrize("slope", [0.0, -0.5, 1e-9, 1.0])
@pytest.mark.parametrize("case", [ONE_LAUNCH, Case(terms=2, leaves=1, sum_terms=True)], ids=["one", "summed"])
def test_any_slope_has_its_gradient_also_where_y_does_not_tell_the_sign(case: Case, slope: float) -> None:
    sloped = Case(**{**vars(case), "slope": slope})
    assert_as_reference(sloped.tensors(), sloped.sum_terms, 1e-12)


def test_a_zero_has_the_derivative_that_prelu_gives_it() -> None:
    tensors = Case(slope=0.3).tensors() | {"x": torch.zeros(5, 1, 16, dtype=torch.float64), "bias": None}
    tensors["x"].requires_grad_()
    slope = tensors["slope"]
    ours = torch.autograd.grad(apply_triton(**tensors).sum(), [tensors["x"], slope])
    linear = reference(**{**tensors, "slope": None}, sum_terms=False)
    theirs = torch.autograd.grad(torch.nn.functional.prelu(linear, slope).sum(), [tensors["x"], slope])
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("case", [ONE_LAUNCH, SUMMED], ids=["one", "summed"])
def test_tensors_may_be_strided(case: Case) -> None:
    tensors = case.tensors()
    strided = {
        k: v if v is None else torch.stack([v, v], -1).detach()[..., 0].requires_grad_() for k, v in tensors.items()
    }
    assert not strided["x"].is_contiguous()
    assert not strided["D"].is_contiguous()
    assert_as_reference(strided, case.sum_terms, 1e-12)


@pytest.mark.parametrize("case", [ONE_LAUNCH, SUMMED], ids=["one", "summed"])
def test_an_axis_in_the_middle_of_a_grid_is_multiplied_without_a_copy(case: Case) -> None:
    tensors = case.tensors()
    grid = torch.randn(2, 16, case.inputs, 5, dtype=torch.float64)  # (batch, points, terms, inner)
    tensors["x"] = grid.permute(0, 3, 2, 1).requires_grad_()
    y, *gradients = assert_as_reference(tensors, case.sum_terms, 1e-12)
    assert y.stride(1) == 1, "the innermost axis in memory stays innermost"
    assert gradients[4].stride() == tensors["x"].stride()


def test_rows_that_lie_evenly_in_memory_are_one_axis() -> None:
    """A program takes rows of one axis only: pairs (40, 1) must not become 40 programs of one row."""
    pairs = torch.randn(6, 4, 1, 16, dtype=torch.float64)
    assert merge_rows(pairs[:, :1]).shape == (1, 6, 1, 16)
    assert merge_rows(pairs).shape == (1, 24, 1, 16)
    assert merge_rows(pairs.transpose(0, 1)).shape == (4, 6, 1, 16), "not evenly"
    for x in (pairs[:, :1], pairs):
        assert_as_reference(ONE_LAUNCH.tensors() | {"x": x.detach().requires_grad_()}, False, 1e-12)


def test_one_vector_may_stand_for_all_terms() -> None:
    tensors = Case(terms=3, inputs=1).tensors()
    repeated = tensors | {"x": tensors["x"].expand(-1, 3, -1)}
    torch.testing.assert_close(apply_triton(**tensors), apply_triton(**repeated), rtol=0, atol=0)


@pytest.mark.parametrize(
    "case", [Case(m_out=13, m_in=9, rank=3), Case(terms=2, m_out=5, m_in=7, rank=3, sum_terms=True)], ids=str
)
def test_nan_around_the_tensors_does_not_leak_in(case: Case) -> None:
    """Every tensor lies in the middle of memory full of NaN, as far as the largest tile could read."""
    tensors = case.tensors()
    clean = value_and_gradients(apply_triton, tensors, sum_terms=case.sum_terms)
    surrounded = {}
    for name, tensor in tensors.items():
        memory = torch.full((tensor.numel() + 20_000,), torch.nan, dtype=tensor.dtype)
        inside = memory[10_000 : 10_000 + tensor.numel()].view(tensor.shape)
        inside.copy_(tensor.detach())
        surrounded[name] = inside.requires_grad_()
    guarded = value_and_gradients(apply_triton, surrounded, sum_terms=case.sum_terms)
    for a, b in zip(clean, guarded):
        assert torch.equal(a, b)


@pytest.mark.parametrize("case", [ONE_LAUNCH, SUMMED], ids=["one", "summed"])
def test_nan_in_a_row_stays_in_its_row(case: Case) -> None:
    tensors = case.tensors()
    clean = apply_triton(**tensors, sum_terms=case.sum_terms)
    with torch.no_grad():
        tensors["x"][1] = torch.nan
    y = apply_triton(**tensors, sum_terms=case.sum_terms)
    others = [0, 2, 3, 4]
    assert y[1].isnan().all()
    assert torch.equal(y[others], clean[others])


def test_the_same_input_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the rows are split, for which the default needs more rows than the interpreter likes."""
    monkeypatch.setattr(triton_launch, "ROWS_PER_SPLIT", 16)
    case = Case(terms=2, leaves=1, rows=34, sum_terms=True, dtype=torch.float32)
    tensors = case.tensors()
    first, second = (value_and_gradients(apply_triton, tensors, sum_terms=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def test_sums_over_rows_do_not_depend_on_how_they_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = Case(rows=40).tensors()
    whole = value_and_gradients(apply_triton, tensors)
    monkeypatch.setattr(triton_launch, "ROWS_PER_SPLIT", 16)
    for a, b in zip(whole, value_and_gradients(apply_triton, tensors)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_no_rows_at_all() -> None:
    tensors = Case(rows=0).tensors()
    results = value_and_gradients(apply_triton, tensors)
    assert results[0].shape == (0, 1, 16)
    assert all((gradient == 0).all() for gradient in results[1:])


def test_frozen_tensors_get_no_gradient() -> None:
    """The first layer of a network has no gradient of x, a frozen one none of its weights."""
    tensors = ONE_LAUNCH.tensors()
    everything = dict(zip(tensors, value_and_gradients(apply_triton, tensors)[1:]))
    for alone in tensors:
        only = {name: tensor.detach().requires_grad_(name == alone) for name, tensor in tensors.items()}
        y = apply_triton(**only)
        weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
        (gradient,) = torch.autograd.grad((y * weights).sum(), [only[alone]])
        torch.testing.assert_close(gradient, everything[alone], rtol=0, atol=1e-12)


def test_the_report_refuses_kernels_that_are_not_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert triton_report.main([]) == 2
    assert "TRITON_INTERPRET is set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": torch.zeros(1, 3, 3, dtype=torch.float64)}, r"C has shape \(1, 3, 3\).*must have \(1, 4, 4\)"),
        ({"x": torch.zeros(5, 1, 15, dtype=torch.float64)}, r"x has shape \(5, 1, 15\).*16 points"),
        ({"x": torch.zeros(5, 1, 16, dtype=torch.float32)}, "x is torch.float32"),
        ({"slope": torch.zeros(2, dtype=torch.float64)}, "one number and has 2"),
        ({"precision": "tf23"}, "precision 'tf23' is not one of ieee, tf32x3, tf32"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        apply_triton(**{**ONE_LAUNCH.tensors(), **change})


@pytest.mark.parametrize(("grid", "terms"), [((16,), 1), ((8, 12), 2)])
def test_a_step_is_charged_with_the_flops_of_every_other_way(grid: tuple[int, ...], terms: int) -> None:
    """torch's counter does not see the kernels: by itself it would find a step nearly free of charge."""
    charged, executed = {}, {}
    for way in ("triton", "collapsed"):
        layer = HSSLayer(grid, levels=1, rank=2, outer_rank=terms, way=way)

        def step(layer: HSSLayer = layer) -> None:
            layer(torch.ones(4, *grid)).sum().backward()

        charged[way], executed[way] = flops.count_step(step), flops.count(step)
    assert charged["triton"] == charged["collapsed"] > 0
    assert executed["triton"] < executed["collapsed"]


@pytest.mark.parametrize(
    ("grid", "terms", "ends", "slope"),
    [((16,), 1, "none", 1.0), ((16,), 1, "none", 0.5), ((8, 12), 2, "none", 1.0), ((8, 12), 2, "dense", 0.5)],
)
def test_a_model_that_starts_as_the_zero_map_trains_as_in_the_tree(
    grid: tuple[int, ...], terms: int, ends: str, slope: float
) -> None:
    """Zeros in the last map, where y = 0 does not tell a sign, and in the steps after it."""
    task = make_task(grid=grid)
    x, y = torch.randn(2, 3, 1, *grid, dtype=torch.float64)
    weights = {}
    for way in ("triton", "tree"):
        torch.manual_seed(0)
        model = NeuralHSS(
            task, levels=1, rank=2, outer_rank=terms, layers=2, lift=ends, projection=ends, way=way, slope=slope
        ).double()
        assert not model(x).any()
        descent = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            descent.zero_grad()
            (model(x) - y).square().mean().backward()
            descent.step()
        weights[way] = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(weights["triton"], weights["tree"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_try_before_first_use_passes_and_would_notice(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    assert triton_probe.try_kernels(torch.device("cpu"), dtype) < (1e-5 if dtype == torch.float32 else 1e-12)
    monkeypatch.setattr(triton_launch.Launch, "run", lambda self: None)  # kernels that do nothing
    assert not triton_probe.try_kernels(torch.device("cpu"), dtype) < 1e-4


def test_doctors_check_of_the_kernels_passes_and_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor --device cuda` compares every kernel with the tree; the interpreter stands in for the GPU."""
    monkeypatch.setattr(device_checks, "ODD", [((12,), 1, 2, 1, 3), ((5, 7), 1, 2, 2, 2)])
    found = device_checks.kernels(None, "cpu")
    assert found["status"] == "ok", found
    assert len(found["data"]["ratios"]) == 4
    monkeypatch.setattr(triton_launch.Launch, "run", lambda self: None)
    assert device_checks.kernels(None, "cpu")["status"] == "FAIL"
