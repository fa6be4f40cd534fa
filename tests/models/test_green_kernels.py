"""Green Learning with the exact kernel in place of the network: what is left is the error of the quadrature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.green_learning import GREEN_LEARNING
from pdebench_hss_models.green_learning.quadrature import cell_sizes, trapezoidal
from torch import Tensor, nn

from pdebench_hss import TaskInfo, load_task


class Exact(nn.Module):
    """A kernel as the model's network: scaled points in, (targets, sources, 1) out."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__()
        self.matrix = torch.as_tensor(matrix)
        self.first = nn.Linear(1, 1)  # its width sets the size of chunks

    def forward(self, targets: Tensor, sources: Tensor) -> Tensor:
        assert len(targets) == len(sources) == len(self.matrix)
        return self.matrix[..., None]


def dirichlet_1d(x: np.ndarray) -> np.ndarray:
    return np.minimum(x[:, None], x) * (1 - np.maximum(x[:, None], x))


def neumann_1d(x: np.ndarray) -> np.ndarray:
    """Of mean zero."""
    return -np.maximum(x[:, None], x) + (x[:, None] ** 2 + x**2) / 2 + 1 / 3


def dirichlet_2d(task: TaskInfo) -> np.ndarray:
    """The sine series with all modes of the grid, (N, N)."""
    n = task.grid[0]
    k = np.arange(1, n)
    sines = np.sin(np.pi * np.outer(np.arange(n) / n, k))  # (n, n - 1)
    products = np.einsum("ak,bl->abkl", sines, sines).reshape(n * n, -1)
    return products * (4 / (np.pi**2 * (k[:, None] ** 2 + k**2))).ravel() @ products.T


def kernel_of(task: TaskInfo) -> np.ndarray:
    if task.dim == 2:
        return dirichlet_2d(task)
    return (neumann_1d if task.boundary == "neumann" else dirichlet_1d)(task.coords[0])


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("poisson_1d", 2.5e-4),  # the kink of G: second order
        ("poisson_1d_grf", 1.2e-4),
        ("poisson_1d_neumann", 8.5e-4),
        ("poisson_2d", 2.5e-4),  # the error of the data themselves; 0.19 with a last cell of 1.5 h
        ("poisson_2d_grf", 8e-5),
    ],
)
def test_with_the_exact_kernel_the_model_solves_the_task(name: str, limit: float) -> None:
    data = load_task(name, scale="small")
    model = GREEN_LEARNING.make(data.task, GREEN_LEARNING.hparams_for(data.task)).double().eval()
    model.cells = torch.as_tensor(cell_sizes(data.task).ravel())  # kept in float32 for training
    model.green = Exact(kernel_of(data.task))
    model.chunks = lambda: [(model.points,)]
    with torch.no_grad():
        found = model(torch.as_tensor(data.test.inputs[:40])).numpy()
    wrong = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, data.test.outputs)]
    assert np.mean(wrong) < limit


def left_ends(grid):
    return np.stack(np.meshgrid(*(np.arange(n) / n for n in grid), indexing="ij"))


def test_a_missing_end_weighs_nothing_where_the_kernel_vanishes_and_is_extrapolated_elsewhere() -> None:
    weights = cell_sizes(make_task(grid=(4,), coords=left_ends))
    assert weights.tolist() == [0.125, 0.25, 0.25, 0.25]
    assert cell_sizes(make_task(grid=(4, 4), coords=left_ends))[-1, -1] == 0.25**2  # 2.25 times that before
    weights = cell_sizes(make_task(grid=(4,), coords=left_ends, boundary="neumann"))
    assert weights.tolist() == [0.125, 0.25, 0.125, 0.5]
    weights = cell_sizes(make_task(grid=(4,), coords=left_ends, boundary="periodic", periodic=True))
    assert weights.tolist() == [0.25] * 4


def test_extrapolated_ends_keep_the_rule_exact_for_straight_lines_on_any_points() -> None:
    x = np.array([0.1, 0.25, 0.3, 0.7, 0.8])
    weights = trapezoidal(x, 0.0, 1.0, vanishes=False)
    assert weights @ (3 * x - 1) == pytest.approx(0.5, abs=1e-14)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)


def test_the_rule_is_of_second_order_without_its_right_end() -> None:
    errors = []
    for n in (256, 512, 1024):
        x = np.arange(n) / n
        errors.append(abs(trapezoidal(x, 0.0, 1.0, vanishes=False) @ np.exp(x) - (np.e - 1)))
    assert all(a / b == pytest.approx(4, rel=0.05) for a, b in pairwise(errors))
