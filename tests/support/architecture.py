"""The rules of docs/architecture.md, read off the source. Every function returns complaints, one line each, none if all
is well, and takes the folder to look at: so a test can also show it a tree that breaks the rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CORE = "pdebench_hss"
# Imports go down this list and never up. What is no room (the public surface) is above all.
ROOMS = (
    *("cli", "doctor", "studies", "tuning", "report", "bench", "notebook", "use", "plots", "testing", "runs", "boards"),
    *("trials", "metrics", "training", "data", "workers", "contract", "base"),
)
LIGHT_ROOMS = ("contract", "base")
LIGHT_TRIALS = (
    *("trial", "record", "store", "validation", "array_checks", "invalid", "plan_file", "array_files", "artefacts"),
    "predictions",
)
HEAVY = ("torch", "scipy")
PUBLIC = (CORE, f"{CORE}.testing")  # the modules that plugins may import from
COMMAND = re.compile(r"pdebench-hss \w|>>>")  # a command to type may name what a reader has installed
OWN_NAME = re.compile(r"pdebench[-_]hss(_\w+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Import:
    """``from module import name`` (or ``import module``, without a name) somewhere in a file."""

    path: Path
    line: int
    module: str
    name: str
    deferred: bool  # inside a function or under TYPE_CHECKING: not imported with the module

    @property
    def room(self) -> str:
        """The room of the core that it reaches into; nothing for the public surface."""
        parts = [*self.module.split("."), self.name]
        return parts[1] if parts[0] == CORE and parts[1] in ROOMS else ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: imports {self.module}{f' ({self.name})' if self.name else ''}"


def imports(root: Path, package: str = CORE) -> Iterator[Import]:
    """All imports of the files of a package in ``root``; relative ones are made absolute."""
    for path in sorted((root / package).rglob("*.py")):
        folders = path.relative_to(root).parent.parts
        tree = ast.parse(path.read_text(encoding="utf-8"))
        deferred = {id(node) for block in ast.walk(tree) if _is_deferred(block) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (Import(path, node.lineno, a.name, "", id(node) in deferred) for a in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = folders[: len(folders) - node.level + 1] if node.level else ()
                module = ".".join([*above, *([node.module] if node.module else [])])
                yield from (Import(path, node.lineno, module, a.name, id(node) in deferred) for a in node.names)


def _is_deferred(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def rooms_that_do_not_exist(root: Path) -> list[str]:
    found = {path.name for path in (root / CORE).iterdir() if (path / "__init__.py").exists()}
    return [f"{CORE}/{name} is a folder and no room of the list" for name in sorted(found - set(ROOMS))]


def upward_imports(root: Path) -> list[str]:
    """A room knows the rooms below it, and nothing above; the surface is above all."""
    return [
        f"{found}, which is above {own}"
        for found in imports(root)
        if found.module.split(".")[0] == CORE
        and (own := _room_of(found.path, root))
        and (not found.room or ROOMS.index(found.room) < ROOMS.index(own))
    ]


def private_imports(root: Path) -> list[str]:
    """A leading underscore means: for this room only."""
    return [
        f"{found}, which is private"
        for found in imports(root)
        if found.module.split(".")[0] == CORE
        and found.room != _room_of(found.path, root)
        and re.search(r"\._(?!_)", f"{found.module}.{found.name}")
    ]


def heavy_imports(root: Path) -> list[str]:
    """Light modules are imported by every command: nothing in them may import torch or scipy on the way."""
    return [
        f"{found}, and is light"
        for found in imports(root)
        if not found.deferred and found.module.split(".")[0] in HEAVY and found.path in light_files(root)
    ]


def light_files(root: Path) -> list[Path]:
    core = root / CORE
    trials = [core / "trials" / f"{name}.py" for name in LIGHT_TRIALS]
    return [*(path for room in LIGHT_ROOMS for path in sorted((core / room).rglob("*.py"))), *trials]


def words_of_plugins(root: Path, words: Iterable[str]) -> list[str]:
    """The core names no model, no equation and no paper, in code, strings and comments; commands to type may."""
    named = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
    return [
        f"{path}:{number}: names {found[0]!r}"
        for path in sorted((root / CORE).rglob("*.py"))
        for number, line in _without_commands(path.read_text(encoding="utf-8"))
        if (found := named.search(OWN_NAME.sub("", line)))
    ]


def _without_commands(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines but for commands to type, which go on in the next line after a backslash."""
    command = False
    for number, line in enumerate(text.splitlines(), 1):
        command = bool(COMMAND.search(line)) or command
        if not command:
            yield number, line
        command = command and line.endswith("\\")


def beyond_the_surface(root: Path, public: Iterable[str]) -> list[str]:
    """Plugins import ``from pdebench_hss import NAME`` and ``from pdebench_hss.testing import NAME``, nothing else."""
    complaints = []
    for found in imports(root, ""):
        if found.module.split(".")[0] != CORE:
            continue
        if found.module not in PUBLIC:
            complaints.append(f"{found}, which is not public")
        elif found.module == CORE and found.name and found.name not in (*public, "testing"):
            complaints.append(f"{found}, which {CORE} does not export")
    return complaints


def _room_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root / CORE).parts
    return parts[0] if len(parts) > 1 else ""
