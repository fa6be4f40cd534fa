"""A small real board, and the command line in this process, for tests that damage boards."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import signal
import warnings
from pathlib import Path

import typer.main

import pdebench_hss as pb
from pdebench_hss import cli as command_line
from pdebench_hss.trials.validation import digest

TOYS = Path(__file__).parent.parent / "toys" / "toy_plugin.py"
typer.main.get_command = functools.lru_cache(typer.main.get_command)  # else every call inspects all commands again
SECONDS = 60  # for one command: a machine may be busy, but a loop is for ever


def make_board(folder: Path) -> Path:
    """Seven trials as `run` leaves them: ok, failed, skipped; two seeds."""
    options = {"models": "toy_conv,mean,toy_rollout_only", "tasks": "toy", "scale": "smoke", "seeds": 2}
    pb.run(out=str(folder), executor="inline", plugins=[str(TOYS)], **options)
    pb.run(out=str(folder), executor="inline", plugins=[str(TOYS)], **{**options, "models": "toy_raise", "seeds": 1})
    for leftover in ("checkpoints", "logs", ".lock"):
        path = folder / leftover
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return folder


def as_schema_1(folder: Path) -> None:
    """The records as the first release wrote them: without hashes."""
    for path in (folder / "records").glob("*.json"):
        content = json.loads(path.read_text())
        content = {name: value for name, value in content.items() if name not in ("arrays", "sha256")}
        path.write_text(json.dumps({**content, "schema": 1}))


def edit(path: Path, change, seal: bool = False) -> None:
    """Change the content of a JSON file; ``seal`` hashes it again, as a forger would."""
    content = json.loads(path.read_text())
    change(content)
    if seal:
        content["sha256"] = digest({name: value for name, value in content.items() if name != "sha256"})
    path.write_text(json.dumps(content))


def command(*arguments: object, seconds: int = SECONDS) -> tuple[int, str]:
    """Exit code and everything printed; an error if it takes longer than that."""

    def too_long(*_):
        raise AssertionError(f"{arguments} took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    terminate = signal.getsignal(signal.SIGTERM)
    signal.alarm(seconds)
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            warnings.simplefilter("always")
            command_line._SAID.clear()
            code = command_line._run([str(word) for word in arguments], debug=False)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGTERM, terminate)
    return code, printed.getvalue()


def is_calm(code: int, printed: str) -> bool:
    """It worked, or was refused in words: no Python error, no traceback, no code of a crash."""
    return code in (0, 2) and "--debug shows where" not in printed and "Traceback" not in printed
