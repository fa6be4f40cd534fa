"""Forks that cost less.

To fork is to copy the table of a process's pages. A warm worker holds some 250 MB in 65,000 pages of 4 KB, and copying
their table, and clearing the copy, takes longer than a trivial job. In pages of 2 MB the same memory has a table of 130
entries. Linux can move memory that is in use to large pages (``MADV_COLLAPSE``, since 6.1; `madvise(2)`); elsewhere
nothing happens. A job that writes to such a page still gets a copy of 4 KB of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys

MADV_COLLAPSE = 25  # of Linux's mman.h
LARGE = 1 << 21  # bytes of a large page on x86-64 and most of ARM
PRIVATE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?")  # proc(5): memory that is no file's


def use_large_pages() -> None:
    """Move the memory that this process has now to large pages, as far as the system has them."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = [PRIVATE.fullmatch(line.rstrip("\n")) for line in maps]
        for start, end in ((int(area[1], 16), int(area[2], 16)) for area in found if area):
            for page in range(-(-start // LARGE) * LARGE, end - LARGE + 1, LARGE):
                advise(page, LARGE, MADV_COLLAPSE)  # one by one: a page that can't be moved stays as it is
