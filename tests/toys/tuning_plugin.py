"""A plugin file for tests of tuning: one step of gradient descent, whose best rate is known, and models around it."""

from __future__ import annotations

from pdebench_hss import Integer, ModelSpec, Recipe, Scale, TaskSpec, hookimpl

SCALE = Scale((16,), train=10, test=4, recipe=Recipe(batch=8, steps=1, lr=1e-3, lr_min=1e-6))


def spread(task, scale):
    return {"width": Integer(1, 64, log=True)}


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [
        TaskSpec(
            name=name,
            title="Identity",
            equation="u = f",
            dim=1,
            in_channels=1,
            out_channels=1,
            linear=True,
            normalization="none",
            generate="tuning_modules:same",
            scales={"smoke": SCALE, "small": SCALE},
        )
        for name in ("identity", "identity_again")
    ]


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    def model(name: str, build: str, **more: object) -> ModelSpec:
        return ModelSpec(name=name, title=name, build=f"tuning_modules:{build}", **more)

    return [
        model("one_step", "OneStep"),
        model("one_step_wide", "Wide", hparams={"width": 4}, search=spread),
        model("one_step_huge", "Wide", hparams={"width": 4}, search={"width": Integer(1000, 2000)}),
        model("never", "Raises"),
        model("refuses", "OneStep", supports=lambda task: "needs a nonlinear PDE" if task.linear else None),
        model("wrong_space", "Wide", hparams={"width": 4}, search=lambda task, scale: {"widht": Integer(1, 2)}),
    ]
