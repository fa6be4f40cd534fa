"""Executes the code blocks of documents, in order, as a reader would: ``python run_documents.py FOLDER A.md B.md ...``.

Every document has a directory of its own below FOLDER, which looks like the repository, and a process of its own,
forked from one that has imported torch already. Prints a line of JSON per document: its name, exit code and output.

    python            executed, in one namespace per document
    bash, console     every line is a command. Where lines start with ``$ ``, only those are, and what stands below one
                      must be in its output (``…`` stands for anything); below an ``error:`` line the command must fail
    toml, yaml, json  parsed
    text              left alone: pictures, layouts, sketches

A python, toml or yaml block whose first line is ``# path/of/file`` is written to that file for the blocks that follow.
Runs, studies and tunings are made small: at scale smoke, in this process, with three models for ``all``, a few steps,
one seed per study and two tries per tuning.
``make`` targets are only looked up, and benchmarks only compiled: they take minutes. A script (``.py``) is a document
with one block.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import linecache
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import yaml

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.(?:py|toml|yaml|yml))\s*$", re.MULTILINE)
PARSERS = {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}
SKETCHES = ("text", "bibtex", "csv")
BOARDS = ("latest", "small-cpu")  # those that documents speak of; a board made in seconds stands for them
BOARD = ["run", "--models", "resnet,linear,mean", "--tasks", "poisson_1d", "--out", "board"]


class WrongDocument(AssertionError):
    """A block that does not do what the document says."""


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block."""
    return [(language, re.sub(rf"^{indent}", "", code, flags=re.M)) for indent, language, code in BLOCK.findall(text)]


def execute(text: str) -> None:
    """Run all blocks, and say how long each took."""
    names: dict[str, object] = {"__name__": "__document__"}
    for language, code in blocks(text):
        started = time.perf_counter()
        path = FILE.match(code)
        if path and language in ("python", *PARSERS):
            Path(path[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(path[1]).write_text(code, encoding="utf-8")
        if language == "python":
            place = f"block {len(linecache.cache)} of the document: {code.splitlines()[0]}"
            linecache.cache[place] = (len(code), None, code.splitlines(keepends=True), place)  # as a notebook does
            compiled = compile(code, place, "exec")
            if not path:
                exec(compiled, names)
        elif language in ("bash", "console"):
            for command, expected in commands(code):
                check(command, expected)
        elif language in PARSERS:
            PARSERS[language](code)
        elif language not in SKETCHES:
            raise WrongDocument(f"a block has the language {language!r}; give it one of those in {__file__}:\n{code}")
        print(f"{time.perf_counter() - started:6.1f} s  {code.splitlines()[0]}", flush=True)


def commands(code: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines of output that the document shows."""
    lines = code.replace("\\\n", " ").splitlines()
    if not any(line.startswith("$ ") for line in lines):
        return [(line, []) for line in lines if line.strip() and not line.startswith("#")]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line.strip())
    return found


def check(command: str, expected: list[str]) -> None:
    """Run a command line; it must end as the document shows and print what is shown."""
    failure = any(line.startswith("error:") for line in expected)
    output, code = "", 0
    for part in re.split(r"\s&&\s", command):
        code, printed = run(part)
        output += printed
        if code:
            break
    if bool(code) != failure:
        raise WrongDocument(f"$ {command}\nended with code {code}:\n{output}")
    squeezed = " ".join(output.split())
    for line in expected:
        pattern = ".*".join(re.escape(" ".join(piece.split())) for piece in line.split("…"))
        if not re.search(pattern, squeezed):
            raise WrongDocument(f"$ {command}\ndoes not print\n  {line}\nbut\n{output}")


def run(command: str) -> tuple[int, str]:
    words = shlex.split(command, comments=True)
    if words[0] == "cd":
        os.chdir(words[1])
        return 0, ""
    if words[0] == "pdebench-hss" and words[-2] == ">":
        with open(words[-1], "w", encoding="utf-8") as file:
            return in_process(smoke(words[1:-2]), file)
    if words[0] == "pdebench-hss" and "|" not in words:
        return in_process(smoke(words[1:]))
    if words[0] == "pip":
        return install(project(words))
    if words[0] == "make":
        return shell(f"make --dry-run {shlex.join(words[1:])}")
    if words[0] == "python" and words[1].startswith("benchmarks/"):
        return shell(f"{sys.executable} -m py_compile {words[1]}")
    return shell(command)


def install(folder: str) -> tuple[int, str]:
    """Install a project for this process and its children, from what is here: no index, no dependencies. What another
    document has installed before is copied."""
    options = "--quiet --no-deps --no-build-isolation --no-index"
    source = Path(folder, "pyproject.toml").resolve().parent  # whichever reader's copy of the repository it is in
    made = Path(os.environ["INSTALLED_BEFORE"]) / str(source).replace(os.sep, "-")
    outcome = 0, ""
    if not made.exists():
        outcome = shell(f"{sys.executable} -m pip install {options} --target {made} {shlex.quote(folder)}")
    if outcome[0] == 0:
        shutil.copytree(made, os.environ["PYTHONPATH"], dirs_exist_ok=True)
        importlib.invalidate_caches()
    return outcome


def project(words: list[str]) -> str:
    """The folder in ``pip install -e '.[test]'``."""
    return next(word for word in words[2:] if not word.startswith("-")).partition("[")[0]


def smoke(words: list[str]) -> list[str]:
    """A run, study or tuning of a document, made small enough for a test."""
    if words[0] not in ("run", "study", "tune"):
        return words
    options = {"--scale": "smoke", "--executor": "inline"}
    given = dict(itertools.pairwise(words))
    if words[0] == "study":
        options["--seeds"] = "1"
    if words[0] == "tune":
        options["--tries"] = "2"
    if given.get("--models") == "all":
        options["--models"] = "resnet,linear,mean"
    if re.fullmatch(r"steps=\d\d+|(epochs|seconds|core_seconds|flops)=\S+", given.get("--budget", "")):
        options["--budget"] = "steps=2,4" if "," in given["--budget"] else "steps=4"  # a ladder stays one
    if "--executor" in given:
        del options["--executor"]
    for option, value in options.items():
        if option in words:
            words = [value if before == option else word for before, word in zip(["", *words], words)]
        else:
            words = [*words, option, value]
    return words


def in_process(words: list[str], file: TextIO | None = None) -> tuple[int, str]:
    """Exit code and output of a command, whose standard output may go to a file."""
    from pdebench_hss.cli import main

    output = io.StringIO()
    with contextlib.redirect_stdout(file or output), contextlib.redirect_stderr(output):
        try:
            main(words)
        except SystemExit as end:
            return int(end.code or 0), output.getvalue()
    return 0, output.getvalue()


def shell(command: str) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, done.stdout + done.stderr


def sandbox(folder: Path, board: Path) -> None:
    """A reader's copy of the repository: links to what is read, copies of what may be written."""
    for name in (
        "Makefile",
        "constraints.txt",
        "pyproject.toml",
        "examples",
        "zoo",
        "benchmarks",
        "docs",
        "mkdocs.yml",
    ):
        (folder / name).symlink_to(ROOT / name)
    for name in BOARDS:
        if board.exists():
            shutil.copytree(board, folder / "leaderboards" / name)


def in_fork(folder: Path, work: Callable[[], Any]) -> tuple[int, str]:
    """Exit code and output of ``work()`` in a process of its own, in a directory of its own."""
    folder.mkdir(parents=True)
    log = folder.with_suffix(".log")
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        packages = folder / "installed"
        packages.mkdir()
        sys.path.insert(0, str(packages))
        os.environ["PYTHONPATH"] = str(packages)
        os.chdir(folder)
        code = 0
        try:
            work()
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), log.read_text()


def warm_up() -> None:
    """Import once what every document would import by itself, and run trials of the Python API in this process too."""
    import pdebench_hss.api as api

    for module in ("pdebench_hss.trials.run_trial", "pdebench_hss.testing", "pdebench_hss.cli.app", "torch._dynamo"):
        importlib.import_module(module)
    plain = api.run
    api.run = lambda *arguments, **options: plain(*arguments, **{"executor": "inline", **options})


def main(folder: Path, documents: list[Path]) -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["INSTALLED_BEFORE"] = str(folder / "installed_before")
    made = in_fork(folder / "first", lambda: in_process(smoke(BOARD)))
    print(json.dumps({"document": "the board", "code": made[0], "output": made[1]}), flush=True)
    for number, document in enumerate(documents):
        own = folder / str(number)

        def read(document: Path = document, own: Path = own) -> None:
            sandbox(own, folder / "first" / "board")
            if document.suffix == ".py":
                runpy.run_path(str(document))
            else:
                execute(document.read_text(encoding="utf-8"))

        code, output = in_fork(own, read)
        print(json.dumps({"document": document.name, "code": code, "output": output}), flush=True)


if __name__ == "__main__":
    warm_up()
    main(Path(sys.argv[1]).resolve(), [Path(name).resolve() for name in sys.argv[2:]])
