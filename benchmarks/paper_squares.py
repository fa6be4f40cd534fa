"""Are printed errors relative norms, or means of squares? Both readings of each number of the paper's table in 2D.

    python benchmarks/paper_squares.py > leaderboards/bench/paper_squares.csv

The paper defines its error as a mean of ||p - u|| / ||u||. Training minimises mean squares of fields that are scaled to
at most 1, so a number that is such a square, q, belongs to a relative error of about

    sqrt(q / s),    s = mean over test samples and points of (u / max |u|)^2, the maximum over training outputs,

and a model that answers zero has q = s, relative error 1. So a printed number above s is no square, unless its model is
worse than no answer. Columns: ``printed``; ``if_square``, the relative error it would then be; ``square_of_zero``, s;
``square_of_mean``, the square that the mean of the training outputs has. Fields are ours at scale small: the recipes
are those of the paper's sizes, on a coarser grid, and s hardly depends on the grid.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd

import pdebench_hss as pb
from pdebench_hss.contract.registry import load_registry

TASKS = ("poisson_2d", "poisson_2d_mixed", "poisson_2d_lshape", "helmholtz_2d")  # scaled by their maximum


def squares(task: str) -> tuple[float, float]:
    """Mean squares of the scaled test outputs, and of their distance from the mean of the training outputs."""
    found = pb.load_task(task)
    train, test = (np.asarray(split.outputs, float) for split in (found.train, found.test))
    largest = np.abs(train).max()
    return float(((test / largest) ** 2).mean()), float((((test - train.mean(axis=0)) / largest) ** 2).mean())


def main() -> None:
    rows = []
    printed = {row.task: row for table in load_registry().reference_tables() for row in table.rows}
    for task in TASKS:
        of_zero, of_mean = squares(task)
        for model, value in printed[task].cells.items():
            rows.append(
                {
                    "task": task,
                    "model": model,
                    "printed": value.test_err,
                    "if_square": math.sqrt(value.test_err / of_zero),
                    "square_of_zero": of_zero,
                    "square_of_mean": of_mean,
                }
            )
    pd.DataFrame(rows).to_csv(sys.stdout, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
