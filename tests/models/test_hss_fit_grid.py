"""`hss_fit` in two and three dimensions, against Kronecker sums built by hand and operators that are known exactly."""

from __future__ import annotations

import copy
import math
from functools import reduce
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from hypothesis import given, settings
from hypothesis import strategies as st
from pdebench_hss_models.baselines import LINEAR
from pdebench_hss_models.neural_hss import pdebench_hss_models
from pdebench_hss_models.neural_hss.fit import HSSFit, HSSGridFit, kronecker
from pdebench_hss_models.neural_hss.fit.kronecker import apply_sum, cut, fit_fields, form_of_axis, mix
from pdebench_hss_models.neural_hss.fit.terms import Form, improve, solve
from pdebench_hss_models.neural_hss.matrix.factors import Factors, to_dense
from torch import Tensor

from pdebench_hss import TaskInfo, load_model, load_task, run
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.parameters import count_fitted
from pdebench_hss.training.windows import prepare

SPEC = next(spec for spec in pdebench_hss_models() if spec.name == "hss_fit")


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def relative(prediction: Tensor, target: Tensor) -> float:
    return (torch.linalg.norm(prediction - target) / torch.linalg.norm(target)).item()


def random_trees(n: int, levels: int, rank: int, terms: int, seed: int) -> Factors:
    full = Factors((gaussian(terms, 1, n, n, seed=seed) / math.sqrt(n),), (), ())
    return cut(full, levels, rank)


def kronecker_sum(axes: list[Tensor]) -> Tensor:
    """sum_k W_1^(k) (x) .. (x) W_m^(k), by torch.kron."""
    return sum(reduce(torch.kron, [w[k] for w in axes]) for k in range(len(axes[0])))


def inverse_laplacian(grid: tuple[int, ...]) -> Tensor:
    """The inverse of second differences along all axes, a dense matrix between flattened fields."""
    total = torch.zeros(math.prod(grid), math.prod(grid), dtype=torch.float64)
    for axis, n in enumerate(grid):
        off = torch.ones(n - 1, dtype=torch.float64)
        line = (2 * torch.eye(n, dtype=torch.float64) - torch.diag(off, 1) - torch.diag(off, -1)) * n**2
        parts = [line if i == axis else torch.eye(m, dtype=torch.float64) for i, m in enumerate(grid)]
        total += reduce(torch.kron, parts)
    return torch.linalg.inv(total)


def images(operator: Tensor, x: Tensor) -> Tensor:
    return (x.flatten(1) @ operator.mT).reshape(x.shape)


# --- the parts


@pytest.mark.parametrize("grid", [(4, 6), (3, 4, 5)])
def test_the_map_is_the_sum_of_kronecker_products(grid: tuple[int, ...]) -> None:
    axes = [gaussian(3, n, n, seed=n) for n in grid]
    x = gaussian(7, *grid)
    assert relative(apply_sum(x, axes), images(kronecker_sum(axes), x)) < 1e-14


@pytest.mark.parametrize("identity", [True, False])
def test_a_node_is_solved_for_as_by_lstsq(identity: bool) -> None:
    """Two terms P_k X_k Q_k with data z: numpy's lstsq on the matrix of the linear map from both X to the answers."""
    terms, p, q, points, samples = 2, 3, 4, 6, 50
    left = torch.eye(p, dtype=torch.float64).expand(terms, p, p) if identity else gaussian(terms, points, p, seed=1)
    z, target = gaussian(terms, q, samples, seed=2), gaussian(left.shape[1], samples, seed=3)
    columns = [torch.outer(left[k, :, a], z[k, b]).flatten() for k in range(terms) for a in range(p) for b in range(q)]
    expected, *_ = np.linalg.lstsq(torch.stack(columns, 1).numpy(), target.flatten().numpy(), rcond=None)
    rows = None if identity else torch.einsum("kia,lib->klab", left, left)[None]
    found = solve(
        rows, torch.einsum("kbs,lds->kbld", z, z)[None], torch.einsum("kia,is,kbs->kab", left, target, z)[None]
    )
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_problem_of_an_axis_is_that_of_the_dense_residual(monkeypatch, axis: int) -> None:
    """Its slope is minus half the derivative of the squared residual, and its columns half the second derivative."""
    monkeypatch.setattr(kronecker, "RIDGE", 0.0)
    monkeypatch.setattr(kronecker, "LEAST_RIDGE", 0.0)
    monkeypatch.setattr(kronecker, "CHUNK", 100)  # many pieces
    grid = (3, 4, 2)
    axes, x, y = [gaussian(2, n, n, seed=n) for n in grid], gaussian(9, *grid), gaussian(9, *grid, seed=1)
    form = form_of_axis(axes, axis, x, y)

    def half_residual(w: Tensor) -> Tensor:
        there = kronecker_sum([w if i == axis else other for i, other in enumerate(axes)])
        return (images(there, x) - y).square().sum() / 2

    w = axes[axis].clone().requires_grad_()
    (derivative,) = torch.autograd.grad(half_residual(w), w)
    assert torch.allclose(form.slope, -derivative, atol=1e-9)
    change = gaussian(*w.shape, seed=5)
    second = torch.autograd.functional.hvp(half_residual, w.detach(), change)[1]
    assert torch.allclose(torch.einsum("lij,ljkm->kim", change, form.columns), second, atol=1e-8)


@settings(deadline=None, max_examples=12)
@given(
    levels=st.integers(0, 2),
    rank=st.integers(1, 3),
    terms=st.integers(1, 3),
    few=st.booleans(),
    seed=st.integers(0, 99),
)
def test_improvement_within_hss_matrices_never_raises_the_residual(levels, rank, terms, few, seed) -> None:
    n, samples = 16, 6 if few else 80
    f, y = gaussian(terms, n, samples, seed=seed), gaussian(n, samples, seed=seed + 1)
    a = random_trees(n, levels, rank, terms, seed)
    residuals = []
    for _ in range(4):
        rest = y - torch.einsum("kij,kjs->is", to_dense(a), f)
        residuals.append(rest.norm().item())
        a = improve(a, Form(None, torch.einsum("kis,ljs->kilj", f, f), torch.einsum("is,kjs->kij", rest, f)))
    assert all(after <= before + 1e-7 * y.norm().item() for before, after in pairwise(residuals))
    assert residuals[1] < residuals[0]


def test_terms_are_mixed_and_cut_without_changing_what_can_be_kept() -> None:
    """The first term of the mixed sum is the best approximation by one product: the rearranged matrix's SVD says so."""
    axes = [Factors((gaussian(3, 1, n, n, seed=n),), (), ()) for n in (8, 12)]
    mixed = mix(axes)
    before, after = (kronecker_sum([to_dense(a) for a in some]) for some in (axes, mixed))
    assert relative(after, before) < 1e-13
    rearranged = before.reshape(8, 12, 8, 12).permute(0, 2, 1, 3).reshape(64, 144)
    s = torch.linalg.svdvals(rearranged)
    one = kronecker_sum([to_dense(a)[:1] for a in mixed])
    assert (before - one).norm().item() == pytest.approx(s[1:].norm().item(), rel=1e-10)
    whole = [cut(a, 1, n // 2) for a, n in zip(mixed, (8, 12))]  # the rank of any matrix with two leaves
    assert relative(kronecker_sum([to_dense(a) for a in whole]), before) < 1e-12


# --- recovery


@pytest.mark.parametrize(
    ("grid", "levels", "samples"), [((16, 16), (2, 2), 60), ((16, 24), (1, 2), 60), ((8, 8, 8), (1, 1, 1), 60)]
)
def test_an_operator_of_the_class_is_recovered(grid, levels, samples) -> None:
    """Two terms of HSS rank 2, white noise as inputs; a matrix without structure would need a sample for each point."""
    axes = [to_dense(random_trees(n, depth, 2, 2, seed=n + i)) for i, (n, depth) in enumerate(zip(grid, levels))]
    x, unseen = gaussian(samples, *grid), gaussian(10, *grid, seed=1)
    assert samples < math.prod(grid) / 3
    found = fit_fields(x, apply_sum(x, axes), levels, rank=2, terms=2, sweeps=40)
    assert relative(apply_sum(unseen, [to_dense(a) for a in found]), apply_sum(unseen, axes)) < 1e-6


@pytest.mark.parametrize("grid", [(16, 16), (12, 20)])
@pytest.mark.parametrize("terms", [2, 4])
def test_the_inverse_laplacian_is_approximated_nearly_as_well_as_so_many_terms_can(grid, terms) -> None:
    """The best sum of K full products is known: the SVD of the rearranged matrix. The fit sees 100 samples only."""
    operator = inverse_laplacian(grid)
    n, m = grid
    s = torch.linalg.svdvals(operator.reshape(n, m, n, m).permute(0, 2, 1, 3).reshape(n * n, m * m))
    best = (s[terms:].norm() / s.norm()).item()
    x = gaussian(100, *grid)
    found = fit_fields(x, images(operator, x), (1, 1), rank=n // 2, terms=terms, sweeps=20)
    wrong = relative(kronecker_sum([to_dense(a) for a in found]), operator)
    assert best * 0.999 < wrong < 2.5 * best


def test_the_inverse_laplacian_in_three_dimensions() -> None:
    grid = (8, 8, 8)
    operator, x, unseen = inverse_laplacian(grid), gaussian(60, *grid), gaussian(10, *grid, seed=1)
    errors = {}
    for terms in (1, 3, 6):
        found = fit_fields(x, images(operator, x), (1, 1, 1), rank=4, terms=terms, sweeps=10)
        errors[terms] = relative(apply_sum(unseen, [to_dense(a) for a in found]), images(operator, unseen))
    assert errors[1] > 0.1
    assert errors[3] < errors[1] / 5
    assert errors[6] < errors[3] / 3


def test_where_inputs_span_few_dimensions_nothing_blows_up() -> None:
    """Four sine modes per axis: the HSS factors have to be found inside the sweeps, a cut matrix is far off."""
    n = 16
    line = torch.arange(1, n + 1, dtype=torch.float64) / (n + 1)
    modes = torch.sin(2 * torch.pi * torch.outer(torch.arange(1, 5), line))
    x = torch.einsum("sab,ai,bj->sij", gaussian(80, 4, 4), modes, modes)
    y = images(inverse_laplacian((n, n)), x)
    found = [to_dense(a) for a in fit_fields(x[:60], y[:60], (1, 1), rank=4, terms=4, sweeps=20)]
    assert relative(apply_sum(x[60:], found), y[60:]) < 1e-4
    assert max(w.abs().max().item() for w in found) < 1e3


def test_where_samples_are_very_many_the_problems_look_at_some_of_them_in_turn(monkeypatch) -> None:
    operator, unseen = inverse_laplacian((16, 16)), gaussian(20, 16, 16, seed=1)
    x = gaussian(160, 16, 16)
    errors = []
    for window in (kronecker.WINDOW, 40 * 256):
        monkeypatch.setattr(kronecker, "WINDOW", window)
        found = fit_fields(x, images(operator, x), (1, 1), rank=4, terms=4, sweeps=20)
        errors.append(relative(apply_sum(unseen, [to_dense(a) for a in found]), images(operator, unseen)))
    assert errors[1] < 3 * errors[0] < 1e-2


# --- the model


def make_train(task: TaskInfo, samples: int, shift: float = 0.0, seed: int = 0) -> SimpleNamespace:
    """Normalised pairs of the inverse Laplacian as the core hands them over, physical = scale * normalised + shift."""
    units = Normalizer(Affine(np.array([shift]), np.array([2.0])), Affine(np.array([-shift]), np.array([5.0])))
    f = gaussian(samples, *task.grid, seed=seed)
    u = 100 * images(inverse_laplacian(task.grid), f)
    return SimpleNamespace(
        inputs=((f - shift) / 2)[:, None], outputs=((u + shift) / 5)[:, None], normalizer=units, task=task
    )


def fitted(task: TaskInfo, train: SimpleNamespace, **options) -> HSSGridFit:
    model = SPEC.make(task, {**SPEC.hparams_for(task), **options})
    model.fit(train)
    return model


def test_the_model_fits_itself_and_predicts_in_normalised_units() -> None:
    task = make_task(grid=(16, 12))
    train, unseen = make_train(task, 120, shift=0.7), make_train(task, 30, shift=0.7, seed=1)
    model = SPEC.make(task, {**SPEC.hparams_for(task), "rank": 4, "outer_rank": 4})
    assert isinstance(model, HSSGridFit)
    assert model(train.inputs).abs().max() == 0  # before
    model.fit(train)
    assert relative(model(unseen.inputs), unseen.outputs) < 5e-3
    assert model(unseen.inputs.float()).dtype == torch.float32
    assert isinstance(SPEC.make(make_task(grid=(16,)), SPEC.hparams_for(make_task(grid=(16,)))), HSSFit)


@pytest.mark.parametrize("grid", [(5, 7), (4, 16), (9, 8), (4, 5, 6)])
@pytest.mark.parametrize("samples", [1, 3, 5, 40])
def test_any_size_and_number_of_samples(grid: tuple[int, ...], samples: int) -> None:
    task = make_task(grid=grid)
    train = make_train(task, samples)
    prediction = fitted(task, train, outer_rank=3, rank=3)(train.inputs)
    assert prediction.shape == train.outputs.shape
    assert torch.isfinite(prediction).all()
    if samples == 40:
        assert relative(prediction, train.outputs) < 0.1


def test_zeros_are_fitted_by_zero() -> None:
    task = make_task(grid=(8, 8))
    train = make_train(task, 8)
    train.inputs, train.outputs = torch.zeros_like(train.inputs), torch.zeros_like(train.outputs)
    assert fitted(task, train)(train.inputs).abs().max() == 0


def test_terms_that_do_not_help_on_held_out_samples_are_neither_kept_nor_counted() -> None:
    """Outputs that have nothing to do with the inputs: each term more is a worse guess."""
    task, used = make_task(grid=(16, 16)), {}
    for kind in ("laplacian", "noise"):
        train = make_train(task, 100)
        if kind == "noise":
            train.outputs = gaussian(*train.outputs.shape, seed=7)
        model = fitted(task, train, rank=2, outer_rank=4, sweeps=1)
        one = sum(weight.factors().count // weight.terms for weight in model.axes)
        used[kind], rest = divmod(count_fitted(model).real, one)
        assert rest == 0
    assert used["noise"] < used["laplacian"] == 4


def test_fitting_twice_gives_the_same_numbers_and_a_state_round_trips() -> None:
    task = make_task(grid=(8, 12))
    train = make_train(task, 20, shift=0.3)
    first = SPEC.make(task, {**SPEC.hparams_for(task), "rank": 3, "outer_rank": 3})
    second, loaded = copy.deepcopy(first), copy.deepcopy(first)
    first.fit(train)
    torch.manual_seed(99)
    second.fit(train)
    assert torch.equal(first(train.inputs), second(train.inputs))
    loaded.load_state_dict(first.state_dict())
    assert torch.equal(first(train.inputs), loaded(train.inputs))


def test_what_it_can_not_do_has_a_reason() -> None:
    assert SPEC.unsupported(make_task(grid=(8, 8))) is None
    assert SPEC.unsupported(make_task(grid=(8, 8, 8))) is None
    assert SPEC.unsupported(make_task(grid=(8, 8), linear=False)) == "needs a linear PDE"
    assert SPEC.unsupported(make_task(grid=(8, 8), channels=(2, 2))) == "needs one input and one output channel"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"outer_rank": 0}, "outer_rank=0 must be at least 1"),
        ({"rank": 40, "outer_rank": 32}, "the most is 4096; use fewer terms, a lower rank or more levels"),
        ({"levels": 0, "outer_rank": 1000}, "outer_rank=1000, rank=6 and leaves of 16 points"),
        ({"rank": 0}, "rank=0 must be at least 1"),
    ],
)
def test_impossible_and_endless_settings_are_refused(options: dict, reason: str) -> None:
    task = make_task(grid=(16, 16))
    with pytest.raises(ValueError, match=reason):
        SPEC.make(task, {**SPEC.hparams_for(task), **options})


def test_it_is_kept_loaded_and_counted_like_other_closed_forms(tmp_path) -> None:
    name = "hss_fit[rank=6,outer_rank=3]"
    board = run(models=name, tasks="poisson_2d_grf", scale="smoke", executor="inline", out=str(tmp_path))
    (row,) = board.results.to_dict("records")
    assert row["status"] == "ok"
    model = load_model(tmp_path, model=name, task="poisson_2d_grf")
    data = load_task("poisson_2d_grf", scale="smoke")
    wrong = np.linalg.norm((model(data.test.inputs) - data.test.outputs).reshape(4, -1), axis=1)
    assert np.mean(wrong / np.linalg.norm(data.test.outputs.reshape(4, -1), axis=1)) == pytest.approx(row["test_err"])
    one_term = 2 * sum([2 * 8 * (8 + 2 * 6), (2 * 6) ** 2])  # two axes of 16 points: two leaves, rank 6, and the root
    assert row["params_real"] % one_term == 0
    assert row["params_real"] > 0


@pytest.mark.slow
def test_on_a_full_spectrum_it_is_a_thousand_times_better_than_least_squares() -> None:
    """poisson_2d_grf at scale small, 512 samples of 1,024 points, on the test split."""
    data = load_task("poisson_2d_grf", scale="small")
    train = prepare(data, torch.float64)
    units = train.normalizer
    x, y = (
        torch.as_tensor(a)
        for a in (units.inputs.normalise(data.test.inputs), units.outputs.normalise(data.test.outputs))
    )
    errors = {}
    for spec in (LINEAR, SPEC):
        model = spec.make(data.task, spec.hparams_for(data.task))
        model.fit(train)
        errors[spec.name] = relative(model(x), y)
    assert errors["hss_fit"] < errors["linear"] / 1000
