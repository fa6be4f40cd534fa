"""What `pdebench-hss doctor --device cuda` measured on this machine's GPUs, and how `auto` uses it. No torch.

For a GPU that was never measured, the forms of `cost` are chosen with guessed constants, and the Triton kernels are
used only if asked for (``way=triton``). doctor times every form, fits a `Machine` to torch's forms and another to the
kernels, and keeps both in the user's cache under the GPU's name. They are valid for the versions of torch and Triton
that they were measured with.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .cost import GPU, Axis, Machine, best_price, price, triton_seconds

FORMAT = 1


@dataclass(frozen=True)
class Measured:
    """The constants of one GPU: of torch's products, and of the kernels where these could be measured."""

    torch: Machine
    triton: Machine | None = None

    def prefers_triton(self, axes: Sequence[Axis]) -> bool:
        """Whether the kernels are predicted to take less time for a whole map than torch's best forms."""
        if self.triton is None or any(axis.levels == 0 for axis in axes):
            return False
        kernels = sum(triton_seconds(axis, self.torch, self.triton) for axis in axes)
        return kernels < sum(best_price(axis, self.torch).seconds for axis in axes)


def constants_file() -> Path:
    from pdebench_hss import cache_dir

    return cache_dir() / "neural_hss_gpus.json"


def versions() -> dict[str, str]:
    """What constants depend on besides the GPU."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("torch", "triton"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found


def of(gpu: str) -> Measured | None:
    """The constants of the GPU of this name, or None if there are no valid ones."""
    return _read(str(constants_file()), gpu)


@lru_cache
def _read(path: str, gpu: str) -> Measured | None:
    """Read once per process, so that choices don't change during a trial."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        entry = content["gpus"].get(gpu) if content["format"] == FORMAT else None
        if entry is None or entry["versions"] != versions():
            return None
        return Measured(_machine(entry["torch"]), None if entry["triton"] is None else _machine(entry["triton"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{path} can't be used ({type(error).__name__}: {error}); run pdebench-hss doctor --device cuda again"
        warnings.warn(text, stacklevel=2)
        return None


def _machine(content: dict[str, Any]) -> Machine:
    machine = Machine(**content)
    if not all(
        math.isfinite(value) and value > 0 for value in (machine.start, machine.peak, machine.near, machine.far)
    ):
        raise ValueError(f"constants must be positive: {content}")
    return machine


def write(gpu: str, found: Measured) -> Path:
    """Store the constants, and keep those of other GPUs."""
    from pdebench_hss import replacing

    path = constants_file()
    try:
        gpus = json.loads(path.read_text(encoding="utf-8"))["gpus"]
    except (OSError, ValueError, KeyError, TypeError):
        gpus = {}
    gpus[gpu] = {"versions": versions(), **as_dict(found)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"format": FORMAT, "gpus": gpus}, indent=1), encoding="utf-8")
    _read.cache_clear()
    return path


def as_dict(found: Measured) -> dict[str, Any]:
    return asdict(found)


@dataclass(frozen=True)
class Timing:
    """Seconds of a forward and backward pass of one form: tree, collapsed, dense or triton."""

    axis: Axis
    way: str
    seconds: float


def fit(timings: Sequence[Timing]) -> Measured:
    """The constants that explain the timings best: least squares of logarithms."""
    torchs = [t for t in timings if t.way != "triton"]
    kernels = [t for t in timings if t.way == "triton"]
    cut = {"tree": lambda a: a.levels, "collapsed": lambda a: min(1, a.levels), "dense": lambda a: 0}
    machine = _search(torchs, GPU, lambda t, m: price.__wrapped__(t.axis, cut[t.way](t.axis), m).seconds)
    if not kernels:
        return Measured(machine)
    return Measured(machine, _search(kernels, GPU, lambda t, m: triton_seconds.__wrapped__(t.axis, machine, m)))


def _search(timings: Sequence[Timing], machine: Machine, predict: Callable[[Timing, Machine], float]) -> Machine:
    """Start, peak and bandwidth by a multiplicative pattern search: no derivatives, and values stay positive."""

    def loss(candidate: Machine) -> float:
        return sum(math.log(predict(t, candidate) / t.seconds) ** 2 for t in timings)

    best, factor = loss(machine), 4.0
    while factor > 1.01:
        moves = [
            {name: getattr(machine, name) * f for name in names}
            for names in (("start",), ("peak",), ("near", "far"))
            for f in (factor, 1 / factor)
        ]
        value, found = min(((loss(replace(machine, **move)), i) for i, move in enumerate(moves)))
        if value < best:
            best, machine = value, replace(machine, **moves[found])
        else:
            factor = math.sqrt(factor)
    return machine
