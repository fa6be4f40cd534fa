"""Predictions in physical units, and how long they take.

A rollout starts from u(0) and feeds every prediction back: u <- u + residual. The state is kept in float64 and the
model is called in its own precision, so that rounding of the state is not charged to the model. With history the state
is the k newest frames, newest first: the new one comes to the front, the oldest goes.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..base.devices import DEFAULT_PRECISION
from ..contract.task import TaskInfo
from .normalization import Normalizer
from .trial_device import autocast, float64_device

TIMING_SECONDS = 1.0
TIMING_REPEATS = 5
LEVEL_SECONDS = 0.05  # enough time for solving one input repeatedly
LEVEL_SAMPLES = 16  # inputs on which all levels of a classical solver are measured


class Predictor:
    """A fitted model as a function of physical inputs, in batches."""

    def __init__(
        self,
        model: Any,
        task: TaskInfo,
        normalizer: Normalizer,
        batch: int,
        device: torch.device,
        precision: str = DEFAULT_PRECISION,
    ) -> None:
        self.model, self.task, self.normalizer, self.batch, self.device = model, task, normalizer, batch, device
        self.precision = precision
        if isinstance(model, nn.Module):
            model.eval()
        self.dtype = _dtype(model)
        self._state_device = float64_device(device)
        self._constants: dict[int, list[Tensor]] = {}  # of the normaliser, by the number of axes

    def in_batches_of(self, batch: int) -> Predictor:
        """The same model with another batch size."""
        twin = copy.copy(self)
        twin.batch = batch
        return twin

    def __call__(self, inputs: np.ndarray, steps: int | None = None) -> np.ndarray:
        """``steps`` of a rollout; by default as many as the task's trajectories have."""
        if hasattr(self.model, "solve"):
            return np.asarray(self.model.solve(inputs))
        return np.concatenate(list(self.blocks(inputs, steps)))

    def blocks(self, inputs: np.ndarray, steps: int | None = None) -> Iterator[np.ndarray]:
        """The same, batch by batch."""
        return (self._block(inputs[i : i + self.batch], steps) for i in range(0, len(inputs), self.batch))

    def parts(self, inputs: np.ndarray, at_once: int) -> Iterator[np.ndarray]:
        """Of about ``at_once`` samples each: in whole batches, so that these are the same however many parts there are.
        A model that solves knows no batches."""
        step = at_once if hasattr(self.model, "solve") else max(1, at_once // self.batch) * self.batch
        return (inputs[i : i + step] for i in range(0, len(inputs), step))

    @torch.no_grad()
    def _block(self, inputs: np.ndarray, steps: int | None) -> np.ndarray:
        state = torch.as_tensor(inputs).to(self._state_device).to(torch.float64)
        if not self.task.rollout:
            return self._apply(state).cpu().numpy()
        frames = []
        channels = self.task.out_channels
        for _ in range(steps or self.task.size.steps):
            newest = state[:, :channels] + self._apply(state)
            frames.append(newest)
            state = torch.cat([newest, state[:, :-channels]], dim=1) if self.task.history > 1 else newest
        return torch.stack(frames, dim=1).cpu().numpy()  # (batch, steps, c, *grid)

    def _apply(self, state: Tensor) -> Tensor:
        shift, scale, _, _ = self._affine(state.ndim)
        x = ((state - shift) / scale).to(self.dtype)
        with autocast(self.device, self.precision):
            y = self.model(x.to(self.device))
        y = y.to(self._state_device).to(torch.float64)  # moved first: a device may lack float64
        _, _, shift, scale = self._affine(y.ndim)
        return y * scale + shift

    def _affine(self, ndim: int) -> list[Tensor]:
        """Shift and scale of inputs and outputs, ``(1, c, 1, ...)``: sent to the device once, not with each batch."""
        if ndim not in self._constants:
            self._constants[ndim] = [
                torch.as_tensor(values, dtype=torch.float64).reshape(1, -1, *[1] * (ndim - 2)).to(self._state_device)
                for affine in (self.normalizer.inputs, self.normalizer.outputs)
                for values in (affine.shift, affine.scale)
            ]
        return self._constants[ndim]


def time_prediction(
    predict: Callable[[np.ndarray], np.ndarray], inputs: np.ndarray, enough: float = TIMING_SECONDS
) -> float:
    """Seconds for all of ``inputs``: the median of a few runs, after the caller's first one as warm-up."""
    seconds: list[float] = []
    while len(seconds) < TIMING_REPEATS and sum(seconds) < enough:
        start = time.perf_counter()
        predict(inputs)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def solve_levels(model: Any, inputs: np.ndarray) -> Iterator[tuple[int, np.ndarray, float, float]]:
    """Level, solutions and seconds of each level of a classical solver for a few of the inputs, and its seconds for one
    input alone. If a second run would take long, the first one counts."""
    few = inputs[:LEVEL_SAMPLES]
    for level in model.levels:
        solve = partial(model.solve, level=level)
        start = time.perf_counter()
        solutions = np.asarray(solve(few))
        seconds = time.perf_counter() - start
        if seconds < TIMING_SECONDS:
            seconds = time_prediction(solve, few)
        yield int(level), solutions, seconds, time_prediction(solve, few[:1], LEVEL_SECONDS)


def _dtype(model: Any) -> torch.dtype:
    """The precision a model works in: that of its parameters or buffers; closed forms are float64."""
    if isinstance(model, nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() or tensor.is_complex():
                return tensor.real.dtype if tensor.is_complex() else tensor.dtype
    return torch.float64
