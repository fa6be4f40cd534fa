"""A random HSS operator met through Gaussian samples: the setting of Theorem 2.3 (exact recovery)."""

from __future__ import annotations

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.hss_recovery"

# Of the rates 3e-3, 1e-2 and 3e-2 the last leaves the smallest training loss for one HSS layer (ranks 2 and 8).
SMOKE = Recipe(steps=4, batch=4)
SMALL = Recipe(steps=2000, batch=32, lr=3e-2, lr_min=1e-5)
MEDIUM = Recipe(steps=8000, batch=32, lr=3e-2, lr_min=1e-5)
PAPER = Recipe(steps=20_000, batch=64, lr=3e-2, lr_min=1e-5)

HSS_RECOVERY = TaskSpec(
    name="hss_recovery",
    title="HSS operator recovery",
    equation="u = A b, A a random self-adjoint HSS matrix, b standard Gaussian",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    normalization="none",
    params={"rank": 2, "levels": 3, "operator": 0},
    generate=f"{HERE}.random_operator:generate",
    scales={
        "smoke": Scale(grid=(32,), train=48, test=16, recipe=SMOKE),
        "small": Scale(grid=(128,), train=256, test=100, recipe=SMALL),
        "medium": Scale(grid=(256,), train=512, test=200, recipe=MEDIUM),
        "paper": Scale(grid=(1024,), train=2048, test=200, recipe=PAPER),
    },
    in_all=False,  # no PDE, and made for one of the models: averages over tasks leave it out
    citation=NEURAL_HSS,
    description="A matrix of given HSS rank and levels; how many samples until a model has it exactly?",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [HSS_RECOVERY]
