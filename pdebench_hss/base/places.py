"""Where the program keeps things of its own."""

from __future__ import annotations

import os
from pathlib import Path

TASK_FILES = "[a-z]*/task.yaml"  # below `arrays_dir`; what is being added has a name that starts with a dot


def cache_dir() -> Path:
    """``PDEBENCH_HSS_CACHE``, or the user's cache directory."""
    if chosen := os.environ.get("PDEBENCH_HSS_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdebench-hss"


def arrays_dir() -> Path:
    """The arrays that ``data add`` copied, one folder for each name."""
    return cache_dir() / "arrays"
