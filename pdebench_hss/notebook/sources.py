"""The source of something that was defined in a notebook, complete enough to run in another process.

A worker can't import a class that lives in a cell. But its source is known (`linecache` holds that of every cell), and
so is what it uses: the names that are global in it, looked up where it was defined. Each of them is

    a module                         imported:  import torch
    from an installed package        imported by name:  from torch import nn
    a class or function of the user's, in a cell or in a file beside the notebook
                                     defined here too, from its own source
    plain numbers, text, lists       assigned:  WIDTH = 32
    anything else                    refused, by name: a tensor or an object has no source

Names that are local somewhere are told from global ones by `symtable`, as the compiler does it: a cell's ``x`` is not
taken for the argument ``x`` of a method.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ..base.errors import UsageError
from ..contract.hookspecs import PROJECT

PLAIN = (type(None), bool, int, float, complex, str, bytes)
LAZY_ANNOTATIONS = "from __future__ import annotations"
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class NoSource(UsageError):
    """Something that can't be written down as source."""


class Sources:
    """Definitions and all that they use, collected; `text` is Python that makes the same."""

    def __init__(self) -> None:
        self._bound: dict[str, Any] = {}
        self._imports: set[str] = set()
        self._parts: list[str] = []

    def add(self, value: Any) -> str:
        """Add a class or a function; returns the name that it has in the text."""
        name = value.__name__
        if name == "<lambda>":
            name = f"function_{sum(known.startswith('function_') for known in self._bound) + 1}"
        self._bind(name, value, f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}")
        return name

    @property
    def text(self) -> str:
        future = sorted(line for line in self._imports if line == LAZY_ANNOTATIONS)
        others = sorted(self._imports - {LAZY_ANNOTATIONS})
        return "\n".join([*future, *others]) + "\n\n\n" + "\n\n\n".join(self._parts) + "\n"

    def _bind(self, name: str, value: Any, user: str) -> None:
        if name in self._bound:
            if self._bound[name] is not value:
                raise NoSource(f"{user} uses {name!r}, and so does something else that it uses, for another thing")
            return
        self._bound[name] = value
        if isinstance(value, ModuleType):
            self._import_module(name, value, user)
        elif isinstance(value, (type, FunctionType)) and not is_installed(value.__module__):
            self._define(name, value)
        elif is_plain(value):
            self._parts.append(f"{name} = {value!r}")
        elif place := _importable(name, value):
            module, attribute = place
            self._imports.add(f"from {module} import {attribute}" + (f" as {name}" if name != attribute else ""))
        else:
            raise NoSource(
                f"{user} uses {name!r}, which is of type {type(value).__name__} and has no source. Make it a plain "
                "number or text, an argument of __init__, or define it inside"
            )

    def _import_module(self, name: str, module: ModuleType, user: str) -> None:
        if not is_installed(module.__name__):
            raise NoSource(
                f"{user} uses the module {module.__name__!r}, which is not installed: its source would not be in the "
                f"key. Write: from {module.__name__} import what is used"
            )
        same = name == module.__name__
        self._imports.add(f"import {module.__name__}" + ("" if same else f" as {name}"))

    def _define(self, name: str, value: type | FunctionType) -> None:
        found = definition_of(value)
        namespace = _namespace(value)
        if found.lazy_annotations:
            self._imports.add(LAZY_ANNOTATIONS)
        for used in sorted(global_names(found.text) & namespace.keys() - {value.__name__}):
            self._bind(used, namespace[used], found.title)
        if value.__name__ == "<lambda>":
            self._parts.append(f"{name} = {found.text}")
            return
        self._parts.append(found.text)
        if name != value.__name__:
            self._parts.append(f"{name} = {value.__name__}")


# ---------------------------------------------------------------- one definition


@dataclass(frozen=True)
class Found:
    """The source of one definition."""

    title: str
    text: str
    lazy_annotations: bool = False


def definition_of(value: type | FunctionType) -> Found:
    """The statement that made a class or a function; raises `NoSource` if there is none that still does."""
    kind = "class" if isinstance(value, type) else "function"
    title = f"the {kind} {value.__qualname__}"
    if "<locals>" in value.__qualname__ and value.__name__ != "<lambda>":
        raise NoSource(f"{title} is defined inside a function; define it at the top of a cell or a file")
    if isinstance(value, type):
        return _class_source(value, title)
    if value.__code__.co_freevars:
        raise NoSource(f"{title} uses {value.__code__.co_freevars[0]!r} of the function around it; write it apart")
    text = _text_of(value.__code__.co_filename)
    lazy = bool(value.__code__.co_flags & __future__.annotations.compiler_flag)
    if value.__name__ == "<lambda>":
        return Found(title, _lambda_source(value, text), lazy)
    for node in reversed(list(_definitions(text))):
        if node.name == value.__name__ and _first_line(node) == value.__code__.co_firstlineno:
            return Found(title, _segment(text, node), lazy)
    raise NoSource(_nowhere(title))


def _class_source(value: type, title: str) -> Found:
    methods = list(_methods(value))
    file, text = _file_of(value, methods)
    nodes = [node for node in _definitions(text) if isinstance(node, ast.ClassDef) and node.name == value.__name__]
    for node in reversed(nodes):
        lines = range(_first_line(node), (node.end_lineno or 0) + 1)
        outside = [m for m in methods if m.__code__.co_filename != file or m.__code__.co_firstlineno not in lines]
        if not outside:
            flag = __future__.annotations.compiler_flag
            return Found(title, _segment(text, node), any(m.__code__.co_flags & flag for m in methods))
        if len(outside) < len(methods):
            raise NoSource(
                f"{title}: {outside[0].__name__!r} is not in its class statement (set later, or its file was edited); "
                "define the class again"
            )
    raise NoSource(_nowhere(title))


def _methods(value: type) -> Iterator[FunctionType]:
    """The functions of the class itself that have a source. `dataclass` makes some that have none, all ``__so__``."""
    for member in vars(value).values():
        for function in (member, getattr(member, "__func__", None), getattr(member, "fget", None)):
            if not isinstance(function, FunctionType):
                continue
            if linecache.getlines(function.__code__.co_filename):
                yield function
            elif not (function.__name__.startswith("__") and function.__name__.endswith("__")):
                raise NoSource(_nowhere(f"the class {value.__qualname__}"))


def _namespace(value: type | FunctionType) -> Mapping[str, Any]:
    """The names around a definition."""
    for function in [value] if isinstance(value, FunctionType) else _methods(value):
        return function.__globals__
    return vars(sys.modules[value.__module__]) if value.__module__ in sys.modules else {}


def _file_of(value: type, methods: list[FunctionType]) -> tuple[str, str]:
    """The file, or cell, that a class is in, and its text. One without methods is looked for in all cells, among
    statements without methods."""
    own = [m for m in methods if m.__qualname__ == f"{value.__qualname__}.{m.__name__}"] or methods
    if own:
        return own[0].__code__.co_filename, _text_of(own[0].__code__.co_filename)
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    cells = [name for name in reversed(list(linecache.cache)) if not Path(name).exists()]
    for name in [*([file] if file else []), *cells]:
        text = _text_of(name)
        if any(node.name == value.__name__ and not _defines_methods(node) for node in _definitions(text)):
            return name, text
    return "", ""


def _defines_methods(node: Definition) -> bool:
    return any(isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) for inner in node.body)


def _text_of(file: str) -> str:
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


def _definitions(text: str) -> Iterator[Definition]:
    """Classes and functions at the top of a text, also below an ``if`` or ``try``, in their order."""
    with contextlib.suppress(SyntaxError):
        todo: list[ast.AST] = [ast.parse(text)]
        while todo:
            node = todo.pop(0)
            if isinstance(node, Definition):
                yield node
            elif isinstance(node, (ast.Module, ast.If, ast.Try, ast.With)):
                todo = [*ast.iter_child_nodes(node), *todo]


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _segment(text: str, node: Definition) -> str:
    lines = text.splitlines()[_first_line(node) - 1 : node.end_lineno]
    return textwrap.dedent("\n".join(line.rstrip() for line in lines))


def _lambda_source(value: FunctionType, text: str) -> str:
    first = value.__code__.co_firstlineno
    with contextlib.suppress(SyntaxError):
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Lambda) and node.lineno == first]
        if len(found) == 1:
            return f"({ast.get_source_segment(text, found[0])})"
    raise NoSource("the source of a lambda can't be told; write it as a function with def, or alone on its line")


def _nowhere(title: str) -> str:
    return (
        f"the source of {title} can't be found. Define it in a cell, or write it to a file beside the notebook and "
        "import it"
    )


# ---------------------------------------------------------------- names and values


def global_names(text: str) -> set[str]:
    """The names that a statement takes from around it."""
    names: set[str] = set()
    todo = [symtable.symtable(text, "<source>", "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            outer = not symbol.is_assigned() if top else symbol.is_global()
            if symbol.is_referenced() and outer:
                names.add(symbol.get_name())
    return names


def is_plain(value: Any) -> bool:
    """Whether the text of a value, ``repr(value)``, is its source."""
    if type(value) in (list, tuple, set, dict):
        parts: Iterable[Any] = [*value, *value.values()] if type(value) is dict else value
        return all(map(is_plain, parts)) and value != set()
    return type(value) in PLAIN and "inf" not in repr(value) and value == value


def is_installed(module: str | None) -> bool:
    """Whether every process can import a module: the library's, an installed package's, a plugin's."""
    top = (module or "").partition(".")[0]
    if top == "__main__":  # a cell, or a script, wherever it lies
        return False
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    if top == PROJECT or top in {found.module.partition(".")[0] for found in entry_points(group=PROJECT)}:
        return True
    file = getattr(sys.modules.get(top), "__file__", None) or _folder_of(sys.modules.get(top))
    return bool({"site-packages", "dist-packages"} & set(Path(file).parts)) if file else False


def _folder_of(package: ModuleType | None) -> str:
    """Of a package without a file of its own."""
    return next(iter(getattr(package, "__path__", [])), "")


def _importable(name: str, value: Any) -> tuple[str, str] | None:
    """A module and the attribute in it that is this very object; None if there is none.

    Its own module if that is public; otherwise the shortest public name in the same package, or anywhere.
    """
    own = str(getattr(value, "__module__", None) or repr(value).rpartition(".")[0])
    spelled = str(getattr(value, "__qualname__", getattr(value, "__name__", "")) or repr(value)).rpartition(".")[2]
    top = own.partition(".")[0]

    def order(place: tuple[str, str]) -> tuple[Any, ...]:
        module = place[0]
        return module != own, module.partition(".")[0] != top, module.count("."), len(module), place

    places = [
        (module, attribute)
        for module, found in list(sys.modules.items())
        if not any(part.startswith("_") for part in module.split(".")) and isinstance(found, ModuleType)
        for attribute in dict.fromkeys((spelled, name))
        if vars(found).get(attribute) is value and is_installed(module)
    ]
    return min(places, key=order, default=None)
