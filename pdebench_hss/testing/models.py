"""The model contract as a test suite: for ``pdebench-hss check NAME`` and for plugin authors' own tests.

    import pytest
    from pdebench_hss.testing import cases

    @pytest.mark.parametrize("case", cases("my_solver"), ids=str)
    def test_contract(case):
        case.run()

Each case is one promise on one task at scale ``smoke``. All of these have been broken by published code: a block whose
output is never used, a parameter that gets no gradient, a model that ignores its input, complex weights counted once.
`task_cases` is the same for tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ..base.errors import UsageError
from ..contract import traits
from ..contract.model import ModelSpec
from ..contract.registry import Registry, load_registry
from ..contract.task import TaskSpec
from .promises import TRAINED, UNTRAINED, learns_four_samples, no_seed_changes_it, size_knob_changes_the_size
from .subject import SCALE, Subject


@dataclass(frozen=True)
class Case:
    """One promise of one model on one task."""

    model: ModelSpec
    task: TaskSpec
    promise: Callable[[Subject], None]

    def __str__(self) -> str:
        return f"{self.model.name}-{self.task.name}-{self.name}"

    @property
    def name(self) -> str:
        return self.promise.__name__

    def misnamed(self) -> list[str]:
        """Lines about methods that look like part of the contract but are not."""
        return list(traits.misnamed(Subject(self.model, self.task.info(SCALE)).build()))

    def run(self) -> None:
        """Raises `ContractError` if the promise is broken."""
        threads = torch.get_num_threads()
        try:
            self.promise(Subject(self.model, self.task.info(SCALE)))
        finally:
            torch.set_num_threads(threads)


def cases(name: str, registry: Registry | None = None, tasks: str = "*") -> list[Case]:
    """Every promise of one model on every task that it supports. Learning is tried on one task per dimension."""

    registry = registry or load_registry()
    spec = registry.model(name).spec
    chosen = [registry.task(choice.name).spec for choice in registry.choose_tasks(tasks)]
    here = [task for task in chosen if SCALE in task.scales and task.finds_its_data]
    able = [task for task in here if spec.unsupported(task.info(SCALE)) is None]
    if not able:
        raise UsageError(f"model {name!r} supports none of the tasks {tasks!r} at scale {SCALE}")
    found = [Case(spec, task, promise) for task in able for promise in _promises(spec, task)]
    if _trained(spec, able[0]):
        by_dimension = {task.dim: task for task in reversed(able)}
        found += [Case(spec, by_dimension[dim], learns_four_samples) for dim in sorted(by_dimension)]
    return found


def _trained(spec: ModelSpec, task: TaskSpec) -> bool:
    return Subject(spec, task.info(SCALE)).is_trained


def _promises(spec: ModelSpec, task: TaskSpec) -> Iterator[Callable[[Subject], None]]:
    if spec.deterministic:
        yield no_seed_changes_it
    if not _trained(spec, task):
        yield from UNTRAINED
        return
    yield from TRAINED
    if spec.size_knob:
        yield size_knob_changes_the_size
