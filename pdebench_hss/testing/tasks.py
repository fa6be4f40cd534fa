"""The task contract as a test suite: for ``pdebench-hss check TASK`` and for plugin authors' own tests.

    import pytest
    from pdebench_hss.testing import task_cases

    @pytest.mark.parametrize("case", task_cases("my_pde"), ids=str)
    def test_contract(case):
        case.run()

Each case is one promise at the task's smallest scale. They catch faults that falsify a benchmark silently: samples that
change with their neighbours or with other code's random numbers, test samples that are training samples, a "linear"
problem that is not. A task that reads files is tried on them: on its own, or on those in ``data_dir``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..base.errors import ContractError
from ..base.references import call_target
from ..contract.registry import Registry, load_registry
from ..contract.task import SCALES, Scale, TaskInfo, TaskSpec
from ..data.cache import as_seen, find_source, sample_seeds
from ..data.reading import read_whole

SAMPLES = 4
ROUNDING = 1e-6  # relative: the same sample computed in another batch
COARSE_ACCURACY = 0.1  # relative: level 0 of the classical solver against the data; inverse problems are ill-posed

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class TaskCase:
    """One promise of one task."""

    task: TaskSpec
    promise: Callable[[TaskSubject], None]
    files: Path | None = None  # that its reader is tried on; None for its generator

    def __str__(self) -> str:
        return f"{self.task.name}-{self.name}"

    @property
    def name(self) -> str:
        return f"{self.promise.__name__}{'_of_files' if self.files and self.task.generate else ''}"

    def run(self) -> None:
        """Raises `ContractError` if the promise is broken."""
        self.promise(ReadSubject(self.task, self.files) if self.files else TaskSubject(self.task))


@dataclass(frozen=True)
class TaskSubject:
    """A task with what the promises need of it: its first samples, made in memory."""

    spec: TaskSpec

    @cached_property
    def info(self) -> TaskInfo:
        return self.spec.info(next(scale for scale in SCALES if scale in self.spec.scales))

    @property
    def size(self) -> Scale:
        """Of the samples as they are stored: a model that sees several frames has fewer steps left."""
        return self.spec.scales[self.info.scale]

    @cached_property
    def count(self) -> int:
        """The number of samples to check: a few, in whole groups of those that share a seed."""
        return -(-SAMPLES // self.spec.cases) * self.spec.cases

    def stored(self, split: str, chosen: Sequence[int]) -> Pair:
        """The samples with these numbers as ``generate`` returns them, made in one batch."""
        seeds = sample_seeds(self.spec, split, 0, self.count)
        keywords = dict(self.spec.params)
        if self.spec.cases > 1:
            keywords["cases"] = np.array([number % self.spec.cases for number in chosen])
        inputs, outputs = call_target(self.spec.generate)([seeds[i] for i in chosen], self.size, **keywords)
        return np.asarray(inputs), np.asarray(outputs)

    @cached_property
    def all(self) -> Pair:
        return self.stored("train", range(self.count))

    @cached_property
    def seen(self) -> Pair:
        """The same samples as a model sees them."""
        return as_seen(self.spec, *self.all)


@dataclass(frozen=True)
class ReadSubject(TaskSubject):
    """A task with the samples that its reader finds in a directory."""

    place: Path

    def read(self) -> dict[str, Pair]:
        return read_whole(self.spec, self.place, self.size, {})

    @cached_property
    def once(self) -> dict[str, Pair]:
        return self.read()

    @cached_property
    def count(self) -> int:
        return self.size.train

    def stored(self, split: str, chosen: Sequence[int]) -> Pair:
        return self.once[split]


def task_cases(name: str, registry: Registry | None = None, data_dir: str | Path | None = None) -> list[TaskCase]:
    """Every promise that a task has to keep: of its generator, and of its reader where there are files to try it on."""
    spec = (registry or load_registry()).task(name).spec
    more: list[Callable[[TaskSubject], None]] = []
    if spec.coarse is not None:
        more = [coarse_solver_solves_the_same_problem, *([linear_means_linear] if spec.linear else [])]
    found = [TaskCase(spec, promise) for promise in (*PROMISES, *more)] if spec.generate else []
    if (spec.read or data_dir) and (source := find_source(spec, data_dir)):
        found += [TaskCase(spec, promise, source.path) for promise in (*PROMISES_OF_FILES, *more)]
    return found


def samples_have_the_right_shape(subject: TaskSubject) -> None:
    info = subject.info
    steps = (info.size.steps,) if info.rollout else ()
    expected = {
        "inputs": (subject.count, info.in_channels, *info.grid),
        "outputs": (subject.count, *steps, info.out_channels, *info.grid),
    }
    for name, array in zip(expected, subject.seen, strict=True):
        _demand(array.shape == expected[name], f"{name} have shape {array.shape}, expected {expected[name]}")
        _demand(array.dtype.kind == "f", f"{name} are {array.dtype}, expected real floating point")
        _demand(bool(np.isfinite(array).all()), f"{name} are not finite everywhere")


def a_sample_depends_on_its_seed_alone(subject: TaskSubject) -> None:
    """A sample does not depend on the others in its batch, nor on their order."""
    backwards = subject.stored("train", range(subject.count)[::-1])
    alone = subject.stored("train", [subject.count - 1])
    for name, together, reversed_, single in zip(("inputs", "outputs"), subject.all, backwards, alone, strict=True):
        _demand(_close(reversed_[::-1], together), f"{name} change with the order of the seeds")
        _demand(_close(single[0], together[-1]), f"{name} of a sample change with the others in its batch")


def nothing_but_the_seeds_is_random(subject: TaskSubject) -> None:
    """Twice the same call, with numpy's global generator in two states, gives the same bits."""
    state = np.random.get_state()  # noqa: NPY002 -- the global generator is what must not matter
    try:
        np.random.seed(1)  # noqa: NPY002
        first = subject.stored("train", range(subject.count))
        np.random.seed(2)  # noqa: NPY002
        second = subject.stored("train", range(subject.count))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    same = all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    _demand(same, "two calls with the same seeds differ: draw from np.random.default_rng(seed) only")


def no_two_samples_are_the_same(subject: TaskSubject) -> None:
    """No two samples are equal, not even one in train and one in test."""
    train, test = subject.all[0], subject.stored("test", range(subject.count))[0]
    rows = {np.ascontiguousarray(sample).tobytes() for sample in (*train, *test)}
    why = "is a file read twice?" if isinstance(subject, ReadSubject) else "does the seed matter?"
    _demand(len(rows) == len(train) + len(test), f"two samples have the same inputs: {why}")


def there_is_something_to_learn(subject: TaskSubject) -> None:
    inputs, outputs = subject.seen
    for name, array in (("inputs", inputs), ("outputs", outputs)):
        _demand(bool(array.any()), f"{name} are zero everywhere")
    _demand(bool((outputs != outputs[:1]).any()), "all outputs are the same: a constant would score perfectly")


def grid_and_mask_fit_the_task(subject: TaskSubject) -> None:
    info = subject.info
    expected = (info.dim, *info.grid)
    _demand(info.coords.shape == expected, f"coords have shape {info.coords.shape}, expected {expected}")
    if info.mask is not None:
        _demand(info.mask.shape == info.grid, f"the mask has shape {info.mask.shape}, expected {info.grid}")
        _demand(bool(info.mask.any()), "the mask leaves no point inside the domain")


PROMISES = (
    samples_have_the_right_shape,
    a_sample_depends_on_its_seed_alone,
    nothing_but_the_seeds_is_random,
    no_two_samples_are_the_same,
    there_is_something_to_learn,
    grid_and_mask_fit_the_task,
)


def files_are_read_the_same_twice(subject: TaskSubject) -> None:
    """Both splits are there with the number of samples of the scale, and a second reading gives the same bits."""
    assert isinstance(subject, ReadSubject)
    again, size = subject.read(), subject.size
    for split, count in (("train", size.train), ("test", size.test)):
        found = [len(array) for array in subject.once[split]]
        _demand(found == [count, count], f"{split}: {found[0]} inputs and {found[1]} outputs, expected {count}")
        same = all(np.array_equal(a, b) for a, b in zip(subject.once[split], again[split], strict=True))
        _demand(same, f"two readings of the same files differ in {split}")


PROMISES_OF_FILES = (
    files_are_read_the_same_twice,
    samples_have_the_right_shape,
    no_two_samples_are_the_same,
    there_is_something_to_learn,
    grid_and_mask_fit_the_task,
)


def coarse_solver_solves_the_same_problem(subject: TaskSubject) -> None:
    """Level 0 is close to the data; every level answers in the right shape."""
    inputs, outputs = subject.seen
    for level in range(subject.info.coarse_levels + 1):
        answer = subject.info.coarse(inputs, level)
        fits = answer.shape == outputs.shape and bool(np.isfinite(answer).all())
        _demand(fits, f"level {level} gave shape {answer.shape}, expected finite {outputs.shape}")
        if level == 0:
            error = _distance(answer, outputs)
            _demand(error <= COARSE_ACCURACY, f"level 0 is {error:.1e} away from the data, more than {COARSE_ACCURACY}")


def linear_means_linear(subject: TaskSubject) -> None:
    """The solver of a task that says ``linear`` takes sums to sums."""
    inputs = subject.seen[0]
    first, second = inputs[:1], inputs[1:2]
    solve = subject.info.coarse
    error = _distance(solve(2 * first - second, 0), 2 * solve(first, 0) - solve(second, 0))
    _demand(error <= ROUNDING, f"linear=True, but 2 a - b is solved {error:.1e} away from 2 u(a) - u(b)")


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and _distance(a, b) <= ROUNDING


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference, relative to the largest value."""
    return float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-300))


def _demand(kept: bool, message: str) -> None:
    if not kept:
        raise ContractError(message)
