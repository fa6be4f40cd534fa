"""What every model may spend, and how much of it is gone.

The training loop asks one question, ``fraction(spent)``, and the learning-rate schedule follows the answer, so a
cosine ends where the budget ends whether that counts epochs, steps, seconds, core-seconds or FLOPs.

    seconds        of the wall clock: what else the machine does is paid by the trial
    core_seconds   CPU time of the trial's own threads, which other work does not eat: two busy threads spend two a
                   second. On CPUs only: CPU time says nothing of what a GPU does

Neither counts the same on two kinds of machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from ..base.errors import UsageError, did_you_mean

KINDS = ("epochs", "steps", "seconds", "core_seconds", "flops")
CLOCKS = ("seconds", "core_seconds")  # what only a clock can tell
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}


@dataclass
class Spent:
    """What a trial has used of everything that can be counted."""

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    core_seconds: float = 0.0


@dataclass(frozen=True)
class Budget:
    kind: str
    amount: float

    def __str__(self) -> str:
        amount = int(self.amount) if float(self.amount).is_integer() else self.amount
        return f"{self.kind}={amount}"

    def steps(self, n_train: int, batch: int, flops_step: float) -> int | None:
        """How many steps this is, or None where only the clock can tell."""
        if self.kind == "steps":
            return int(self.amount)
        if self.kind == "epochs":
            return max(1, math.ceil(self.amount * math.ceil(n_train / batch)))
        if self.kind == "flops":
            if not flops_step > 0:
                raise UsageError("a flops budget needs a model whose FLOPs can be counted; use steps= or seconds=")
            return max(1, _affordable_steps(self.amount, flops_step, n_train, batch))
        return None

    def fraction(self, spent: Spent, steps: int | None) -> float:
        """The share used, in [0, 1]; training goes on while it is below 1."""
        return min(1.0, self.share(spent, steps))

    def share(self, spent: Spent, steps: int | None) -> float:
        """The same, and more than 1 of what was overspent."""
        return spent.steps / steps if steps is not None else self.clock(spent) / self.amount

    def clock(self, spent: Spent) -> float:
        """What the clock says that counts for this budget."""
        return spent.core_seconds if self.kind == "core_seconds" else spent.seconds

    def refuse_device(self, kind: str) -> None:
        """CPU time is no measure of what a GPU does."""
        if self.kind == "core_seconds" and kind != "cpu":
            raise UsageError(
                f"budget {self}: core-seconds are CPU time, which says nothing of a device {kind!r}; "
                f"use seconds={self.amount:g}, or --device cpu"
            )


def _affordable_steps(amount: float, flops_step: float, n_train: int, batch: int) -> int:
    """Whole epochs, whose last batch may be smaller and cheaper, and then full batches."""
    epochs, left = divmod(amount, flops_step * n_train / batch)
    return int(epochs) * math.ceil(n_train / batch) + min(int(left // flops_step), n_train // batch)


@lru_cache(maxsize=1000)  # a board's records state a few, a hundred thousand times
def parse_budget(text: str) -> Budget:
    """``epochs=10``, ``steps=300``, ``seconds=60``, ``core_seconds=60``, ``flops=2e12``."""
    kind, equals, value = text.partition("=")
    kind = kind.strip()
    if not equals:
        raise UsageError(f"budget {text!r}: write one of " + ", ".join(f"{k}=N" for k in KINDS))
    if kind not in KINDS:
        raise UsageError(f"budget {text!r}: no kind {kind!r}.{did_you_mean(kind, KINDS)}  Kinds: {', '.join(KINDS)}")
    amount = parse_count(value, f"budget {text!r}")
    if kind in ("epochs", "steps") and not amount.is_integer():
        raise UsageError(f"budget {text!r}: {kind} must be a whole number")
    return Budget(kind, amount)


def parse_budgets(text: str) -> list[Budget]:
    """A ladder, ``core_seconds=10,40,160``: budgets of one kind, the smallest first; one budget is a ladder too."""
    found: list[Budget] = []
    for word in text.split(","):
        budget = parse_budget(word if "=" in word or not found else f"{found[0].kind}={word}")
        if found and budget.kind != found[0].kind:
            raise UsageError(f"budget {text!r}: a ladder has one kind, not {found[0].kind} and {budget.kind}")
        found.append(budget)
    return sorted(dict.fromkeys(found), key=lambda budget: budget.amount)


def parse_count(text: str | float, where: str) -> float:
    """A positive number, with k, M, G, T as in 300k."""
    word = str(text).strip()
    factor = _SUFFIXES.get(word[-1:].lower(), 1)
    try:
        number = float(Decimal(word[:-1] if factor != 1 else word) * factor)  # decimal, so that 16.115k is 16115
    except InvalidOperation:
        raise UsageError(f"{where}: {word!r} is not a number (examples: 300, 300k, 1.5M)") from None
    if not (number > 0 and math.isfinite(number)):
        raise UsageError(f"{where}: must be positive, not {word}")
    return number
