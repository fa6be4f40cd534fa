"""The spectral radius of a learned step against matrices whose eigenvalues are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.neural_hss import pdebench_hss_models
from pdebench_hss_models.neural_hss.stability import LearnedStep, jacobian, spectral_radii
from torch import nn

from pdebench_hss.training.normalization import Affine, Normalizer

SPEC = next(spec for spec in pdebench_hss_models() if spec.name == "neural_hss")


def normalizer(in_scale: float = 1.0, out_scale: float = 1.0, shift: float = 0.0, channels: int = 1) -> Normalizer:
    def affine(scale: float) -> Affine:
        return Affine(np.full(channels, shift), np.full(channels, scale))

    return Normalizer(affine(in_scale), affine(out_scale))


class Matrix(nn.Module):
    """A linear map of the whole field."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.as_tensor(matrix, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.flatten(1) @ self.matrix.T).view(x.shape)


def rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize(
    ("step", "radius"),
    [
        (np.diag([0.5, -1.25, 1.0, 0.0]), 1.25),  # it turns the sign at every step
        (np.kron(np.eye(2), 1.5 * rotation(1.0)), 1.5),  # a complex pair
        (np.eye(4) + np.triu(np.full((4, 4), 8.0), 1), 1.0),  # far from normal: its norm is above 20
        (np.zeros((4, 4)), 0.0),
    ],
)
def test_known_eigenvalues(step: np.ndarray, radius: float) -> None:
    """In physical units, whatever the normaliser: the network maps u / 2 to the residual / 5."""
    found = spectral_radii(Matrix((step - np.eye(4)) * 2 / 5), normalizer(2.0, 5.0), np.ones((3, 1, 4)))
    assert found == pytest.approx([radius] * 3, abs=2e-3)  # a triple eigenvalue feels the cube root of rounding


def test_a_model_that_starts_as_the_zero_map_neither_grows_nor_decays() -> None:
    task = make_task(grid=(24,), linear=False)
    model = SPEC.make(task, SPEC.hparams_for(task))
    states = np.random.default_rng(0).normal(size=(2, 1, 24))
    assert spectral_radii(model, normalizer(0.5, 0.1), states) == pytest.approx([1.0, 1.0], abs=1e-12)


def test_the_jacobian_of_a_trained_kind_of_model_is_that_of_finite_differences() -> None:
    torch.manual_seed(0)
    task = make_task(grid=(12, 30), channels=(2, 2), linear=False)  # 720 unknowns: the rows come in three parts
    model = SPEC.make(task, {**SPEC.hparams_for(task), "init": "normal"})
    step = LearnedStep(model, normalizer(0.5, 0.1, shift=0.2, channels=2), ndim=4)
    u = torch.randn(1, 2, 12, 30, dtype=torch.float64)
    direction = torch.randn_like(u)
    with torch.no_grad():
        moved = (step(u + 1e-7 * direction) - step(u - 1e-7 * direction)) / 2e-7
    np.testing.assert_allclose(jacobian(step, u) @ direction.flatten().numpy(), moved.flatten().numpy(), atol=1e-5)
    assert next(model.parameters()).dtype == torch.float32, "a copy is taken to float64"


def test_other_states_than_the_model_has_are_refused() -> None:
    task = make_task(grid=(8,), channels=(2, 1))
    model = SPEC.make(task, SPEC.hparams_for(task))
    with pytest.raises(ValueError, match=r"takes 2 channel\(s\) to 1: spectral radii are for rollout tasks without"):
        spectral_radii(model, Normalizer(normalizer(channels=2).inputs, normalizer().outputs), np.ones((1, 2, 8)))
