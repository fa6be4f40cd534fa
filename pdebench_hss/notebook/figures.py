"""Figures in a cell: matplotlib shows those that its own pyplot made, and ours are made without it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def showing_itself(figure: Figure) -> Figure:
    """The same figure, which a notebook shows as the value of a cell, whatever its backend."""

    def png() -> bytes:
        content = io.BytesIO()
        figure.savefig(content, format="png")
        return content.getvalue()

    figure._repr_png_ = png  # type: ignore[attr-defined]
    return figure
