"""A plugin file for tests: quick tasks, a small model that learns them, and models that misbehave."""

from __future__ import annotations

from pdebench_hss import ModelSpec, Recipe, Scale, TaskSpec, hookimpl


def scales(steps: int = 1, **options: float) -> dict[str, Scale]:
    return {
        "smoke": Scale((16,), train=12, test=4, steps=steps, recipe=Recipe(batch=4, steps=6), options=options),
        "small": Scale((16,), train=64, test=16, steps=steps, recipe=Recipe(batch=8, steps=400), options=options),
    }


def task(name: str, generate: str, **more: object) -> TaskSpec:
    settings: dict = {"scales": scales(), **more}
    return TaskSpec(
        name=name,
        title=name.replace("_", " "),
        equation="y = A x",
        dim=1,
        in_channels=1,
        out_channels=1,
        linear=True,
        generate=f"toy_arrays:{generate}",
        **settings,
    )


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [
        task("toy", "smooth"),
        task("toy_shared", "smooth", dataset="toy", view="toy_arrays:swapped"),
        task("toy_rollout", "decay", rollout=True, metric="trajectory_l2", scales=scales(steps=5)),
        task("toy_nan", "not_a_number"),
        task("toy_raises", "raises"),
        task("toy_shape", "wrong_shape"),
        task("toy_slow", "slow"),
        task("toy_params", "scaled", params={"factor": 2.0}),
    ]


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    def model(name: str, build: str, **more: object) -> ModelSpec:
        return ModelSpec(name=name, title=name, build=f"toy_modules:{build}", **more)

    return [
        model("toy_conv", "Conv", hparams={"width": 4}, size_knob="width"),
        model("toy_slow", "Slow", hparams={"seconds": 0.02}),
        model("toy_plain", "Plain", hparams={"seconds": 0.0}),
        model("toy_deserter", "Deserter", hparams={"seconds": 0.0}),
        model("toy_segfault", "Segfault"),
        model("toy_killed", "Killed"),
        model("toy_hang", "Hang"),
        model("toy_raise", "Raise"),
        model("toy_memory", "Memory"),
        model("toy_diverge", "Diverge"),
        model("toy_prints", "Prints"),
        model("toy_rollout_only", "Conv", supports=lambda t: None if t.rollout else "rollout tasks only"),
    ]
