"""Gray-Scott reaction-diffusion: two species, six patterns; what they become (forward) and came from (inverse)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.gray_scott"

# The data that the paper uses; ours are made by the same recipe.
THE_WELL = """@inproceedings{ohana2024well,
  title     = {The {Well}: a Large-Scale Collection of Diverse Physics Simulations for Machine Learning},
  author    = {Ohana, Ruben and McCabe, Michael and Meyer, Lucas and Morel, Rudy and others},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  volume    = {37},
  year      = {2024}
}"""

training = partial(Recipe, lr=1e-3, lr_min=1e-5, weight_decay=0.0)

# patch: the side of the simulated square as a fraction of the paper's (see starts.py). The small scale keeps the
# paper's mesh width and time step and takes a quarter of its area and a twentieth of its time.
SMOKE = {"patch": 0.25, "dt": 1.0, "horizon": 20}
SMALL = {"patch": 0.5, "dt": 1.0, "horizon": 500}
PAPER = {"patch": 1.0, "dt": 1.0, "horizon": 10_000}

FORWARD = TaskSpec(
    name="gray_scott_forward",
    title="Gray--Scott Eq. (Forward)",
    equation="A_t = 2e-5 Lap A - A B^2 + f (1 - A), B_t = 1e-5 Lap B + A B^2 - (f + k) B; learn (A, B)(0) -> (A, B)(T)",
    dim=2,
    in_channels=4,
    out_channels=2,
    linear=False,
    periodic=True,
    evolves=True,
    domain=((-1.0, 1.0), (-1.0, 1.0)),
    normalization="max",
    metric="relative_l2",
    cases=12,  # of one seed: a start of each family, and the six patterns from each
    dataset="gray_scott",
    generate=f"{HERE}.samples:generate",
    coarse=f"{HERE}.samples:coarse",
    coarse_levels=3,
    read=f"{HERE}.well_files:read",
    dtype="float32",
    chunk=12,
    scales={
        "smoke": Scale((16, 16), train=12, test=12, recipe=training(steps=4, batch=4), options=SMOKE),
        # With 192 samples and 300 steps not every model was ahead of the mean.
        "small": Scale((64, 64), train=600, test=120, recipe=training(steps=600, batch=8), options=SMALL),
        "medium": Scale((64, 64), train=1800, test=360, recipe=training(steps=2000, batch=8), options=SMALL),
        "paper": Scale((128, 128), train=960, test=120, recipe=training(epochs=10, batch=64), options=PAPER),
    },
    citation=f"{NEURAL_HSS}\n\n{THE_WELL}",
    description="Six (f, k) pairs from each random start (Gaussians or Fourier noise); Fourier-ETDRK4 solver.",
)

# Run backwards, diffusion multiplies mode m by exp(delta pi^2 m^2 T) and a state that died says nothing of its start,
# so there is no classical solver to stand beside the models: what can be learned of the start is statistical.
INVERSE = replace(
    FORWARD,
    name="gray_scott_inverse",
    title="Gray--Scott Eq. (Inverse)",
    equation="the same; learn (A, B)(T) -> (A, B)(0)",
    view=f"{HERE}.samples:inverse",
    coarse=None,
    coarse_levels=0,
    description="The start from the final state, ill-posed: diffusion and dying patterns forget.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [FORWARD, INVERSE]
