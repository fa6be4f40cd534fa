"""A table of two rows, made up, that stands beside ours on every board with a row of it.

To mirror a paper, write its rows and columns in its order, its numbers as it prints them, and the names that its models
and tasks have on a board. A cell that it leaves empty is left out.
"""

from __future__ import annotations

from pdebench_hss import Printed, ReferenceRow, ReferenceTable, hookimpl

TABLE = ReferenceTable(
    name="made_up",
    title="steady problems",
    source="nobody",
    models={"unet": "U-Net", "linear": "Least squares", "mean": "Average"},
    rows=(
        ReferenceRow(
            task="poisson_1d",
            equation="Poisson Eq.",
            metric="relative_l2",
            cells={"linear": Printed(1e-3, "4.1K"), "mean": Printed(0.5)},
        ),
        ReferenceRow(
            task="pdebench_darcy",  # of zoo/pdebench: what is not installed is a row of missing cells
            equation="Darcy flow",
            metric="relative_l2",
            cells={"unet": Printed(2e-2, "1.9M"), "mean": Printed(0.25)},
        ),
    ),
)


@hookimpl
def pdebench_hss_references() -> list[ReferenceTable]:
    return [TABLE]
