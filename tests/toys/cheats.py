"""A plugin file of models that would rather not learn, and an honest one to measure them by."""

from __future__ import annotations

from pdebench_hss import ModelSpec, hookimpl

NAMES = ("Honest", "ReadsFrames", "ScansGarbage", "PatchesTheMetric", "LeavesAPickle", "ForgesAResult", "Babbles")


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [ModelSpec(name=f"cheat_{name.lower()}", title=name, build=f"cheat_modules:{name}") for name in NAMES]
