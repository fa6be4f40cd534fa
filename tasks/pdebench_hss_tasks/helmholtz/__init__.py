"""Helmholtz' equation -Lap u - kappa^2 u = f on the periodic unit square."""

from __future__ import annotations

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.helmholtz"

SMALL = Recipe(steps=1000, batch=16, lr=8e-4, lr_min=1e-5, weight_decay=1e-5)
MEDIUM = Recipe(steps=2000, batch=16, lr=8e-4, lr_min=1e-5, weight_decay=1e-5)
PAPER = Recipe(epochs=1000, batch=64, lr=8e-4, lr_min=1e-5, weight_decay=1e-5)

HELMHOLTZ_2D = TaskSpec(
    name="helmholtz_2d",
    title="Helmholtz equation",
    equation="-Lap u - kappa^2 u = f on the periodic unit square",
    dim=2,
    in_channels=1,
    out_channels=1,
    linear=True,
    periodic=True,
    generate=f"{HERE}.spectral:generate",
    coarse=f"{HERE}.spectral:coarse",
    residual=f"{HERE}.spectral:residual",
    options_at="pdebench_hss_tasks.poisson.grid:options_at",
    coarse_levels=3,
    params={"kappa": 70.0, "drawn": False},
    scales={
        "smoke": Scale(
            grid=(16, 16),
            train=8,
            test=4,
            recipe=Recipe(steps=4, batch=4),
            options={"solve": (32, 32), "modes": 5},
        ),
        "small": Scale(grid=(32, 32), train=512, test=256, recipe=SMALL, options={"solve": (64, 64), "modes": 10}),
        "medium": Scale(grid=(48, 48), train=2048, test=512, recipe=MEDIUM, options={"solve": (96, 96), "modes": 10}),
        "paper": Scale(grid=(64, 64), train=2250, test=250, recipe=PAPER, options={"solve": (128, 128), "modes": 10}),
    },
    citation=NEURAL_HSS,
    description="The forcing of poisson_2d. kappa = 70 lies close to the eigenvalue of the modes (10, 5) and (5, 10), "
    "which are amplified and dominate u.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [HELMHOLTZ_2D]
