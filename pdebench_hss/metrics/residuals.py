"""The residual of a task's equation: whether a field solves the PDE, independent of the data.

    sqrt(mean residual^2) / sqrt(mean scale^2)

The task evaluates its equation on the grid that models see (`TaskSpec.residual`). The data solve it on a finer grid, so
their residual is not zero but the error of that evaluation. A prediction's residual below it means nothing.
"""

from __future__ import annotations

import numpy as np

from ..contract.metric import Setting


def pde_residuals(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> dict[str, np.ndarray]:
    return {"pde_residual": _relative(prediction, setting), "pde_residual_data": _relative(target, setting)}


def _relative(fields: np.ndarray, setting: Setting) -> np.ndarray:
    assert setting.residual is not None
    residual, scale = (_mean_square(values) for values in setting.residual(fields))
    return np.sqrt(residual / np.where(scale > 0, scale, np.nan))


def _mean_square(values: np.ndarray) -> np.ndarray:
    return np.square(values).reshape(len(values), -1).mean(axis=1)
