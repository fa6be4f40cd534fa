"""A plugin file for tests of what is kept of a model: states of every kind, and models that hide theirs."""

from __future__ import annotations

from pdebench_hss import ModelSpec, hookimpl


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    def model(name: str, build: str) -> ModelSpec:
        return ModelSpec(name=name, title=name, build=f"kept_modules:{build}")

    return [
        model("kept_mixed", "Mixed"),
        model("kept_sized", "Sized"),
        model("kept_solver", "Solver"),
        model("kept_hidden", "Hidden"),
        model("kept_words", "Words"),
    ]
