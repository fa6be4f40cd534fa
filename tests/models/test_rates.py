"""Default learning rates are those that `tune` chose, with as many tries for every model."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pdebench_hss_models import rates

from pdebench_hss.contract.registry import load_registry

TUNING = Path(__file__).resolve().parents[2] / "leaderboards" / "tuning"
SCALES = sorted({scale for scale, _, _ in rates.rates()})


@pytest.mark.parametrize("scale", SCALES)
def test_they_are_those_of_the_committed_file(scale):
    rows = rates.chosen(TUNING / f"{scale}.yaml")
    assert {(row["task"], row["model"]): float(row["lr"]) for row in rows} == {
        (task, model): lr for (at, task, model), lr in rates.rates().items() if at == scale
    }


@pytest.mark.parametrize("scale", SCALES)
def test_every_model_had_as_many_tries_on_every_task(scale):
    found = yaml.safe_load((TUNING / f"{scale}.yaml").read_text())
    assert {one["tries"] for one in found["chosen"]} == {found["tries"]}
    registry = load_registry()
    expected = {
        (task, model)
        for task in (choice.name for choice in registry.choose_tasks("all"))
        for model, found_model in registry.models.items()
        if found_model.spec.is_trained() and not found_model.spec.training_free
        if _supports(found_model.spec, registry.task(task).spec.info(scale))
    }
    assert {(one["task"], one["model"]) for one in found["chosen"]} == expected


def _supports(model, task) -> bool:
    return model.supports is None or model.supports(task) is None


def test_a_model_trains_with_its_rate_at_that_scale_and_no_other():
    (scale, task, model), rate = next(iter(rates.rates().items()))
    registry = load_registry()
    spec, task_spec = registry.model(model).spec, registry.task(task).spec
    assert spec.recipe_for(task_spec.info(scale))["lr"] == rate
    assert spec.recipe_for(task_spec.info("paper")).get("lr") != rate
