"""How far a training is: what a trial tells on its way. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Progress:
    """``total`` steps are None where only the clock can tell; ``fraction`` is the share of the budget that is used."""

    step: int
    total: int | None
    fraction: float
    loss: float

    def to_plain(self) -> dict[str, float | None]:
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, float | None]) -> Progress | None:
        """From what a model's process sent; None if it does not say how far it is."""
        step, total, fraction, loss = map(values.get, ("step", "total", "fraction", "loss"))
        if "total" not in values or step is None or fraction is None or loss is None:
            return None
        return cls(int(step), None if total is None else int(total), fraction, loss)


Emit = Callable[[Progress], None]


def say_nothing(progress: Progress) -> None:
    """For those that nobody listens to."""
