"""``python -m pdebench_hss ...`` in milliseconds: processes forked from one that has imported everything already.

Most of what a command in a test costs is the import of torch, there and in its worker. A nursery imports once what
these import, and forks for each process that `subprocess` is to start. Such a process is as real as any other: it has
its own pid, environment, directory and descriptors, and whoever started it is its parent, signals it and waits for it.

    requester   Popen([python, "-m", "pdebench_hss", ...])  ->  request and descriptors, through a socket
    nursery     forks twice; as the process in between ends, the requester (`adopting_orphans`) becomes the parent
    the fork    takes descriptors, directory and environment, and calls the `main` of what was asked for; a command
                first forks a nursery of its own, for the workers that it will start

New interpreters are used for ``python -c``, scripts, environments that an import could notice, and ``cold`` tests.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pdebench_hss.workers.pool import THREAD_VARIABLES
from pdebench_hss.workers.processes import adopting_orphans

MAINS = {"pdebench_hss": "pdebench_hss.cli", "pdebench_hss.workers.worker": "pdebench_hss.workers.worker"}
PRELOAD = ("torch._dynamo", "torch.utils.flop_counter", "pandas", "h5py", "scipy.sparse.linalg", "rich.console")
PRELOAD += ("pdebench_hss.runs.runner", "pdebench_hss.trials.run_trial", "pdebench_hss.use.again", *MAINS.values())
# Beginnings of names that no import looks at; those of the allocator change speed, not results.
LATE = ("PDEBENCH_HSS_", "PYTEST_", "XDG_", "TMPDIR", "HOME", "CUDA_VISIBLE", "TORCHINDUCTOR_", "THP_MEM_", "MALLOC_")
LATE += ("RAY_",)  # to import it sets one, where tests are collected; a nursery has not imported it
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
cold = False  # whether all processes are to be new interpreters
_plain_popen = subprocess.Popen
_turn = threading.Lock()
_nursery: socket.socket | None = None  # it ends when this is closed
_environment = dict(os.environ)  # of the nursery


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    """What an import may have looked at. One thread is what the nursery has."""
    one = {(name, "1") for name in THREAD_VARIABLES}
    return {n: v for n, v in environment.items() if not n.startswith(LATE) and (n, v) not in one}


class Popen(_plain_popen):
    """`subprocess.Popen`, by the nursery where that makes no difference."""

    def _execute_child(self, *arguments: Any) -> None:
        asked = inspect.signature(_plain_popen._execute_child).bind(self, *arguments).arguments
        words, environment = asked["args"], os.environ if asked["env"] is None else asked["env"]
        ours = isinstance(words, (list, tuple)) and list(words[:2]) == [sys.executable, "-m"] and words[2] in MAINS
        if cold or not ours or asked["preexec_fn"] or _early(environment) != _early(_environment):
            return super()._execute_child(*arguments)
        ends = {0: asked["p2cread"], 1: asked["c2pwrite"], 2: asked["errwrite"]}
        given = {n: n if end == -1 else end for n, end in ends.items()} | {n: n for n in asked["pass_fds"]}
        directory, session = os.path.abspath(asked["cwd"] or "."), bool(asked["start_new_session"])
        request = [list(map(os.fspath, words[2:])), dict(environment), directory, session, list(given)]
        try:
            with _turn, adopting_orphans():
                socket.send_fds(_line(), [json.dumps(request).encode()], list(given.values()))
                self.pid = int(_line().recv(64))
            self._child_created = True
        finally:
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(asked[name] for name in pipes))


def _line() -> socket.socket:
    global _nursery
    if _nursery is None:
        _nursery, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, str(theirs.fileno())]
        with theirs:
            _plain_popen(command, pass_fds=[theirs.fileno()], env=_environment).returncode = 0  # nobody waits for it
    return _nursery


def serve(line: socket.socket) -> Callable[[], None] | None:
    """Fork for each request until the requester is gone. Returns in the forks, too: with what they are to do."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    while (found := socket.recv_fds(line, 1 << 20, 64))[0]:
        if (between := os.fork()) == 0:
            own = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == own:  # until it is adopted
                time.sleep(0.0002)
            line.send(str(os.getpid()).encode())
            line.close()
            return _become(json.loads(found[0]), found[1])
        for descriptor in found[1]:
            os.close(descriptor)
        os.waitpid(between, 0)
    return None


def _become(request: list[Any], descriptors: list[int]) -> Callable[[], None]:
    """Take over what the requester gave, as a new interpreter would find it."""
    words, environment, directory, session, numbers = request
    waiting = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 200) for descriptor in descriptors]  # above all numbers
    for descriptor, number in zip(waiting, numbers):
        os.dup2(descriptor, number)
    for descriptor in {*descriptors, *waiting} - {*numbers}:
        os.close(descriptor)
    if session:
        os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    sys.path[0] = directory
    importlib.invalidate_caches()
    module = importlib.import_module(MAINS[words[0]])
    sys.argv = [str(module.__file__), *words[1:]]
    main = partial(_call, module.main)
    return _with_nursery(main) if words[0] == "pdebench_hss" else main


def _call(main: Callable[[], None]) -> None:
    """Call it and end as an interpreter does, but for taking apart what was imported: half a second for each process.
    What ends otherwise than by `sys.exit` is left to the interpreter."""
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, (int, type(None))):
            raise
        code = end.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # whoever was to read it is gone
        sys.exit(code)
    os._exit(code & 0xFF)


def _with_nursery(main: Callable[[], None]) -> Callable[[], None]:
    """In a command: its own, so that what it starts becomes its child. In that nursery's forks: what they are to do."""
    global _nursery, _environment
    _nursery, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _environment = dict(os.environ)
    if os.fork():
        theirs.close()
        subprocess.Popen = Popen  # type: ignore[misc]
        return main
    _nursery.close()
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    return serve(theirs) or partial(os._exit, 0)


if __name__ == "__main__":
    import warm_python  # under its importable name, so that there is one nursery

    list(map(importlib.import_module, PRELOAD))
    gc.freeze()
    (warm_python.serve(socket.socket(fileno=int(sys.argv[1]))) or partial(os._exit, 0))()
