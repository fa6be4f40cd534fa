"""A board seen through another metric: the same trials, with that metric's value in place of the test error.

Tables, intervals, ranks and comparisons then work as usual (`frames.leaderboard`, `comparison.compare`); the metric
says whether larger or smaller is better. A trial without the value says so; a task without any value is left out.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..contract.metric import MetricSpec
from ..trials.status import Status
from .frames import GROUP


def seen_by(results: pd.DataFrame, metric: MetricSpec, board: str = "the board") -> pd.DataFrame:
    """The results table with the metric's values as test errors."""
    values = _values(results, metric.name)
    if not np.isfinite(values).any():
        raise UsageError(
            f"no trial of {board} has the metric {metric.name!r}: its records are older than it, or it makes no sense "
            f"there (pdebench-hss show {metric.name})"
        )
    ended = results["status"] == Status.OK
    without = ended & ~np.isfinite(values)
    seen = results.assign(
        test_err=values,
        metric=metric.name,
        status=results["status"].mask(without, Status.MISSING.value),
        reason=results["reason"].mask(without, f"{metric.name} was not measured"),
    )
    known = np.isfinite(values).groupby([results[column] for column in GROUP], dropna=False).transform("any")
    return seen[known].reset_index(drop=True)


def left_out(results: pd.DataFrame, metric: MetricSpec) -> list[str]:
    """The tasks on which no trial has the metric."""
    measured = np.isfinite(_values(results, metric.name)).groupby(results["task"], sort=False).any()
    return [str(task) for task, any_value in measured.items() if not any_value]


def _values(results: pd.DataFrame, name: str) -> pd.Series:
    if name not in results:
        return pd.Series(np.nan, index=results.index)
    return results[name].astype(float)
