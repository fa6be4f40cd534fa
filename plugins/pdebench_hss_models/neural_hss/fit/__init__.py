"""`hss_fit`: HSS matrices fitted to pairs without gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .grid import HSSGridFit
from .model import HSSFit

if TYPE_CHECKING:
    from pdebench_hss import TaskInfo

__all__ = ["HSSFit", "HSSGridFit", "hss_fit"]


def hss_fit(task: TaskInfo, **hparams: Any) -> HSSFit | HSSGridFit:
    """One HSS matrix in 1D, a sum of products of them in 2D and 3D."""
    return HSSFit(task, **hparams) if task.dim == 1 else HSSGridFit(task, **hparams)
