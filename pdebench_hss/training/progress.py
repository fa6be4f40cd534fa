"""The progress of a training run, as its trial reports it. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Progress:
    """``total`` steps are None where only the clock decides; ``fraction`` is the used share of the budget."""

    step: int
    total: int | None
    fraction: float
    loss: float

    def to_plain(self) -> dict[str, float | None]:
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, float | None]) -> Progress | None:
        """From what a model's process sent; None if that is not a valid report."""
        step, total, fraction, loss = map(values.get, ("step", "total", "fraction", "loss"))
        if "total" not in values or step is None or fraction is None or loss is None:
            return None
        return cls(int(step), None if total is None else int(total), fraction, loss)


Emit = Callable[[Progress], None]


def say_nothing(progress: Progress) -> None:
    """For trials whose progress is not shown."""
