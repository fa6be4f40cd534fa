"""What training minimises: mean squared error over the points inside the domain, or a model's own loss.

The paper's loss is ||pred - target||^2 averaged over the batch; its name, mean squared error, averages over points too.
The two differ by a constant factor that AdamW ignores but gradient clipping does not: the mean over points is used.

A model may have a method ``loss(prediction, target, batch) -> scalar``. Both fields are normalised, ``batch`` is a
`Batch`. It should be a mean over the samples of the batch, so that a smaller last batch has the right weight.

Unrolled over k steps of a rollout task, with y_j the normalised residual that the model predicts at its own state x_j
and t_j the true one,

    loss = 1/k sum_{j<k} loss(y_0 + ... + y_j, t_0 + ... + t_j),        x_{j+1} = x_j + restored y_j

The sums are what the state and the truth have moved since the window began, so their difference is the error of the
state after j + 1 steps; the first term is the loss of one step. ``detach`` stops gradients between steps: each step
then learns to correct the state that it is given, and no gradient reaches the steps that led there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..contract.task import TaskInfo
from ..contract.traits import has_own_loss
from .normalization import Normalizer
from .streaming import Pairs


class Units:
    """Scale and shift, ``(channels, 1, ...)``, on the fields' device: sent there once and not with each batch."""

    def __init__(self, normalizer: Normalizer, dim: int, dtype: torch.dtype, device: torch.device) -> None:
        self.inputs, self.outputs = (
            tuple(torch.as_tensor(v, dtype=dtype).reshape(-1, *(1,) * dim).to(device) for v in (a.scale, a.shift))
            for a in (normalizer.inputs, normalizer.outputs)
        )


@dataclass(frozen=True)
class Batch:
    """What a model's own loss receives besides prediction and target.

    inputs      normalised, ``(batch, in_channels, *grid)``; for an unrolled window, those at its start
    task        a `TaskInfo`: grid, coordinates, boundary, domain, parameters
    normalizer  shift and scale per channel (numpy), of ``inputs`` and ``outputs``
    mask        1 inside the domain and 0 outside, of shape ``grid``; None where every point is inside
    step        of an unrolled window, counted from 0
    """

    inputs: Tensor
    task: TaskInfo
    normalizer: Normalizer
    mask: Tensor | None = None
    step: int = 0
    units: Units | None = field(default=None, repr=False)

    def physical(self, values: Tensor) -> Tensor:
        """A prediction or target in physical units; of a rollout task, what the field moved since the window began."""
        scale, shift = self._units.outputs
        return values * scale + (self.step + 1) * shift

    def physical_inputs(self) -> Tensor:
        scale, shift = self._units.inputs
        return self.inputs * scale + shift

    def state(self, values: Tensor) -> Tensor:
        """Rollout tasks: the physical field at the end of the step that a prediction or target is about."""
        return self.physical_inputs()[:, : values.shape[1]] + self.physical(values)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of ``(batch, channels, *grid)`` over samples, channels and the points inside the domain."""
        return values.mean() if self.mask is None else (values * self.mask).mean() / self.mask.mean()

    @property
    def _units(self) -> Units:
        return self.units or Units(self.normalizer, self.inputs.ndim - 2, self.inputs.dtype, self.inputs.device)


class Objective:
    """The loss of a module on a batch of training pairs, as ``loss.backward()`` wants it."""

    def __init__(self, module: nn.Module, train: Pairs, device: torch.device, *, detach: bool = False) -> None:
        self.module, self.forward, self.train, self.device, self.detach = module, module, train, device, detach
        mask = train.task.mask
        self.mask = None if mask is None else torch.as_tensor(mask).to(device, train.dtype)
        self.squared_error = None if has_own_loss(type(module)) else mean_squared_error(self.mask)

    @cached_property
    def units(self) -> Units:
        return Units(self.train.normalizer, self.train.task.dim, self.train.dtype, self.device)

    def of(self, module: nn.Module, forward: nn.Module | None = None) -> Objective:
        """The same for another module, or for one that is called through a wrapper."""
        other = copy.copy(self)
        other.module, other.forward = module, forward or module
        return other

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """``y`` is ``(batch, out_channels, *grid)``, or ``(batch, unroll, channels, *grid)``."""
        if self.train.unroll == 1:
            return self._loss(self.forward(x), y, x)
        return self._unrolled(x, y)

    def _unrolled(self, start: Tensor, residuals: Tensor) -> Tensor:
        x, total = start, start.new_zeros(())
        moved = target = torch.zeros_like(residuals[:, 0])  # what state and truth have moved since the start
        for step in range(self.train.unroll):
            y = self.forward(x)
            _check_shape(y, target)
            moved, target = moved + y, target + residuals[:, step]
            total = total + self._loss(moved, target, start, step)
            if self.detach:
                y, moved = y.detach(), moved.detach()
            if step + 1 < self.train.unroll:
                x = self._advanced(x, y)
        return total / self.train.unroll

    def _advanced(self, x: Tensor, residual: Tensor) -> Tensor:
        """The normalised input after a step of the normalised residual: new frame first, oldest dropped."""
        (scale_in, _), (scale, shift) = self.units.inputs, self.units.outputs
        channels = residual.shape[1]
        newest = x[:, :channels] + (residual * scale + shift) / scale_in[:channels]
        return torch.cat([newest.to(x.dtype), x[:, :-channels]], dim=1)

    def _loss(self, prediction: Tensor, target: Tensor, inputs: Tensor, step: int = 0) -> Tensor:
        if self.squared_error is not None:
            return self.squared_error(prediction, target)
        _check_shape(prediction, target)
        batch = Batch(inputs, self.train.task, self.train.normalizer, self.mask, step, self.units)
        own: Any = self.module.loss
        return _one_number(own(prediction, target, batch))


def mean_squared_error(mask: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Over the points inside the domain."""
    share = 1.0 if mask is None else mask.cpu().double().mean().item()  # a device may have no float64

    def loss(prediction: Tensor, target: Tensor) -> Tensor:
        _check_shape(prediction, target)
        if mask is None:
            return nn.functional.mse_loss(prediction, target)
        return ((prediction - target) * mask).square().mean() / share

    return loss


def _check_shape(prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:  # torch would broadcast, and train something else
        raise ValueError(f"the model's output has shape {tuple(prediction.shape)}, expected {tuple(target.shape)}")


def _one_number(loss: Any) -> Tensor:
    """Check what a model's own loss returned; the error says what it should be."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"the model's loss returned a {type(loss).__name__}, expected a tensor with one number")
    if loss.ndim:
        raise ValueError(f"the model's loss has shape {tuple(loss.shape)}, expected one number: take a mean over it")
    if not loss.is_floating_point():
        raise ValueError(f"the model's loss is of {loss.dtype}, expected a real number")
    if torch.is_grad_enabled() and not loss.requires_grad:
        raise ValueError("the model's loss has no gradient: compute it from the prediction, in torch")
    return loss
