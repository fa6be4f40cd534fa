"""How the process of a job starts: as a fork of a warm worker, or as a new interpreter (``spawn``).

A fork takes milliseconds, because it inherits what its worker has imported. Windows has none, and on macOS the system's
own libraries don't survive one, so there every job starts anew and imports torch by itself. `VARIABLE` forces either.
"""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

from ..base.errors import UsageError

VARIABLE = "PDEBENCH_HSS_START_METHOD"
FORK, SPAWN = "fork", "spawn"
METHODS = (FORK, SPAWN)


def start_method() -> str:
    """``fork`` on Linux and ``spawn`` elsewhere, unless the environment says otherwise."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in METHODS:
        raise UsageError(f"{VARIABLE}={wanted}: it is fork or spawn")
    if wanted == FORK and not hasattr(os, "fork"):
        raise UsageError(f"{VARIABLE}=fork: {sys.platform} has no fork")
    return wanted or (FORK if sys.platform == "linux" and hasattr(os, "fork") else SPAWN)


def apart() -> dict[str, Any]:
    """Options of `subprocess.Popen` for a process that Ctrl-C does not reach, and that leads a group of its own."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def inheriting(*ends: Connection) -> dict[str, Any]:
    """Options of `subprocess.Popen` for a process that is to use these ends of pipes; see `inherited`."""
    numbers = [end.fileno() for end in ends]
    if sys.platform == "win32":
        for number in numbers:
            os.set_handle_inheritable(number, True)
        return {"startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": numbers})}
    return {"pass_fds": numbers}


def inherited(number: str, *, readable: bool) -> Connection:
    """In such a process: one of the ends by its number."""
    if sys.platform == "win32":
        return connection.PipeConnection(int(number), readable=readable, writable=not readable)
    return Connection(int(number), readable=readable, writable=not readable)
