"""Every model keeps the promises of the contract that plugin authors test theirs with."""

from __future__ import annotations

import pytest

from pdebench_hss.contract.registry import BUILT_IN, load_registry
from pdebench_hss.testing import Case, cases

REGISTRY = load_registry()
MODELS = [name for name, found in REGISTRY.models.items() if found.origin.distribution == BUILT_IN]
TASKS = ("poisson_1d", "poisson_2d", "heat_1d", "gray_scott_forward")  # the first one that a model can do


def first_task(model: str) -> str:
    spec = REGISTRY.model(model).spec
    return next(name for name in TASKS if spec.unsupported(REGISTRY.task(name).spec.info("smoke")) is None)


def promises() -> list[Case]:
    """Learning takes seconds a model, and whole trials show it; the rest is quick."""
    found = [case for name in MODELS for case in cases(name, REGISTRY, first_task(name))]
    return [case for case in found if case.name != "learns_four_samples"]


@pytest.mark.parametrize("case", promises(), ids=str)
def test_a_promise_is_kept(case):
    case.run()
