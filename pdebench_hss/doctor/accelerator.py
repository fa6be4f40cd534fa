"""The few things that the checks ask of a device. On a CPU every answer is the plain one."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch


def is_gpu(device: str) -> bool:
    return device.startswith("cuda")


def why_not(device: str) -> str | None:
    """Why the checks can't run on this device, or None."""
    if device == "cpu":
        return None
    if not re.fullmatch(r"cuda(:\d+)?", device):
        return "not a device for the checks, which are for NVIDIA GPUs: cuda or cuda:N; --device cpu rehearses them"
    if not torch.backends.cuda.is_built():
        return f"torch {torch.__version__} is built without CUDA: install a build with it (pytorch.org, Get started)"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and finds no GPU: see nvidia-smi"
    index, count = torch.device(device).index or 0, torch.cuda.device_count()
    return None if index < count else f"there are {count} GPUs, cuda:0 to cuda:{count - 1}"


def describe(device: str) -> dict[str, Any]:
    """Name, memory, compute capability and driver."""
    if not is_gpu(device):
        return {"name": "CPU", "rehearsal": True}
    properties = torch.cuda.get_device_properties(torch.device(device))
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory_gb": round(properties.total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "driver": _driver(),
        "gpus": torch.cuda.device_count(),
    }


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.splitlines()[0].strip()
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def synchronize(device: str) -> None:
    if is_gpu(device):
        torch.cuda.synchronize(torch.device(device))


@contextlib.contextmanager
def refusing_waits(device: str) -> Iterator[None]:
    """Inside, an operation that makes the host wait for the GPU raises."""
    if not is_gpu(device):
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def milliseconds_on(device: str, function: Callable[[], Any], repeats: int = 20, seconds: float = 2.0) -> float:
    """The median of a call, three at least: by events of the GPU's clock, by the host's where there is no GPU."""
    function()
    times: list[float] = []
    while len(times) < 3 or (len(times) < repeats and sum(times) < 1e3 * seconds):
        if is_gpu(device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            function()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            started = time.perf_counter()
            function()
            times.append(1e3 * (time.perf_counter() - started))
    return sorted(times)[len(times) // 2]


def is_initialized(device: str) -> bool:
    return is_gpu(device) and torch.cuda.is_initialized()
