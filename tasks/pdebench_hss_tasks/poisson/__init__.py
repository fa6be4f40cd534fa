"""Poisson's equation -Lap u = f: interval, square, cube, L-shape, and a square with a hole."""

from __future__ import annotations

from dataclasses import replace

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.poisson"

SMOKE = Recipe(steps=4, batch=4)
SMALL_1D = Recipe(steps=500, batch=32, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
SMALL_2D = Recipe(steps=400, batch=16, lr=8e-4, lr_min=1e-5, weight_decay=1e-5)
SMALL_3D = Recipe(steps=500, batch=4, lr=5e-3, lr_min=1e-3)
MEDIUM_1D = Recipe(steps=4000, batch=64, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
MEDIUM_2D = Recipe(steps=2000, batch=16, lr=8e-4, lr_min=1e-5, weight_decay=1e-5)
MEDIUM_3D = Recipe(steps=1000, batch=4, lr=5e-3, lr_min=1e-3)
PAPER_1D = Recipe(epochs=500, batch=256, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
PAPER_NEUMANN = Recipe(epochs=1000, batch=256, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
PAPER_2D = Recipe(epochs=500, batch=128, lr=8e-4, lr_min=1e-5, weight_decay=1e-5)
PAPER_3D = Recipe(steps=16_000, batch=16, lr=5e-3, lr_min=1e-3)

# The generators' own numbers: the resolution of the solve, and how many terms the forcing sums along each axis.
SMOKE_OPTIONS_1D = {"solve": (128,), "modes": 10}
OPTIONS_1D = {"solve": (1024,), "modes": 10}
SMOKE_OPTIONS_2D = {"solve": (32, 32), "modes": 5}
SMALL_OPTIONS_2D = {"solve": (64, 64), "modes": 10}
MEDIUM_OPTIONS_2D = {"solve": (96, 96), "modes": 10}
OPTIONS_2D = {"solve": (128, 128), "modes": 10}

POISSON_1D = TaskSpec(
    name="poisson_1d",
    title="Poisson Eq. (1D)",
    family="poisson",
    equation="-u'' = f on (0, 1), u(0) = u(1) = 0",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    generate=f"{HERE}.dirichlet:generate_1d",
    coarse=f"{HERE}.dirichlet:coarse",
    residual=f"{HERE}.residual:on_box",
    coarse_levels=4,
    coords=f"{HERE}.grid:points",
    options_at=f"{HERE}.grid:options_at",
    params={"edge": 1},
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, recipe=SMOKE, options=SMOKE_OPTIONS_1D),
        "small": Scale(grid=(256,), train=256, test=200, recipe=SMALL_1D, options=OPTIONS_1D),
        "medium": Scale(grid=(256,), train=2048, test=1000, recipe=MEDIUM_1D, options=OPTIONS_1D),
        "paper": Scale(grid=(256,), train=1000, test=1000, recipe=PAPER_1D, options=OPTIONS_1D),
    },
    citation=NEURAL_HSS,
    description="Ten sine modes with coefficients U(0, 1); fourth-order five-band differences.",
)

POISSON_1D_NEUMANN = replace(
    POISSON_1D,
    name="poisson_1d_neumann",
    dataset="poisson_1d_neumann",
    title="Poisson Neumann BC",
    equation="-u'' = f on (0, 1), u'(0) = u'(1) = 0, mean of u = 0",
    boundary="neumann",
    generate=f"{HERE}.neumann:generate",
    coarse=f"{HERE}.neumann:coarse",
    residual=f"{HERE}.residual:on_interval",
    params={},
    scales={
        **POISSON_1D.scales,
        "paper": Scale(grid=(256,), train=1000, test=1000, recipe=PAPER_NEUMANN, options=OPTIONS_1D),
    },
    description="The forcing of poisson_1d; five-band differences, fourth order up to the ends; u is mean-free.",
)

# Fewer samples than modes, so that no linear fit of the training set can be the operator.
POISSON_1D_GRF = replace(
    POISSON_1D,
    name="poisson_1d_grf",
    dataset="poisson_1d_grf",
    title="Poisson Eq. (1D, random field)",
    generate=f"{HERE}.dirichlet:generate_field",
    params={"length": 0.01},
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, recipe=SMOKE, options={"solve": (128,)}),
        "small": Scale(grid=(256,), train=128, test=200, recipe=SMALL_1D, options={"solve": (1024,)}),
        "medium": Scale(
            grid=(256,), train=200, test=1000, recipe=replace(MEDIUM_1D, batch=32), options={"solve": (1024,)}
        ),
        "paper": Scale(
            grid=(256,), train=200, test=1000, recipe=replace(PAPER_1D, epochs=2000), options={"solve": (1024,)}
        ),
    },
    citation="",
    description="Beyond the paper: a Gaussian random field with all 255 modes, where poisson_1d's forcing has 10.",
)

POISSON_2D = TaskSpec(
    name="poisson_2d",
    title="Poisson Eq.",
    family="poisson",
    equation="-Lap u = f on the unit square, u = 0 on its boundary",
    dim=2,
    in_channels=1,
    out_channels=1,
    linear=True,
    generate=f"{HERE}.dirichlet:generate_2d",
    coarse=f"{HERE}.dirichlet:coarse",
    residual=f"{HERE}.residual:on_box",
    coarse_levels=3,
    coords=f"{HERE}.grid:points",
    options_at=f"{HERE}.grid:options_at",
    params={"drawn": False},
    scales={
        "smoke": Scale(grid=(16, 16), train=8, test=4, recipe=SMOKE, options=SMOKE_OPTIONS_2D),
        "small": Scale(grid=(32, 32), train=512, test=256, recipe=SMALL_2D, options=SMALL_OPTIONS_2D),
        "medium": Scale(grid=(48, 48), train=2048, test=512, recipe=MEDIUM_2D, options=MEDIUM_OPTIONS_2D),
        "paper": Scale(grid=(64, 64), train=4200, test=800, recipe=PAPER_2D, options=OPTIONS_2D),
    },
    citation=NEURAL_HSS,
    description="100 sine modes with coefficients U(0, 1); fourth-order nine-point stencil.",
)

SCALES_2D = {
    **POISSON_2D.scales,
    "paper": Scale(grid=(64, 64), train=2250, test=250, recipe=PAPER_2D, options=OPTIONS_2D),
}

POISSON_2D_LSHAPE = replace(
    POISSON_2D,
    name="poisson_2d_lshape",
    dataset="poisson_2d_lshape",
    title="Poisson Eq. (L-shape domain)",
    equation="-Lap u = f on the square without its top-right quarter, u = 0 on the boundary",
    generate=f"{HERE}.lshape:generate",
    coarse=f"{HERE}.lshape:coarse",
    residual=f"{HERE}.residual:on_lshape",
    mask=f"{HERE}.lshape:mask",
    params={"drawn": False, "factor": 2},
    scales=SCALES_2D,
    description="The forcing of poisson_2d, which makes u the square's solution cut out; factor=1 feels the corner.",
)

POISSON_2D_MIXED = replace(
    POISSON_2D,
    name="poisson_2d_mixed",
    dataset="poisson_2d_mixed",
    title="Poisson Eq. (Mixed BC)",
    equation="-Lap u = f on the periodic square without a disk of radius 0.2, du/dn = 0 on the circle",
    periodic=True,
    boundary="mixed",
    generate=f"{HERE}.disk:generate",
    coarse=f"{HERE}.disk:coarse",
    residual=f"{HERE}.residual:around_disk",
    mask=f"{HERE}.disk:mask",
    scales=SCALES_2D,
    description="The forcing of poisson_2d; nine-point finite volumes with cells cut by the circle; u is mean-free.",
)

POISSON_2D_GRF = replace(
    POISSON_2D,
    name="poisson_2d_grf",
    dataset="poisson_2d_grf",
    title="Poisson Eq. (2D, random field)",
    generate=f"{HERE}.dirichlet:generate_field",
    params={"length": 0.03},
    scales={
        "smoke": Scale(grid=(16, 16), train=8, test=4, recipe=SMOKE, options={"solve": (32, 32)}),
        "small": Scale(grid=(32, 32), train=512, test=256, recipe=SMALL_2D, options={"solve": (64, 64)}),
        "medium": Scale(grid=(48, 48), train=1536, test=512, recipe=MEDIUM_2D, options={"solve": (96, 96)}),
        "paper": Scale(grid=(64, 64), train=2250, test=250, recipe=PAPER_2D, options={"solve": (128, 128)}),
    },
    citation="",
    description="Beyond the paper: a Gaussian random field with all 3969 modes, where poisson_2d's forcing has 100.",
)

POISSON_3D = TaskSpec(
    name="poisson_3d",
    title="Poisson Eq. (3D)",
    family="poisson",
    equation="-Lap u = f on the unit cube, u = 0 on its boundary",
    dim=3,
    in_channels=1,
    out_channels=1,
    linear=True,
    generate=f"{HERE}.dirichlet:generate_3d",
    coarse=f"{HERE}.dirichlet:coarse",
    residual=f"{HERE}.residual:on_box",
    coarse_levels=3,
    coords=f"{HERE}.grid:points",
    options_at=f"{HERE}.grid:options_at",
    params={"drawn": True},
    dtype="float32",
    chunk=8,
    scales={
        "smoke": Scale(grid=(16, 16, 16), train=8, test=4, recipe=SMOKE, options={"solve": (32, 32, 32), "modes": 6}),
        "small": Scale(
            grid=(32, 32, 32), train=128, test=64, recipe=SMALL_3D, options={"solve": (64, 64, 64), "modes": 20}
        ),
        "medium": Scale(
            grid=(32, 32, 32), train=512, test=128, recipe=MEDIUM_3D, options={"solve": (64, 64, 64), "modes": 20}
        ),
        "paper": Scale(
            grid=(128, 128, 128), train=256, test=200, recipe=PAPER_3D, options={"solve": (128, 128, 128), "modes": 20}
        ),
    },
    citation=NEURAL_HSS,
    description="20 wave numbers drawn from 3..23 along each axis, coefficients U(0, 1); nineteen-point stencil.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [
        POISSON_1D,
        POISSON_1D_NEUMANN,
        POISSON_1D_GRF,
        POISSON_2D,
        POISSON_2D_MIXED,
        POISSON_2D_LSHAPE,
        POISSON_2D_GRF,
        POISSON_3D,
    ]
