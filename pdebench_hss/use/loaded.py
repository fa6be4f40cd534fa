"""A trained model as an object: physical fields in, physical fields out.

    steady task     (batch, in_channels, *grid) -> (batch, out_channels, *grid)
    rollout task    (batch, channels, *grid)    -> (batch, steps, channels, *grid); with history, newest frame first

A single sample may omit its batch axis; then so does its answer. The answer has the type of the input: numpy or torch,
its device, its dtype. The computation is the one that was scored, by the same `Predictor`: with the trial's batch, on
its device and with its number of threads, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..base.errors import UsageError
from ..contract import traits
from ..contract.task import TaskInfo
from ..training.evaluation import Predictor
from ..training.normalization import Normalizer
from ..trials.record import Record

Array = TypeVar("Array", np.ndarray, Tensor)
Progress = Callable[[int, int], None]


class LoadedModel:
    """A model of a board. Call it on fields."""

    def __init__(self, predictor: Predictor, record: Record, description: Mapping[str, Any]) -> None:
        self.predictor, self.record, self.description = predictor, record, description
        self._other = predictor

    @property
    def module(self) -> Any:
        """The model itself, on normalised fields."""
        return self.predictor.model

    @property
    def task(self) -> TaskInfo:
        return self.predictor.task

    @property
    def normalizer(self) -> Normalizer:
        return self.predictor.normalizer

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return (self.task.in_channels, *self.task.grid)

    def __call__(
        self, inputs: Array, steps: int | None = None, batch: int | None = None, progress: Progress | None = None
    ) -> Array:
        """The answer to physical inputs. ``steps`` of a rollout default to the task's; ``batch`` samples are computed
        at a time, by default as in the trial; ``progress`` is called with the number done and the total."""
        values = _as_numpy(inputs)
        single = values.ndim == self.task.dim + 1
        answer = self.predict(values[None] if single else values, steps, batch, progress)
        answer = answer[0] if single else answer
        if isinstance(inputs, Tensor):
            dtype = inputs.dtype if inputs.is_floating_point() else torch.float64
            return torch.as_tensor(answer).to(inputs.device, dtype)
        return answer.astype(values.dtype) if values.dtype.kind == "f" else answer

    def predict(
        self, inputs: np.ndarray, steps: int | None = None, batch: int | None = None, progress: Progress | None = None
    ) -> np.ndarray:
        """The same for an array with its batch axis, in float64 as it was scored."""
        self.check(inputs)
        self._check_steps(steps)
        if batch is not None and batch < 1:
            raise UsageError(f"batch must be at least 1, not {batch}")
        size = batch or self.predictor.batch
        predict = self._with_batch(size)
        if progress is None or hasattr(self.module, "solve"):
            return self._cut(predict(inputs, steps), steps)
        blocks = []
        for start in range(0, len(inputs), size):
            blocks.append(predict(inputs[start : start + size], steps))
            progress(min(start + size, len(inputs)), len(inputs))
        return np.concatenate(blocks)

    def check(self, inputs: np.ndarray) -> None:
        """Raise `UsageError` for anything that is not a batch of this task's inputs."""
        wanted = ", ".join(map(str, ("batch", *self.input_shape)))
        if inputs.dtype.kind not in "fiub":
            raise UsageError(f"inputs are an array of {inputs.dtype}; {self.task.name} takes real numbers")
        if inputs.ndim != self.task.dim + 2:
            raise UsageError(f"inputs have shape {inputs.shape}; {self.task.name} takes ({wanted}), or one such sample")
        if inputs.shape[1] != self.task.in_channels:
            frames = f" ({self.task.history} frames, the newest first)" if self.task.history > 1 else ""
            raise UsageError(
                f"inputs have {inputs.shape[1]} channels; {self.task.name} takes {self.task.in_channels}{frames}: "
                f"({wanted})"
            )
        if inputs.shape[2:] != self.task.grid:
            raise UsageError(f"inputs are on a grid {inputs.shape[2:]}; this model was trained on {self.task.grid}")
        if not len(inputs):
            raise UsageError("inputs hold no sample")
        if not np.isfinite(inputs).all():
            finite = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
            raise UsageError(
                f"inputs hold NaN or infinity in {int((~finite).sum())} of {len(inputs)} samples, "
                f"the first is sample {int(np.argmin(finite))}"
            )

    def _check_steps(self, steps: int | None) -> None:
        if steps is None:
            return
        if not self.task.rollout:
            raise UsageError(f"steps={steps}: {self.task.name} is not a rollout task")
        if steps < 1:
            raise UsageError(f"steps must be at least 1, not {steps}")
        if steps > self.task.size.steps and hasattr(self.module, "solve"):
            raise UsageError(f"steps={steps}: {self.record.trial.model_label} solves {self.task.size.steps} steps")

    def _with_batch(self, batch: int) -> Predictor:
        p = self.predictor
        if batch != self._other.batch:  # the last one is cached
            self._other = Predictor(p.model, p.task, p.normalizer, batch, p.device, p.precision)
        return p if batch == p.batch else self._other

    def _cut(self, answer: np.ndarray, steps: int | None) -> np.ndarray:
        """A classical solver returns whole trajectories."""
        return answer[:, :steps] if steps is not None else answer

    def __repr__(self) -> str:
        trial, record = self.record.trial, self.record
        plugin = self.description.get("model", {}).get("plugin", {})
        origin = f"{plugin.get('distribution', '')} {plugin.get('version', '')}".strip() or "unknown"
        error, tested = record.metrics.get("test_err", float("nan")), record.data.get("n_test", "?")
        size = f"{record.parameters.get('real') or 0:,} parameters, {_precision(self.predictor)}"
        return "\n".join(
            (
                f"{trial.model_label} on {trial.task_label} ({self.task.spec.title}: {self.task.spec.equation})",
                f"  takes     {self._fields()}, in physical units",
                f"  {self._origin()}",
                f"  scored    {trial.metric or 'test error'} {error:.4g} on {tested} test samples",
                f"  is        {type(self.module).__name__}, {size}; {origin}, model version {trial.model_version}",
            )
        )

    def _origin(self) -> str:
        """What it learned from, and how."""
        trial, kind = self.record.trial, traits.kind_of(type(self.module))
        if kind == traits.SOLVER:
            return f"trained   not at all: it has nothing to learn; scale {trial.scale}"
        if kind == traits.CLOSED_FORM:
            return f"fitted    in closed form, scale {trial.scale}, {trial.n_train} samples"
        return f"trained   scale {trial.scale}, {trial.budget}, {trial.n_train} samples, seed {trial.seed}"

    def _fields(self) -> str:
        task = self.task
        text = f"{task.in_channels} -> {task.out_channels} channels on {' x '.join(map(str, task.grid))} points"
        if not task.rollout:
            return text
        start = f" from {task.history} frames" if task.history > 1 else ""
        return f"{text}, a rollout of {task.size.steps} steps{start}"


def _as_numpy(fields: Any) -> np.ndarray:
    if not isinstance(fields, Tensor):
        return np.asarray(fields)
    fields = fields.detach().cpu()
    return (fields.double() if fields.dtype == torch.bfloat16 else fields).numpy()  # numpy has no bfloat16


def _precision(predictor: Predictor) -> str:
    return f"{str(predictor.dtype).removeprefix('torch.')} on {predictor.device.type}"
