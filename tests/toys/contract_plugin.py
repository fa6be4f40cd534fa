"""A plugin file of models that bring something of their training along, honestly or not."""

from __future__ import annotations

from pdebench_hss import ModelSpec, hookimpl

NAMES = (
    *("OwnLoss", "OwnOptimizer", "Lbfgs", "TrainsItself", "FullBatch", "IgnoresTheBudget", "NeverCallsItself"),
    *("VectorLoss", "NanLoss", "NoParameters", "Lightning", "HoldsALoss", "ClosedForm"),
)


def made_by_a_function(task):
    from contract_modules import OwnLoss

    return OwnLoss(task)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    named = [ModelSpec(name=f"own_{name.lower()}", title=name, build=f"contract_modules:{name}") for name in NAMES]
    return [*named, ModelSpec(name="own_function", title="By a function", build=made_by_a_function)]
