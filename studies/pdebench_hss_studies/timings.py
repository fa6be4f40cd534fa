"""The default tasks of ``bench models``: those of the paper's timing figures, and its largest."""

from __future__ import annotations

import dataclasses

from pdebench_hss import BenchRequest, BenchResult
from pdebench_hss import bench_models as bench_any_models

TASKS = "heat_1d,burgers_1d,poisson_2d,gray_scott_forward,navier_stokes_forward,poisson_3d"


def bench_models(request: BenchRequest) -> BenchResult:
    return bench_any_models(dataclasses.replace(request, tasks=request.tasks or TASKS))
