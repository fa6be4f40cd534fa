"""Asks exponax, which runs in a process of its own (`server`): JAX and torch never share one.

That process is started when it is first needed, answers until this one ends, and keeps what JAX has compiled. A request
is one line of JSON and an array of doubles; so is the answer.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

# One thread and double precision: the same bits, however many cores there are. XLA would otherwise divide the sums.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
}
_turn = threading.Lock()
_started: dict[int, Solver] = {}  # by the process that started it: a fork starts its own


def march(request: Mapping[str, Any], starts: np.ndarray) -> np.ndarray:
    """The frames after the starts: (n, channels, *grid) -> (n, frames, channels, *grid)."""
    with _turn:
        mine = os.getpid()
        if mine not in _started or not _started[mine].is_running():
            _started[mine] = Solver()
        return _started[mine].ask(request, starts)


class Solver:
    def __init__(self) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 -- open as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pdebench_hss_exponax.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **ENVIRONMENT},
        )
        atexit.register(self.end)

    def is_running(self) -> bool:
        return self.process.poll() is None and not self.errors.closed

    def ask(self, request: Mapping[str, Any], starts: np.ndarray) -> np.ndarray:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            write(self.process.stdin, request, starts)
            answer, frames = read(self.process.stdout)
        except (OSError, EOFError):
            raise RuntimeError(self._last_words()) from None
        if "error" in answer:
            raise ValueError(f"exponax: {answer['error']}")
        return frames

    def _last_words(self) -> str:
        self.process.kill()
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"the process that runs exponax ended with code {code}: {lines[-1] if lines else 'it said nothing'}"

    def end(self) -> None:
        """It ends when its input does."""
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)


def write(file: IO[bytes], words: Mapping[str, Any], array: np.ndarray) -> None:
    file.write(json.dumps({"shape": array.shape, "words": words}).encode() + b"\n")
    file.write(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    file.flush()


def read(file: IO[bytes]) -> tuple[dict[str, Any], np.ndarray]:
    """Raises EOFError where the file ends."""
    line = file.readline()
    if not line:
        raise EOFError
    head = json.loads(line)
    content = file.read(8 * math.prod(head["shape"]))
    if len(content) < 8 * math.prod(head["shape"]):
        raise EOFError
    return head["words"], np.frombuffer(content).reshape(head["shape"]).copy()  # of bytes, it could not be written to
