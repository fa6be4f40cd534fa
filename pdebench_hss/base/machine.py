"""Which machine, which versions, which source: what must be recorded for a number to be trusted later."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .hashing import digest

# torch reads the first at its first allocation. Memory for a large array then comes in pages of 2 MB instead of 4 KB:
# fetching pages was half of the time of a training step on arrays of more than 32 MB, which glibc gives back after each
# use. The others are for arrays of 2 to 32 MB: glibc, which reads them when a process starts, keeps what is freed. To
# give it back cost models with arrays of that size half of each step, now that their pages are large.
LARGE_PAGES = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
PACKAGES = ("pdebench-hss", "torch", "numpy", "scipy", "h5py", "pandas")


def use_large_pages() -> None:
    """In processes that this one starts, and torch's part here too, unless the environment says otherwise."""
    for name, value in LARGE_PAGES.items():
        os.environ.setdefault(name, value)


def keep_freed_memory() -> None:
    """What `LARGE_PAGES` makes of glibc in a process that starts with it, for one that runs already."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # the last on Windows
        return
    trim_threshold, mmap_threshold = -1, -3  # M_.. of malloc.h
    mallopt(trim_threshold, min(int(LARGE_PAGES["MALLOC_TRIM_THRESHOLD_"]), 2**31 - 1))
    mallopt(mmap_threshold, int(LARGE_PAGES["MALLOC_MMAP_THRESHOLD_"]))


def cache_bytes() -> int:
    """Of the largest cache that a core can use; 32 MB where the system does not say."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    found = [int(text[:-1]) * 1024 for path in sizes if (text := path.read_text().strip()).endswith("K")]
    return max(found, default=2**25)


@lru_cache
def hardware(gpus: tuple[str, ...] = ()) -> dict[str, Any]:
    """CPU, cores, memory, and the GPUs that were used; ``id`` is equal on machines whose times may be compared.

    Idle GPUs are not in it: they don't change a time, and asking for them would start CUDA.
    """
    parts: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_gb": round(_memory_bytes() / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "gpus": list(gpus),
    }
    return {**parts, "id": digest(parts)[:12]}


def hardware_line() -> str:
    """This machine with all its GPUs, for people."""
    from .devices import look

    h = hardware(tuple(gpu.name for gpu in look().gpus))
    gpus = f", {', '.join(h['gpus'])}" if h["gpus"] else ""
    return f"{h['cpu']}, {h['cores']} cores, {h['memory_gb']} GB{gpus} ({h['id']})"


def versions(extra: tuple[str, ...] = ()) -> dict[str, str]:
    found = {"python": platform.python_version()}
    found |= {package: number for package in (*PACKAGES, *extra) if (number := _installed(package))}
    return found


@lru_cache
def _installed(package: str) -> str | None:
    """Reading it takes milliseconds, and what is imported does not change."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@lru_cache
def source_state() -> dict[str, Any]:
    """Commit of the source tree this package runs from, and whether it was changed since; empty if installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        # The boards are the program's output: writing one must not make the next record look modified.
        dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!leaderboards")
        return {"commit": git("rev-parse", "HEAD"), "modified": bool(dirty)}
    except (OSError, subprocess.SubprocessError):
        return {}


def reset_peak_memory() -> int:
    """Start a new high-water mark where the system can; returns the bytes resident now."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        pass
    return _status_bytes("VmRSS")


def peak_memory() -> int:
    """Bytes at the high-water mark."""
    peak = _status_bytes("VmHWM")
    if peak:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return 0
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if platform.system() == "Darwin" else usage * 1024


def give_back_memory() -> None:
    """Memory that was freed goes back to the system, where the allocator can be asked (glibc)."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # the last on Windows
        ctypes.CDLL(None).malloc_trim(0)


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that a computation may still take without pushing others out."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _memory_bytes() // 2


def _status_bytes(name: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
