"""Neural-HSS, the paper's model, and `hss_fit`, the same structure fitted without gradients."""

from __future__ import annotations

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import ModelSpec, hookimpl

from ..rates import tuned
from .hparams import fit_hparams, fit_supports, hparams, recipe, search


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [
        ModelSpec(
            name="neural_hss",
            title="Neural-HSS",
            build="pdebench_hss_models.neural_hss.model:NeuralHSS",
            hparams=hparams,
            size_knob="rank",
            recipe=tuned("neural_hss", recipe),
            search=search,
            version="4",  # 3: products in another order in 1D, other rounding; 4: starts as the zero map, other slopes
            citation=NEURAL_HSS,
            description="HSS layers in telescopic storage with learnable LeakyReLU slopes; 1D, 2D, 3D.",
        ),
        ModelSpec(
            name="hss_fit",
            title="HSS fit",
            build="pdebench_hss_models.neural_hss.fit:hss_fit",
            hparams=fit_hparams,
            supports=fit_supports,
            size_knob="rank",
            training_free=True,
            deterministic=True,
            version="3",  # 2: the option symmetric; 3: products add to each other inside, other rounding
            description="HSS matrices fitted to (input, output) pairs by alternating least squares: in 1D one, from a "
            "start that takes the operator to be self-adjoint or one that does not; in 2D and 3D a sum of products.",
        ),
    ]


@hookimpl
def pdebench_hss_device_checks() -> dict[str, str]:
    checks = "pdebench_hss_models.neural_hss.device_checks"
    return {"triton_kernels": f"{checks}:kernels", "timing": f"{checks}:timing"}


@hookimpl
def pdebench_hss_benches() -> dict[str, str]:
    return {"layers": "pdebench_hss_models.neural_hss.bench:bench_layers"}
