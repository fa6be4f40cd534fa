"""`hss_fit`: closed-form fits of HSS matrices against operators that are known exactly."""

from __future__ import annotations

import copy
import itertools
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.neural_hss import pdebench_hss_models
from pdebench_hss_models.neural_hss.fit.model import (
    CUTOFFS,
    STARTS,
    HSSFit,
    compress,
    fit_candidate,
    fit_pairs,
    shorten,
    sketch,
)
from pdebench_hss_models.neural_hss.fit.refine import pseudo_solve, refine
from pdebench_hss_models.neural_hss.matrix.factors import to_dense
from torch import Tensor

from pdebench_hss import TaskInfo
from pdebench_hss.contract.selection import check_options, choose
from pdebench_hss.training.normalization import Affine, Normalizer

SPEC = next(spec for spec in pdebench_hss_models() if spec.name == "hss_fit")
POINTS = 128


def differences(points: int, drift: float = 0.0) -> Tensor:
    """-u'' + drift u' by second differences: self-adjoint where drift is zero."""
    off = torch.ones(points - 1, dtype=torch.float64)
    second = 2 * torch.eye(points, dtype=torch.float64) - torch.diag(off, 1) - torch.diag(off, -1)
    return second + drift / 2 * (torch.diag(off, 1) - torch.diag(off, -1))


GREEN = torch.linalg.inv(differences(POINTS))
DRIFT = torch.linalg.inv(differences(POINTS, drift=0.1))


def gaussian(samples: int, seed: int, points: int = POINTS) -> Tensor:
    return torch.randn(points, samples, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def relative(prediction: Tensor, target: Tensor) -> float:
    return (torch.linalg.norm(prediction - target) / torch.linalg.norm(target)).item()


def error(operator: Tensor, samples: int, fit=fit_pairs, **options) -> float:
    """Error on unseen Gaussian samples of a fit to ``samples`` of them."""
    f = gaussian(samples, 0)
    options = {"levels": 4, "rank": 2, "sweeps": 5, **options}
    unseen = gaussian(50, 1)
    return relative(to_dense(fit(f, operator @ f, **options)) @ unseen, operator @ unseen)


@pytest.mark.parametrize("samples", [16, 40, 200])
def test_a_self_adjoint_operator_is_recovered_from_few_samples(samples: int) -> None:
    """Eight points per leaf and rank two: a dozen samples determine the Green's function at all 128 points."""
    assert error(GREEN, samples) < 1e-11


def test_least_squares_without_structure_needs_as_many_samples_as_points() -> None:
    f, unseen = gaussian(40, 0), gaussian(50, 1)
    minimum_norm = pseudo_solve(f, GREEN @ f, 1e-12)
    assert relative(minimum_norm @ unseen, GREEN @ unseen) > 0.5


def test_an_operator_that_is_not_self_adjoint_is_recovered_from_enough_samples() -> None:
    assert error(DRIFT, 300) < 1e-11
    assert error(DRIFT, 60) < 0.3  # and helped by the structure before


def test_few_samples_are_enough_only_where_self_adjointness_holds_and_is_assumed() -> None:
    """60 samples of 128 points. The structure alone is no better than an order of magnitude; the start is."""
    assert error(GREEN, 60, symmetric="true") < 1e-11
    assert error(GREEN, 60, symmetric="auto") < 1e-11
    assert error(GREEN, 60, symmetric="false") > 1e-2
    assert error(DRIFT, 60, symmetric="auto") > 1e-4  # the assumption does not hold


@pytest.mark.parametrize("operator", [GREEN, DRIFT], ids=["self-adjoint", "drift"])
def test_auto_is_the_start_that_predicts_held_out_samples_better(operator: Tensor) -> None:
    f = gaussian(60, 0)
    options = {"levels": 4, "rank": 2, "sweeps": 5}
    fits = {word: fit_pairs(f, operator @ f, symmetric=word, **options) for word in ("true", "false", "auto")}
    held = {word: held_out_error(f, operator @ f, word, options) for word in ("true", "false")}
    better = min(held, key=held.__getitem__)
    assert torch.equal(to_dense(fits["auto"]), to_dense(fits[better]))


def held_out_error(f: Tensor, y: Tensor, symmetric: str, options: dict) -> float:
    """The smallest error on every fourth sample of the candidates of one kind, fitted to the others."""
    held = torch.arange(f.shape[1]) % 4 == 3
    candidates = itertools.product(STARTS[symmetric], CUTOFFS, (False, True))
    fitted = (to_dense(fit_candidate(c, f[:, ~held], y[:, ~held], **options)) for c in candidates)
    return min(torch.linalg.norm(a @ f[:, held] - y[:, held]).item() for a in fitted)


def test_the_assumption_is_an_option_of_the_model_and_other_words_are_refused() -> None:
    task = make_task(grid=(POINTS,))
    hparams = SPEC.hparams_for(task)
    assert hparams["symmetric"] == "auto"
    chosen = check_options(
        choose("hss_fit[symmetric=false]", ["hss_fit"], "model")[0].options, hparams, "model 'hss_fit'"
    )
    assert chosen == {"symmetric": "false"}
    assert SPEC.make(task, {**hparams, **chosen}).symmetric == "false"
    with pytest.raises(ValueError, match="symmetric='maybe' is not one of true, false, auto"):
        SPEC.make(task, {**hparams, "symmetric": "maybe"})


def test_degenerate_forcing_is_fitted_in_its_own_space() -> None:
    """Ten sine modes, like poisson_1d: nothing is known outside their span and nothing may blow up there."""
    x = torch.arange(1, POINTS + 1, dtype=torch.float64) / (POINTS + 1)
    modes = torch.sin(2 * torch.pi * torch.outer(x, torch.arange(1, 11)))
    coefficients = torch.rand(10, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    f = modes @ coefficients
    a = to_dense(fit_pairs(f[:, :30], GREEN @ f[:, :30], levels=4, rank=4, sweeps=5))
    assert relative(a @ f[:, 30:], GREEN @ f[:, 30:]) < 1e-8
    assert torch.isfinite(a).all()


def test_refinement_never_raises_the_residual() -> None:
    f = gaussian(60, 0)
    y = DRIFT @ f
    factors = compress(f, y, levels=3, rank=2, cutoff=1e-12)
    residuals = [relative(to_dense(factors) @ f, y)]
    for _ in range(8):
        factors = refine(factors, f, y, sweeps=1, cutoff=1e-12)
        residuals.append(relative(to_dense(factors) @ f, y))
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(residuals))
    assert residuals[-1] < 0.5 * residuals[0]


def test_sketch_gives_a_symmetric_matrix_for_a_symmetric_operator() -> None:
    f = gaussian(40, 0)
    a = to_dense(sketch(f, GREEN @ f, levels=4, rank=2, cutoff=1e-12))
    assert relative(a.T, a) < 1e-10


def test_many_samples_are_shortened_without_changing_the_problem() -> None:
    f, y = gaussian(500, 0), gaussian(500, 1)
    short_f, short_y = shorten(f, y)
    assert short_f.shape[1] <= 2 * POINTS
    a = gaussian(POINTS, 2)
    assert torch.linalg.norm(a @ short_f - short_y).item() == pytest.approx(torch.linalg.norm(a @ f - y).item())


def make_train(task: TaskInfo, operator: Tensor, samples: int, shift: float = 0.0) -> SimpleNamespace:
    """Normalised pairs as the core hands them over, with physical = scale * normalised + shift."""
    units = Normalizer(Affine(np.array([shift]), np.array([2.0])), Affine(np.array([-shift]), np.array([5.0])))
    f = gaussian(samples, 0, task.grid[0])
    inputs = ((f - shift) / 2).T[:, None]
    outputs = ((operator @ f + shift) / 5).T[:, None]
    return SimpleNamespace(inputs=inputs, outputs=outputs, normalizer=units, task=task)


def test_the_model_fits_itself_and_predicts_in_normalised_units() -> None:
    task = make_task(grid=(POINTS,))
    train = make_train(task, GREEN, 40, shift=0.7)
    model = SPEC.make(task, SPEC.hparams_for(task))
    assert isinstance(model, HSSFit)
    assert model(train.inputs).abs().max() == 0  # before
    model.fit(train)
    unseen = make_train(task, GREEN, 60, shift=0.7)
    assert relative(model(unseen.inputs), unseen.outputs) < 1e-9
    assert model(unseen.inputs.float()).dtype == torch.float32


@pytest.mark.parametrize("points", [8, 30, 45])
@pytest.mark.parametrize("samples", [1, 2, 5, 64])
def test_any_size_and_number_of_samples(points: int, samples: int) -> None:
    task = make_task(grid=(points,))
    model = SPEC.make(task, SPEC.hparams_for(task))
    train = make_train(task, torch.linalg.inv(differences(points)), samples)
    model.fit(train)
    prediction = model(train.inputs)
    assert prediction.shape == train.outputs.shape
    assert torch.isfinite(prediction).all()
    if samples == 64:
        assert relative(prediction, train.outputs) < 1e-9


def test_a_rank_above_the_leaf_size_is_harmless() -> None:
    task = make_task(grid=(32,))
    model = SPEC.make(task, {"levels": 3, "rank": 6, "sweeps": 5})  # leaves of four points
    train = make_train(task, torch.linalg.inv(differences(32)), 50)
    model.fit(train)
    assert relative(model(train.inputs), train.outputs) < 1e-9


def test_fitting_twice_gives_the_same_numbers() -> None:
    task = make_task(grid=(32,))
    train = make_train(task, torch.linalg.inv(differences(32)), 20)
    first = SPEC.make(task, SPEC.hparams_for(task))
    second = copy.deepcopy(first)
    first.fit(train)
    torch.manual_seed(99)
    second.fit(train)
    assert torch.equal(first(train.inputs), second(train.inputs))


def test_a_fitted_model_round_trips_through_its_state() -> None:
    task = make_task(grid=(32,))
    train = make_train(task, torch.linalg.inv(differences(32)), 20, shift=0.3)
    model, other = (SPEC.make(task, SPEC.hparams_for(task)) for _ in range(2))
    model.fit(train)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(train.inputs), other(train.inputs))


def test_what_it_can_not_do_has_a_reason() -> None:
    assert SPEC.training_free
    assert SPEC.unsupported(make_task(grid=(POINTS,))) is None
    assert SPEC.unsupported(make_task(grid=(POINTS,), linear=False)) == "needs a linear PDE"
    assert SPEC.unsupported(make_task(grid=(POINTS,), channels=(2, 1))) == "needs one input and one output channel"
