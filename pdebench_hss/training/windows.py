"""From samples to training pairs: normalised tensors, and for rollout tasks windows of consecutive frames.

A trajectory u_0, ..., u_S is cut into all windows that fit in it. A model that sees h frames (`TaskSpec.history`) and
is trained on k steps (``unroll``) gets, for the window whose newest known frame is u_t,

    input    u_t, u_{t-1}, ..., u_{t-h+1}                       (h c, *grid), newest first
    output   u_{t+1} - u_t, ..., u_{t+k} - u_{t+k-1}            (k, c, *grid); (c, *grid) for k = 1

The normaliser is fitted to all frames and all residuals of the training trajectories. So it does not depend on k, and
on h only in its number of channels: the frames of one field share one scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..contract.task import TaskInfo
from ..data.dataset import Split
from .normalization import Affine, Normalizer, fit_affine

if TYPE_CHECKING:
    from ..data.blind import BlindData
    from ..data.cache import TaskData


@dataclass(frozen=True)
class TrainSet:
    """Normalised training pairs: inputs ``(n, in_channels, *grid)`` and outputs ``(n, out_channels, *grid)``.

    For rollout tasks there is a pair for each step of each trajectory; with ``unroll`` k > 1 a window of k steps, whose
    outputs are ``(n, k, channels, *grid)``.
    """

    inputs: Tensor
    outputs: Tensor
    normalizer: Normalizer
    task: TaskInfo
    unroll: int = 1

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def dtype(self) -> torch.dtype:
        return self.inputs.dtype

    @property
    def nbytes(self) -> int:
        return self.inputs.nbytes + self.outputs.nbytes

    def pairs(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some pairs, copied."""
        index = index.to(self.inputs.device)
        return self.inputs[index], self.outputs[index]


def prepare(data: TaskData | BlindData, dtype: torch.dtype, unroll: int = 1) -> TrainSet:
    """Form the training pairs and fit the normaliser to them."""
    task, kind = data.task, data.task.spec.normalization
    assert isinstance(data.train, Split)  # else `streaming` has them
    inputs, outputs = data.train.inputs, data.train.outputs
    if task.rollout:
        frames = trajectories(inputs, outputs, task)
        residuals = np.diff(frames, axis=1)  # (n, S, c, *grid)
        of_fields = fit_affine(_flat(frames[:, :-1]), kind)
        normalizer = Normalizer(repeated(of_fields, task.history), fit_affine(_flat(residuals), kind))
        inputs, outputs = windows(frames, residuals, task.history, unroll)
    else:
        normalizer = Normalizer(fit_affine(inputs, kind), fit_affine(outputs, kind))
    return TrainSet(*normalised(inputs, outputs, normalizer, dtype, unroll), normalizer, task, unroll)


def normalised(
    inputs: np.ndarray, outputs: np.ndarray, normalizer: Normalizer, dtype: torch.dtype, unroll: int
) -> tuple[Tensor, Tensor]:
    """Training pairs as a model gets them; outputs are those of steps or, with ``unroll`` > 1, of windows."""
    targets = normalizer.outputs.normalise(_flat(outputs) if unroll > 1 else outputs)
    return (
        torch.as_tensor(normalizer.inputs.normalise(inputs), dtype=dtype),
        torch.as_tensor(targets.reshape(outputs.shape), dtype=dtype),
    )


def trajectories(inputs: np.ndarray, outputs: np.ndarray, task: TaskInfo) -> np.ndarray:
    """All known frames in the order of time, ``(n, S + 1, c, *grid)``."""
    known = inputs.reshape(len(inputs), task.history, task.out_channels, *task.grid)  # newest first
    return np.concatenate([known[:, ::-1], outputs], axis=1)


def windows(frames: np.ndarray, residuals: np.ndarray, history: int, unroll: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Inputs ``(windows, history * c, *grid)`` and the residuals of the steps after them."""
    count = frames.shape[1] - history - unroll + 1  # windows per trajectory
    newest = history - 1
    seen = [frames[:, newest - lag : newest - lag + count] for lag in range(history)]  # each (n, count, c, *grid)
    following = [residuals[:, newest + step : newest + step + count] for step in range(unroll)]
    inputs = np.stack(seen, axis=2).reshape(-1, history * frames.shape[2], *frames.shape[3:])
    outputs = _flat(np.stack(following, axis=2))  # (windows, unroll, c, *grid)
    return inputs, outputs[:, 0] if unroll == 1 else outputs


def _flat(x: np.ndarray) -> np.ndarray:
    """The first two axes as one."""
    return x.reshape(-1, *x.shape[2:])


def repeated(affine: Affine, times: int) -> Affine:
    return affine if times == 1 else Affine(np.tile(affine.shift, times), np.tile(affine.scale, times))
