"""Does a model read what it should not? For `check`: watches what a model does while it trains or predicts.

Python reports some acts as they happen (audit events, PEP 578): reading stack frames, listing the garbage collector's
objects, opening files and listing folders. HDF5 opens files by itself, so `h5py.File` is watched too. An act is noted
and not prevented, so a model does not notice. This finds open shortcuts, not those that are hidden on purpose
(docs/trust.md).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import h5py
import numpy
import scipy
import torch

from ..data import cache

FRAMES = ("sys._getframe", "sys._current_frames")
COLLECTOR = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
FILES = ("open", "os.listdir", "os.scandir")
# These read frames on behalf of their caller, so their caller is examined instead.
MESSENGERS = (os.sep + "inspect.py", os.sep + "traceback.py")

_watched = threading.local()  # .acts: what was noticed in this thread, while it is watched


@contextlib.contextmanager
def watch() -> Iterator[list[str]]:
    """The acts, one line each, of what runs in the block in this thread."""
    _install()
    acts: list[str] = []
    _watched.acts = acts
    original = h5py.File.__init__

    def opened(self: Any, name: Any, *args: Any, **kwargs: Any) -> None:
        _note_file("open", name)
        original(self, name, *args, **kwargs)

    h5py.File.__init__ = opened
    try:
        yield acts
    finally:
        h5py.File.__init__ = original
        del _watched.acts


_installed = False


def _install() -> None:
    """Installed once: Python can't remove an audit hook. It does nothing unless something is being watched."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if getattr(_watched, "acts", None) is None:
        return
    if event in FILES:
        _note_file("list" if event.startswith("os.") else "open", arguments[0])
    elif event in FRAMES or event in COLLECTOR or (event == "object.__getattr__" and arguments[1] == "tb_frame"):
        _note_look(event)


def _note_file(act: str, name: Any) -> None:
    acts = getattr(_watched, "acts", None)
    if acts is None or not isinstance(name, (str, bytes, os.PathLike)):
        return
    path = Path(os.path.realpath(os.fsdecode(name)))
    if path.is_relative_to(os.path.realpath(cache.cache_dir())):
        acts.append(f"it {act}s {path.name} in the data cache, where the answers are")


def _note_look(event: str) -> None:
    acts, _watched.acts = _watched.acts, None  # finding the caller reads frames too
    try:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.endswith(MESSENGERS):
            frame = frame.f_back
        if frame is not None and not _is_library(frame.f_code.co_filename) and not _is_importing(frame):
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            thing = "what the garbage collector knows (gc)" if event in COLLECTOR else "the stack frames of its callers"
            acts.append(f"it reads {thing}, at {where}")
    finally:
        _watched.acts = acts


def _is_library(file: str) -> bool:
    """The standard library and common packages read frames for legitimate reasons (warnings, named tuples)."""
    if file.startswith(_LIBRARIES):
        return True
    return file.startswith((_STANDARD, "<frozen ")) and "-packages" not in file  # site- or dist-, inside of it


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


_STANDARD = os.path.dirname(os.__file__) + os.sep
_LIBRARIES = tuple(str(Path(m.__file__ or "").parent) + os.sep for m in (torch, numpy, scipy, h5py))
