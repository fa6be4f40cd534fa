"""The built-in metrics: their names and meanings. They use the same hook as those of plugins.

Light: formulas in words, functions by name. `measuring` computes all of them for a trial.
"""

from __future__ import annotations

from ..contract.hookspecs import hookimpl
from ..contract.metric import HIGHER, MetricSpec

HERE = "pdebench_hss.metrics"
WELL = "The Well (Ohana et al., 2024), the_well.benchmark.metrics"
PDEBENCH = "PDEBench (Takamoto et al., 2022), metric_func"
ABSOLUTE = "a target that is zero: the absolute error stands in"
SHELLS = {"low": "|k| < 4", "middle": "4 <= |k| < 12", "high": "|k| >= 12"}


def _field_errors() -> list[MetricSpec]:
    """Of all channels and times as one vector. The task's own metric is one of the first two."""
    compute = f"{HERE}.pointwise:field_errors"
    return [
        MetricSpec("relative_l2", "Relative L2", "||p - t|| / ||t||", compute, undefined=ABSOLUTE),
        MetricSpec(
            "trajectory_l2", "Trajectory L2", "||p - t||, the whole trajectory as one vector", compute, unit="field"
        ),
        MetricSpec("rmse", "RMSE", "sqrt(mean (p - t)^2)", compute, unit="field"),
        MetricSpec("max_error", "Largest error", "max |p - t|", compute, unit="field"),
    ]


def _channel_errors() -> list[MetricSpec]:
    """Of each channel at each time; then their mean."""
    compute = f"{HERE}.pointwise:channel_errors"
    mean = "mean over channels and times of"
    return [
        MetricSpec(
            *("nrmse", "nRMSE", f"{mean} sqrt(mean (p - t)^2) / sqrt(mean t^2)", compute),
            source=PDEBENCH,
            undefined="a channel that is zero at a time: its RMSE stands in",
        ),
        MetricSpec(
            *("vrmse", "VRMSE", f"{mean} sqrt(mean (p - t)^2 / (var t + 1e-7))", compute),
            source=WELL,
            undefined="a constant target: the 1e-7 keeps it finite",
        ),
        MetricSpec(
            *("crmse", "cRMSE: conserved quantities", f"{mean} |mean p - mean t|", compute),
            unit="field",
            source=f"{PDEBENCH}, for one sample",
        ),
        MetricSpec(
            *("brmse", "bRMSE: boundary", f"{mean} sqrt(mean (p - t)^2 over the faces of the grid)"),
            f"{HERE}.boundary:brmse",
            unit="field",
            source=f"{PDEBENCH}; where a task has a mask: over its edge",
        ),
    ]


def _spectral_errors() -> list[MetricSpec]:
    compute = f"{HERE}.spectra:spectral_errors"
    found = []
    for band in ("low", "middle", "high"):
        over = f"over the {band} of three logarithmic bands of wave numbers; mean over channels and times"
        mse, nmse = "sum |F(p - t)|^2 / N^2", "sum |F(p - t)|^2 / (sum |F(t)|^2 + 1e-7 N^2)"
        found += [
            MetricSpec(
                *(f"spectral_mse_{band}", f"Spectral MSE, {band}", f"{mse} {over}", compute),
                unit="field^2",
                source=WELL,
            ),
            MetricSpec(
                *(f"spectral_nmse_{band}", f"Spectral nMSE, {band}"),
                *(f"{nmse} {over}", compute),
                source=WELL,
                undefined="no energy of the target in the band: the 1e-7 keeps it finite",
            ),
        ]
    for band, which in SHELLS.items():
        found.append(
            MetricSpec(
                *(f"frmse_{band}", f"fRMSE, {band}"),
                f"mean over channels, times and shells {which} of sqrt(sum |F(p - t)|^2 over the shell) / points",
                compute,
                unit="field",
                source=f"{PDEBENCH}, for one sample",
                undefined="a grid without such shells: no value",
            )
        )
    return found


def _further() -> list[MetricSpec]:
    residual = "||residual of the task's equation|| / ||its scale, from the inputs||, root mean squares"
    return [
        MetricSpec(
            *("relative_h1", "Relative H1", "sqrt(|e|^2 + |grad e|^2) / sqrt(|t|^2 + |grad t|^2), e = p - t"),
            f"{HERE}.sobolev:relative_h1",
            undefined=ABSOLUTE,
            source="means of squares over points; differences of neighbours over their distance",
        ),
        MetricSpec(
            *("pde_residual", "Residual of the PDE", f"{residual}, of the prediction"),
            f"{HERE}.residuals:pde_residuals",
            needs=("residual",),
            undefined="a scale that is zero: no value",
        ),
        MetricSpec(
            *("pde_residual_data", "Residual of the PDE in the data", f"{residual}, of the target"),
            f"{HERE}.residuals:pde_residuals",
            needs=("residual",),
            undefined="a scale that is zero: no value",
        ),
        MetricSpec(
            *("correlation_time", "Time to decorrelation"),
            "steps before the correlation of p and t, mean over channels, first falls below 0.8",
            f"{HERE}.rollouts:correlation_time",
            direction=HIGHER,
            unit="steps",
            needs=("rollout",),
            undefined="never below: the length of the trajectory; a constant target: its channel is left out",
        ),
    ]


@hookimpl
def pdebench_hss_metrics() -> list[MetricSpec]:
    return [*_field_errors(), *_channel_errors(), *_spectral_errors(), *_further()]
