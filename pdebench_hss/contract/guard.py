"""Plugin code, called so that nothing but its answer remains.

A plugin's import and hooks run in the driver, so they could end it (`sys.exit`), stop it (an endless loop), or change
what all others depend on: the working directory that a relative ``--out`` starts from, the environment that workers
inherit, signal handlers, random numbers, torch's defaults. `contained` turns every such end into one exception,
`Misbehaved`, puts back what was changed, and calls the change itself misbehaviour.

Limits. The clock is a signal, so it needs the main thread (elsewhere there is no limit of time) and acts at the next
line of Python: C code that never returns is not interrupted. `os._exit` and a crash of the interpreter end the program.
What a plugin does to other modules (monkey patches, threads) is not looked at.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

LIMIT_VARIABLE = "PDEBENCH_HSS_PLUGIN_SECONDS"
DEFAULT_LIMIT = 60.0
RINGS = 5  # times that a plugin that swallows the alarm is asked again, a second apart, before the program ends


class Misbehaved(Exception):
    """What a plugin did, in a few words that follow its name."""


class TookTooLong(BaseException):
    """Raised in the plugin by the clock. Not an `Exception`, because many swallow those."""


def time_limit() -> float:
    """Seconds that a plugin's import or hook may take."""
    try:
        return max(0.1, float(os.environ.get(LIMIT_VARIABLE, DEFAULT_LIMIT)))
    except ValueError:
        return DEFAULT_LIMIT


@contextlib.contextmanager
def contained(who: str, seconds: float | None = None, *, may_extend_environment: bool = False) -> Iterator[None]:
    """Run the block; raises `Misbehaved` for ends that are no `Exception`, and for changes it left, once undone.

    An `Exception` of the block passes, with everything put back. A signal from the user (Ctrl-C) is passed on.
    """
    settings = [s for s in SETTINGS if not (may_extend_environment and s is ENVIRONMENT)]
    settings += [EXISTING_ENVIRONMENT] if may_extend_environment else []
    before = {setting: setting.read() for setting in settings if setting.is_there()}
    with _Signals(who, seconds or time_limit()) as signals, _output_to_stderr():
        error: BaseException | None = None
        try:
            try:
                yield
            finally:
                signals.over = True
        except BaseException as raised:
            error = raised
    changed = signals.changed + [setting.name for setting in settings if _put_back(setting, before)]
    if signals.stopped:
        raise KeyboardInterrupt
    if isinstance(error, Exception):
        raise error
    if error is not None:
        raise Misbehaved(_describe(error, signals.seconds)) from error
    if changed:
        raise Misbehaved(f"changed {', '.join(changed)}, which a plugin must leave alone")


def _describe(error: BaseException, seconds: float) -> str:
    if isinstance(error, TookTooLong):
        return f"did not end within {seconds:g} s ({LIMIT_VARIABLE} sets the limit)"
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code if error.code is not None else ''})"
    return f"raised {type(error).__name__}"


@dataclass(frozen=True)
class Setting:
    """Something that the whole process shares. ``module``: only checked once that module has been imported."""

    name: str
    module: str
    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]
    fresh: Callable[[Any], Any] | None = None  # its value right after the import, if that is known

    def is_there(self) -> bool:
        return self.module in sys.modules

    @property
    def _module(self) -> ModuleType:
        return sys.modules[self.module]

    def read(self) -> Any:
        return self.get(self._module)

    def restore(self, value: Any) -> None:
        self.put(self._module, value)

    def as_imported(self) -> Any:
        return self.fresh(self._module) if self.fresh else None


def _put_back(setting: Setting, before: dict[Setting, Any]) -> bool:
    """Undo a change; returns whether there was one. A module that came with the plugin should be as imported."""
    if not setting.is_there():
        return False
    try:
        wanted = before[setting] if setting in before else setting.as_imported()
        if wanted is None:
            return False
        try:
            if _equal(wanted, setting.read()):
                return False
        except OSError:  # the working directory was removed
            pass
        setting.restore(wanted)
    except AttributeError:  # the module is there and half imported: the plugin failed on the way
        return False
    return True


def _equal(a: Any, b: Any) -> bool:
    if hasattr(a, "tobytes"):
        return bool(a.tobytes() == b.tobytes())
    if isinstance(a, tuple) and len(a) == 5:  # numpy's state: an array and four numbers
        return all(map(_equal, a, b))
    return bool(a == b)


def _put_environment(_: Any, wanted: dict[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


class _Kept(dict[str, str]):
    """An environment that counts as unchanged if what was there is there."""

    def __eq__(self, now: object) -> bool:
        return isinstance(now, dict) and self.items() <= now.items()

    __hash__ = None


def _put_default_device(torch: Any, wanted: Any) -> None:
    torch.set_default_device(None if wanted.type == "cpu" else wanted)  # "cpu" would slow every call down


ENVIRONMENT = Setting("the environment", "os", lambda _: dict(os.environ), _put_environment)
EXISTING_ENVIRONMENT = Setting(
    "the environment", "os", lambda _: _Kept(os.environ), lambda _, wanted: os.environ.update(wanted)
)
SETTINGS = (
    Setting("the working directory", "os", lambda _: os.getcwd(), lambda _, wanted: os.chdir(wanted)),
    ENVIRONMENT,
    Setting("Python's random state", "random", lambda _: random.getstate(), lambda _, wanted: random.setstate(wanted)),
    Setting("numpy's random state", "numpy.random", lambda m: m.get_state(legacy=True), lambda m, w: m.set_state(w)),
    Setting("numpy's handling of errors", "numpy", lambda m: m.geterr(), lambda m, wanted: m.seterr(**wanted)),
    Setting(
        "torch's random state",
        "torch",
        lambda m: m.get_rng_state().numpy(),
        lambda m, wanted: m.set_rng_state(m.from_numpy(wanted.copy())),
    ),
    Setting(
        "torch's default dtype",
        "torch",
        lambda m: m.get_default_dtype(),
        lambda m, wanted: m.set_default_dtype(wanted),
        lambda m: m.float32,
    ),
    Setting(
        "torch's default device",
        "torch",
        lambda m: m.get_default_device(),
        _put_default_device,
        lambda m: m.device("cpu"),
    ),
    Setting(
        "torch's grad mode",
        "torch",
        lambda m: (m.is_grad_enabled(),),
        lambda m, wanted: m.set_grad_enabled(wanted[0]),
        lambda m: (True,),
    ),
    Setting("torch's number of threads", "torch", lambda m: m.get_num_threads(), lambda m, w: m.set_num_threads(w)),
)

ALL_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))
# Handlers as the system has them. `signal` makes an enum of each answer, which takes ten times as long: 64 signals are
# read twice for every hook of every plugin, in every process of a trial.
_handler_of: Callable[[int], Any] = import_module("_signal").getsignal


class _Signals:
    """The clock, and handlers as they were. ``stopped``: a signal that ends programs came from outside meanwhile."""

    STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")

    def __init__(self, who: str, seconds: float) -> None:
        self.who, self.seconds = who, seconds
        self.stopped, self.over, self.rings = False, False, 0
        self.changed: list[str] = []
        self._on = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
        self._before: dict[int, Any] = {}
        self._meanwhile: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if not self._on:
            return self
        self._before = {number: _handler_of(number) for number in ALL_SIGNALS}
        for name in self.STOPPING:
            number = getattr(signal, name)
            if callable(handler := self._before[number]):
                signal.signal(number, self._noting(handler))
        signal.signal(signal.SIGALRM, self._ring)
        ours = (signal.SIGALRM, *(getattr(signal, name) for name in self.STOPPING))
        self._meanwhile = {**self._before, **{number: _handler_of(number) for number in ours}}
        self._started = time.monotonic()
        self._timer = signal.setitimer(signal.ITIMER_REAL, self.seconds, 1.0)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._on:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        changed = []
        for number, handler in self._before.items():
            now = _handler_of(number)
            if now != self._meanwhile[number]:
                changed.append(number)
            if now != handler and handler is not None:  # None: C code set it, which can't be put back from here
                signal.signal(number, handler)
        remaining, interval = self._timer
        if remaining:  # the caller has set an alarm of its own
            signal.setitimer(signal.ITIMER_REAL, max(1e-3, remaining - time.monotonic() + self._started), interval)
        if changed:
            self.changed.append(f"the handler of {', '.join(signal.Signals(n).name for n in sorted(changed))}")

    def _noting(self, handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
        def handle(number: int, frame: FrameType | None) -> None:
            self.stopped = True  # the plugin may swallow what the handler raises
            handler(number, frame)

        return handle

    def _ring(self, *_: Any) -> None:
        if self.over:
            return
        self.rings += 1
        if self.rings > RINGS:
            os.write(2, f"error: {self.who} can't be stopped; uninstall it or leave it out\n".encode())
            os._exit(2)
        raise TookTooLong


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[None]:
    """Keep what a plugin prints out of tables that other programs read."""
    streams = sys.stdout, sys.stderr
    try:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(2, 1)
    except (OSError, ValueError, AttributeError):  # no such descriptors here: a service, a notebook
        saved = -1
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        if saved >= 0:
            os.dup2(saved, 1)
            os.close(saved)
