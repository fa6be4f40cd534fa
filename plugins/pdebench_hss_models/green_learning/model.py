"""Green Learning (Boulle, Earls and Townsend 2022): the solution operator of a linear PDE as an integral.

    M(f)(x_i) = sum_j w_j G(x_i, y_j) f(y_j)

G is a perceptron with ``layers`` hidden layers of ``width`` neurons, each with its own rational activation; it has
in_channels * out_channels outputs; w_j is the weight of y_j in the trapezoidal rule (`quadrature`). The sum runs over
the points inside the domain. G does not depend on f: it is evaluated once per batch, and is reused until a training
step changes it.

The authors add a second network N(x), the homogeneous solution, for boundary values that are not zero. All tasks here
have u = 0 for f = 0, so it is left out.

With N points there are N^2 pairs (16.8 million for 64^2: 8 GiB for one hidden tensor of the paper's width), so rows of
G (targets x_i) are computed in chunks, which are computed again in the backward pass. Gradients are exact, and only one
chunk is in memory.

``targets_per_step`` below N makes a step cheaper still: only that many random rows of G are computed. The other rows
come from a stored matrix, in which each row dates from its last draw (zero before the first). They complete the output
field and carry no gradient; the gradient of the drawn rows is multiplied by N / targets. If the loss is a sum over
points, as squared error is, this is an unbiased gradient of the whole loss. The loss itself lags behind, as it uses
rows from earlier steps. Predictions use all rows.

Parameters: (2 dim + 1) width + (layers - 1) (width + 1) width + (width + 1) in_channels out_channels + 7 layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdebench_hss import TaskInfo

from .quadrature import cell_sizes
from .rational import Rational

# Numbers in one hidden tensor of a chunk: few enough for a CPU's cache (benchmarks/green_learning_chunks.py), many
# enough to keep a GPU busy. Two such tensors per layer are kept for the backward pass.
CHUNK = {"cpu": 2**19, "cuda": 2**24}


class GreenLearning(nn.Module):
    points: Tensor  # (N, dim): the points inside the domain, scaled to [-1, 1]
    cells: Tensor  # (N,): their quadrature weights
    inside: Tensor  # (N,): their places in the flattened grid

    def __init__(self, task: TaskInfo, layers: int, width: int, targets_per_step: int) -> None:
        super().__init__()
        self.channels = (task.out_channels, task.in_channels)
        self.grid = task.grid
        inside = np.arange(np.prod(task.grid)) if task.mask is None else np.flatnonzero(task.mask)
        low, high = np.array(task.domain).T  # (dim,) each
        points = 2 * (task.coords.reshape(task.dim, -1).T - low) / (high - low) - 1
        self.register_buffer("points", torch.as_tensor(points[inside], dtype=torch.float32), persistent=False)
        self.register_buffer(
            "cells", torch.as_tensor(cell_sizes(task).ravel()[inside], dtype=torch.float32), persistent=False
        )
        self.register_buffer("inside", torch.as_tensor(inside), persistent=False)
        self.green = GreenFunction(task.dim, layers, width, self.channels[0] * self.channels[1])
        self.targets_per_step = min(targets_per_step, len(inside))
        self._rows: Tensor | None = None  # G at all pairs, (N, N, out * in)
        self._rows_of: Tensor | None = None  # the parameters they were all computed with

    def forward(self, f: Tensor) -> Tensor:
        weighted = f.flatten(2)[..., self.inside] * self.cells  # (batch, in, N)
        if not torch.is_grad_enabled():
            u = self._integrate(self._current_rows(), weighted)
        elif self.training and self.targets_per_step < len(self.points):
            u = self._sampled(weighted)
        else:
            u = ByChunks.apply(self, weighted, *self.green.parameters())
        field = f.new_zeros(len(f), self.channels[0], f[0, 0].numel())  # zero outside the domain
        return field.index_copy(2, self.inside, u).unflatten(2, self.grid)  # (batch, out, *grid)

    def _integrate(self, rows: Tensor, weighted: Tensor) -> Tensor:
        rows = rows.unflatten(-1, self.channels)  # (targets, N, out, in)
        return torch.einsum("tjoi,bij->bot", rows, weighted)

    def integral(self, targets: Tensor, weighted: Tensor) -> Tensor:
        return self._integrate(self.green(targets, self.points), weighted)  # (batch, out, targets)

    def chunks(self, *fields: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """The targets in groups that make hidden tensors of a good size, and the same groups of (batch, out, N)."""
        numbers = CHUNK.get(self.points.device.type, 2**24)
        count = max(1, numbers // (len(self.points) * self.green.first.out_features))
        return zip(self.points.split(count), *(field.split(count, dim=2) for field in fields), strict=True)

    def _current_rows(self) -> Tensor:
        """G at all pairs for the parameters as they are, computed again only when they have changed.

        Their values are compared: fused optimisers change a tensor without raising its version.
        """
        now = torch.cat([p.detach().flatten() for p in self.parameters()])
        if self._rows is None or not _same(self._rows_of, now):
            with torch.inference_mode(False), torch.no_grad():
                self._rows = torch.cat([self.green(targets, self.points) for (targets,) in self.chunks()])
            self._rows_of = now
        return self._rows

    def _sampled(self, weighted: Tensor) -> Tensor:
        """All targets, a random few of them computed anew with gradients, the others from the stored matrix."""
        count = len(self.points)
        if self._rows is None or (self._rows.dtype, self._rows.device) != (self.points.dtype, self.points.device):
            self._rows = self.points.new_zeros(count, count, self.channels[0] * self.channels[1])
        drawn = torch.randperm(count, device=self.points.device)[: self.targets_per_step]
        fresh = self.green(self.points[drawn], self.points)  # (targets, N, out * in)
        self._rows[drawn] = fresh.detach()
        self._rows_of = None
        boosted = fresh * (count / len(drawn))
        fresh = boosted + (fresh - boosted).detach()  # the value of fresh, count / targets times its gradient
        u = self._integrate(self._rows, weighted)  # (batch, out, N)
        return u.index_copy(2, drawn, self._integrate(fresh, weighted))


def _same(a: Tensor | None, b: Tensor) -> bool:
    return a is not None and (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)


class ByChunks(torch.autograd.Function):
    """The integral at chunk after chunk of targets; the backward pass computes and differentiates each chunk again."""

    @staticmethod
    def forward(ctx: Any, model: GreenLearning, weighted: Tensor, *parameters: Tensor) -> Tensor:
        ctx.model = model
        ctx.save_for_backward(weighted, *parameters)
        u = weighted.new_empty(len(weighted), model.channels[0], len(model.points))  # (batch, out, N)
        for targets, place in model.chunks(u):
            place.copy_(model.integral(targets, weighted))
        return u

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weighted, *parameters = ctx.saved_tensors
        leaves = [weighted.detach().requires_grad_(ctx.needs_input_grad[1]), *parameters]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        sums = [torch.zeros_like(leaf) for leaf in wanted]
        for targets, part in ctx.model.chunks(grad):
            with torch.enable_grad():
                u = ctx.model.integral(targets, leaves[0])
            for total, term in zip(sums, torch.autograd.grad(u, wanted, part), strict=True):
                total += term
        remaining = iter(sums)
        return None, *(next(remaining) if leaf.requires_grad else None for leaf in leaves)


class GreenFunction(nn.Module):
    """G(x, y) for all pairs of targets x and sources y."""

    def __init__(self, dim: int, layers: int, width: int, outputs: int) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(2 * dim, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers - 1))
        self.activations = nn.ModuleList(Rational() for _ in range(layers))
        self.last = nn.Linear(width, outputs)
        for linear in (self.first, *self.hidden, self.last):  # the authors: a truncated normal, same scale
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, targets: Tensor, sources: Tensor) -> Tensor:
        # The first layer acts on (x, y). It is split, so that no array of coordinate pairs is made.
        of_x = targets @ self.first.weight[:, : self.dim].T + self.first.bias  # (targets, width)
        of_y = sources @ self.first.weight[:, self.dim :].T  # (sources, width)
        h = self.activations[0](of_x[:, None] + of_y)  # (targets, sources, width)
        for linear, activation in zip(self.hidden, self.activations[1:], strict=True):
            h = activation(linear(h))
        return self.last(h)  # (targets, sources, outputs)
