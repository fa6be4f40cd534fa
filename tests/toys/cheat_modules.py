"""Classical "solvers" that look for the answers around them. What none finds is answered by zeros, honestly."""

from __future__ import annotations

import gc
import os
import pickle
import stat
import sys

import numpy as np


class Honest:
    def __init__(self, task):
        self.task = task

    def solve(self, inputs):
        found = self.find(inputs)
        return np.zeros_like(inputs) if found is None else found

    def find(self, inputs):
        return None


class ReadsFrames(Honest):
    def find(self, inputs):
        frame = sys._getframe()
        while frame is not None:
            for value in frame.f_locals.values():
                if (found := answers(value, inputs)) is not None:
                    return found
            frame = frame.f_back
        return None


class ScansGarbage(Honest):
    def find(self, inputs):
        for thing in gc.get_objects():
            if (found := answers(thing, inputs)) is not None:
                return found
        return None


class PatchesTheMetric(Honest):
    def find(self, inputs):
        def flatter(prediction, target, metric, mask=None):
            zero = np.zeros(len(prediction))
            return dict.fromkeys(("test_err", "relative_l2", "trajectory_l2", "rmse", "max_error"), zero)

        for module in list(sys.modules.values()):
            if "sample_errors" in getattr(module, "__dict__", {}):
                module.sample_errors = flatter


class LeavesAPickle(Honest):
    """In the place of its result, and in every other one that may be one."""

    def find(self, inputs):
        leave(pickle.dumps(Bomb()))


class ForgesAResult(Honest):
    """A result as the core would write it, with no errors at all."""

    def find(self, inputs):
        from pdebench_hss.workers import exchange

        trial = next(value for name, value in everything_above() if name == "trial" and isinstance(value, dict))
        zeros = {"error_test_err": np.zeros(len(inputs))}
        record = {"key": "0" * 24, "trial": trial, "status": "ok", "metrics": {"test_err": 0.0}, "samples": zeros}
        exchange.write("forged", {"value": record})
        with open("forged", "rb") as file:
            leave(file.read())


class Babbles(Honest):
    """To everybody who may listen."""

    def find(self, inputs):
        for descriptor in range(3, 64):
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.set_blocking(descriptor, False)
                    os.write(descriptor, b"\x00\x00\x00\x40" + pickle.dumps(Bomb()) + b"\n" * 100)
            except OSError:
                continue


class Bomb:
    """Makes a directory where it is unpickled."""

    def __reduce__(self):
        return os.mkdir, (os.environ.get("BOMB", "bomb"),)


def answers(thing, inputs):
    """An array that is shaped like the answers and is not the question, in an object or in what it holds."""
    for value in (thing, *held(thing), *(inner for outer in held(thing) for inner in held(outer))):
        alike = isinstance(value, np.ndarray) and value.shape == inputs.shape and value.dtype == inputs.dtype
        if alike and value.any() and not np.array_equal(value, inputs):
            return value.copy()
    return None


def held(thing):
    if isinstance(thing, dict):
        return [value for value in thing.values() if not isinstance(value, type)]
    if isinstance(thing, (list, tuple)):
        return list(thing)[:100]
    try:
        return list(vars(thing).values()) if "pdebench_hss" in type(thing).__module__ else []
    except (TypeError, AttributeError):
        return []


def everything_above():
    frame = sys._getframe()
    while frame is not None:
        yield from frame.f_locals.items()
        frame = frame.f_back


def leave(content):
    """Write it where a result may be expected, and go without a word."""
    for _, value in list(everything_above()):
        for place in (value, getattr(value, "result", None)):
            if isinstance(place, str) and place.startswith("/") and "pdebench-hss-" in place:
                with open(place, "wb") as file:
                    file.write(content)
    os._exit(0)
