"""Neural-HSS, the paper's model, and `hss_fit`, the same structure fitted without gradients."""

from __future__ import annotations

from pdebench_hss.hookspecs import hookimpl
from pdebench_hss.model import ModelSpec

from .hparams import fit_hparams, fit_supports, hparams, recipe

CITATION = "P. Sittoni, E. Zangrando, A. A. Casulli, N. Guglielmi, F. Tudisco: Neural-HSS (2026)"


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [
        ModelSpec(
            name="neural_hss",
            title="Neural-HSS",
            build="pdebench_hss_models.neural_hss.model:NeuralHSS",
            hparams=hparams,
            size_knob="rank",
            recipe=recipe,
            citation=CITATION,
            description="HSS layers in telescopic storage with learnable LeakyReLU slopes; 1D, 2D, 3D.",
        ),
        ModelSpec(
            name="hss_fit",
            title="HSS fit",
            build="pdebench_hss_models.neural_hss.fit:HSSFit",
            hparams=fit_hparams,
            supports=fit_supports,
            size_knob="rank",
            training_free=True,
            description="One HSS matrix fitted to (input, output) pairs by alternating least squares.",
        ),
    ]
