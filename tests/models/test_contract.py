"""Every model keeps the promises of the contract that plugin authors test theirs with."""

from __future__ import annotations

import pytest

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.testing import Case, cases

REGISTRY = load_registry()
TASK = "poisson_1d"
INFO = REGISTRY.task(TASK).spec.info("smoke")


def promises() -> list[Case]:
    """Learning takes seconds a model, and whole trials show it; the rest is quick."""
    able = [name for name in REGISTRY.models if REGISTRY.model(name).spec.unsupported(INFO) is None]
    return [case for name in able for case in cases(name, REGISTRY, TASK) if case.name != "learns_four_samples"]


@pytest.mark.parametrize("case", promises(), ids=str)
def test_a_promise_is_kept(case):
    case.run()
