"""Which device: the names people type, what this machine has, and which GPU each worker process gets.

Light: torch is imported inside functions only. What a trial does with its device is in `trial_device`.

A process that has asked CUDA anything can't be forked any more, and one that uses CUDA keeps hundreds of megabytes on
the GPU. So the driver and the warm workers never ask: a short-lived child looks, once, and trials are told by
``CUDA_VISIBLE_DEVICES`` which GPU is theirs. Inside a trial it is always ``cuda:0``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from .errors import UsageError

KINDS = ("auto", "cpu", "cuda", "mps")
DEFAULT_PRECISION = "float32"
PRECISIONS = (DEFAULT_PRECISION, "tf32", "bf16")
VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOK_SECONDS = 120.0  # importing torch from a network file system is slow


@dataclass(frozen=True)
class Device:
    """``cpu``, ``cuda`` (any GPU), ``cuda:N`` (that one), ``mps``, or ``auto`` until it is resolved."""

    kind: str
    index: int | None = None

    def __str__(self) -> str:
        return self.kind if self.index is None else f"{self.kind}:{self.index}"


@dataclass(frozen=True)
class Gpu:
    name: str
    memory: int  # bytes
    capability: tuple[int, int]


@dataclass(frozen=True)
class Found:
    """The GPUs that torch can use here; ``reason`` says why there are none."""

    gpus: tuple[Gpu, ...] = ()
    reason: str = ""


# --- names -----------------------------------------------------------------------------------------------------------


def parse_device(text: str) -> Device:
    kind, colon, number = text.partition(":")
    if kind not in KINDS:
        raise UsageError(f"no device {text!r}; devices: {', '.join(KINDS)}, or cuda:N for one GPU of several")
    if not colon:
        return Device(kind)
    if kind != "cuda":
        raise UsageError(f"--device {text}: only cuda takes a number; write {kind}, or cuda:N")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"--device {text}: {number!r} is not the number of a GPU; write cuda:0, cuda:1, …")
    return Device(kind, int(number))


def resolve_device(text: str, elsewhere: bool = False) -> Device:
    """``auto`` is the best there is; a device that isn't there is refused here, before any trial starts.

    If trials run ``elsewhere``, a device that was named is taken at its word: the driver may have none.
    """
    device = parse_device(text)
    if device.kind == "auto":
        return Device("cuda" if look().gpus else "mps" if _has_mps() else "cpu")
    if device.kind == "cpu" or elsewhere:
        return device
    count = len(look().gpus) if device.kind == "cuda" else int(_has_mps())
    if not count:
        why = look().reason if device.kind == "cuda" else "torch finds no Apple GPU"
        raise UsageError(f"--device {text}: not available here ({why}); use --device auto or cpu")
    if (device.index or 0) >= count:
        there = "one GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise UsageError(f"--device {text}: not available here; this machine has {there}")
    return device


def check_precision(precision: str, device: Device) -> None:
    """Refuse a precision that the device does not have, instead of silently computing in another one."""
    if precision not in PRECISIONS:
        raise UsageError(f"no precision {precision!r}; precisions: {', '.join(PRECISIONS)}")
    if precision == "tf32" and device.kind not in ("cuda", "auto"):
        raise UsageError(f"--precision tf32 is a mode of NVIDIA GPUs: use --device cuda, not {device}")
    if precision == "bf16" and device.kind == "mps":
        raise UsageError("--precision bf16: not on mps; use --device cuda or cpu")


def label(device: str, precision: str) -> str:
    """``cuda``, or ``cuda tf32`` where the precision is not the default: on a board these are never mixed."""
    return device if precision == DEFAULT_PRECISION else f"{device} {precision}"


# --- what there is ---------------------------------------------------------------------------------------------------


@lru_cache
def look() -> Found:
    """The GPUs of this machine, seen by a child process, so that this one may still be forked."""
    import torch

    if not torch.backends.cuda.is_built():
        return Found(reason=f"torch {torch.__version__} is built without CUDA")
    if os.environ.get(VISIBLE) in ("", "-1"):
        return Found(reason=f"{VISIBLE} hides all GPUs")
    command = [sys.executable, "-m", "pdebench_hss.base.devices"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return Found(reason=f"looking for GPUs took more than {LOOK_SECONDS:g} s")
    return read_answer(done.returncode, done.stdout, done.stderr)


def read_answer(code: int, out: str, err: str) -> Found:
    """What the child printed on its last line; a child that died is a machine without GPUs, with the reason."""
    lines = out.strip().splitlines()
    if code or not lines:
        last = (err.strip().splitlines() or [f"exit code {code}"])[-1]
        return Found(reason=f"looking for GPUs failed: {last[:300]}")
    answer = json.loads(lines[-1])
    gpus = tuple(Gpu(g["name"], g["memory"], tuple(g["capability"])) for g in answer["gpus"])
    return Found(gpus, answer["reason"])


def answer() -> dict[str, Any]:
    """In the child: ask CUDA."""
    import warnings

    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    reason = str(caught[0].message).splitlines()[0] if caught else "torch finds no NVIDIA GPU"
    properties = [torch.cuda.get_device_properties(index) for index in range(count)]
    gpus = [Gpu(p.name, int(p.total_memory), (p.major, p.minor)) for p in properties]
    return {"gpus": [asdict(gpu) for gpu in gpus], "reason": "" if gpus else reason}


def _has_mps() -> bool:
    import torch

    return bool(torch.backends.mps.is_available())


# --- who gets which --------------------------------------------------------------------------------------------------


def default_jobs(device: Device, cores: int) -> int:
    """Trials side by side: one per core, or one per GPU."""
    if device.kind == "cpu":
        return cores
    return max(1, len(look().gpus)) if device == Device("cuda") else 1


def environments(device: Device) -> list[dict[str, str]]:
    """What workers have in their environment, one entry per GPU they may be given.

    A CPU trial sees no GPU, so that nothing in torch or in a plugin can start CUDA behind its back.
    """
    if device.kind == "cpu":
        return [{VISIBLE: ""}]
    if device.kind != "cuda":
        return [{}]
    count = max(1, len(look().gpus))
    listed = os.environ.get(VISIBLE)
    names = [name.strip() for name in listed.split(",")] if listed else [str(index) for index in range(count)]
    names = names[:count]  # CUDA ignores what follows a name it does not know
    return [{VISIBLE: name} for name in (names if device.index is None else names[device.index : device.index + 1])]


def check_peers(device: Device, peers: int) -> None:
    """The processes of ``--ddp`` need a GPU each: nccl refuses two on one."""
    if peers == 1 or device.kind == "cpu":
        return
    if device.kind == "mps":
        raise UsageError(f"--ddp {peers}: mps does not support distributed training; use --device cpu")
    count = len(environments(device))
    if peers > count:
        here = f"--device {device} is one" if device.index is not None else f"this machine has {count}"
        raise UsageError(f"--ddp {peers} needs {peers} GPUs, one for each process; {here}")


if __name__ == "__main__":
    print(json.dumps(answer()))
