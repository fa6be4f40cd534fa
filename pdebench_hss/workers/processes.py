"""Ending processes with everything that they started.

A job leads a process group of its own, which is killed whole. What left the group (a daemon calls `setsid`) is still
found on Linux: its orphans become children of the worker, who asked to be their reaper, and the tree of a process is
read from ``/proc``. Elsewhere the group is all that is reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37  # of Linux's prctl(2)


def adopt_orphans() -> None:
    """From now on, what descendants of this process leave behind becomes its children."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Meanwhile they do, so that a process that detaches itself is still found among the `descendants`."""
    before = ctypes.c_int(0)
    _prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    adopt_orphans()
    try:
        yield
    finally:
        _prctl(PR_SET_CHILD_SUBREAPER, before.value)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; to be called right after a fork."""
    if sys.platform != "linux":
        return
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was quicker
        os._exit(1)


def wake_when_parent_dies() -> None:
    """Have the kernel continue this process, should it be stopped then, so that it can end in order."""
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def _prctl(option: int, value: Any) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            argument = ctypes.c_ulong(value) if isinstance(value, int) else value
            ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


def lead_group(pid: int) -> None:
    """Make a process the leader of a group. Parent and child both call it, so that neither has to wait."""
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)


def ask_to_stop(pid: int) -> None:
    """Have a process save its state and end, if it wants to."""
    with contextlib.suppress(OSError):
        os.kill(pid, getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


def kill_group(leader: int) -> None:
    if sys.platform == "win32":  # there, a process and all that is below it
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(leader)], capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def clear(job: int) -> None:
    """Kill what a worker's job left running, in its group and out of it."""
    kill_group(job)
    if has_children():
        kill_descendants(os.getpid())


def descendants(pid: int, *, ended: bool = False) -> list[int]:
    """All processes below this one, nearest first; none where there is no ``/proc``. Those that have ``ended`` and that
    nobody has waited for are left out unless they are asked for."""
    children = defaultdict(list)
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                # pid (name) state ppid ...: the name may hold anything, a ")" too
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if ended or state != b"Z":
                    children[int(parent)].append(int(name))
    found = list(children[pid])
    for child in found:  # the list grows while it is walked
        found += children[child]
    return found


def cpu_of_descendants(pid: int) -> float:
    """Seconds of CPU time of all processes below this one that nobody has waited for, whether they still run or not,
    and of their ended children; 0 where there is no ``/proc``."""
    ticks = 0
    for child in descendants(pid, ended=True):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{child}/stat", "rb") as file:
            # proc(5): fields 14 to 17, the name in field 2 may hold anything
            ticks += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def kill_descendants(pid: int, seconds: float = 5.0) -> None:
    """Kill everything below a process, again and again until nothing new was started meanwhile."""
    limit = time.monotonic() + seconds
    while (found := descendants(pid)) and time.monotonic() < limit:
        for child in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
        if pid == os.getpid():
            has_children()


def has_children() -> bool:
    """Whether this process has any that still run; those that have ended are collected. Windows does not tell."""
    if sys.platform == "win32":
        return False
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
