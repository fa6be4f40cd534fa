"""What a model's class says about its training, read off its methods. No torch.

    forward                                     the core trains it: mean squared error, AdamW
    loss(prediction, target, batch)             ... on its own loss
    configure_optimizer(parameters, recipe)     ... with its own optimiser
    fit(train, budget)                          it trains itself, and the core watches what it spends
    fit(train)                                  a closed form: it fits itself in one go
    solve(inputs)                               a classical solver: it is not trained
    pieces = True or False                      whether the core may compute a batch in pieces

Only methods of the class count, not what an instance holds (a ``self.loss = nn.MSELoss()`` has another signature). A
name that other frameworks use for one of these is not taken for it, and not passed over in silence (`misnamed`).
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

OWN_LOSS, OWN_OPTIMISER, TRAINS_ITSELF = "own loss", "own optimiser", "trains itself"
CLOSED_FORM, SOLVER, BY_THE_CORE = "closed form", "classical solver", "trained by the core"

LOSS = "loss(prediction, target, batch)"
OPTIMISER = "configure_optimizer(parameters, recipe)"
FIT = "fit(train, budget)"
# Names that mean something elsewhere, and what they are called here.
ELSEWHERE = {
    **dict.fromkeys(("loss_fn", "loss_function", "compute_loss", "get_loss", "criterion"), LOSS),
    **dict.fromkeys(
        ("configure_optimizers", "configure_optimiser", "configure_optimisers", "make_optimizer"), OPTIMISER
    ),
    **dict.fromkeys(("get_optimizer", "create_optimizer"), OPTIMISER),
    **dict.fromkeys(("training_step", "train_step"), f"{LOSS}, or {FIT}"),
    **dict.fromkeys(("train_model", "training_loop", "train_epoch"), FIT),
    **dict.fromkeys(("validation_step", "test_step"), "nothing: the core validates (--val) and scores"),
    **dict.fromkeys(("lr_scheduler", "configure_schedulers"), "nothing: a cosine follows the budget"),
}


def _has(model: type, name: str) -> bool:
    return callable(getattr(model, name, None))


def fits_itself(model: type) -> bool:
    """In closed form or in its own loop."""
    return _has(model, "fit")


def trains_itself(model: type) -> bool:
    """Does its ``fit`` take a budget? A second argument that has a default counts only if it is called ``budget``."""
    return fits_itself(model) and takes_budget(model.fit)  # type: ignore[attr-defined]


def takes_budget(fit: Callable[..., Any]) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    _, *arguments = inspect.signature(fit).parameters.values()  # without self
    if any(argument.name == "budget" for argument in arguments):
        return True
    needed = [a for a in arguments if a.kind in positional and a.default is inspect.Parameter.empty]
    return len(needed) > 1


def is_closed_form(model: type) -> bool:
    """Is it fitted without training, or not at all?"""
    return _has(model, "solve") or (fits_itself(model) and not trains_itself(model))


def has_own_loss(model: type) -> bool:
    return _has(model, "loss") and not fits_itself(model) and not _has(model, "solve")


def has_own_optimiser(model: type) -> bool:
    return _has(model, "configure_optimizer") and not fits_itself(model) and not _has(model, "solve")


def may_be_split(model: type) -> bool | None:
    """What its class says about computing a batch in pieces; None where it says nothing."""
    said = getattr(model, "pieces", None)
    return said if isinstance(said, bool) else None


def training_of(model: type) -> str:
    """What is its own of its training, as keys and boards have it; empty where the core does all, or nothing."""
    if is_closed_form(model):
        return ""
    if trains_itself(model):
        return TRAINS_ITSELF
    own = {OWN_LOSS: has_own_loss(model), OWN_OPTIMISER: has_own_optimiser(model)}
    return ", ".join(name for name, has in own.items() if has)


def kind_of(model: type) -> str:
    """The same in words, for `show`."""
    if _has(model, "solve"):
        return SOLVER
    if is_closed_form(model):
        return CLOSED_FORM
    own = training_of(model)
    return own if own == TRAINS_ITSELF else f"{BY_THE_CORE}{f', {own}' if own else ''}"


def outline(build: Any) -> type | None:
    """The class that ``"package.module:Class"`` names with its methods and nothing in them, read off its source.

    Looking around must not import torch. None where the source does not tell: a class that inherits from another
    module than torch's, or a function.
    """
    if not isinstance(build, str):
        return build if isinstance(build, type) else None
    module, _, name = build.partition(":")
    try:
        found = importlib.util.find_spec(module)
        source = Path(found.origin).read_text(encoding="utf-8") if found and found.origin else ""
        classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
        return _outlined(name, classes)
    except (ImportError, OSError, SyntaxError, ValueError):
        return None


def _outlined(name: str, classes: Mapping[str, ast.ClassDef]) -> type | None:
    if name in ("nn.Module", "torch.nn.Module", "Module", "object"):
        return object
    if name not in classes:
        return None
    bases = [_outlined(ast.unparse(base), classes) for base in classes[name].bases]
    if None in bases:
        return None
    methods = {node.name: _stub(node) for node in classes[name].body if isinstance(node, ast.FunctionDef)}
    return type(name, tuple(base for base in bases if base not in (None, object)), methods)


def _stub(node: ast.FunctionDef) -> Callable[..., Any]:
    """A function with these arguments that does nothing."""
    arguments = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    first_default = len(arguments) - len(node.args.defaults)
    parameters = [
        inspect.Parameter(argument, kind, default=empty if number < first_default else None)
        for number, argument in enumerate(arguments)
    ]

    def stub(*_: Any, **__: Any) -> None: ...

    stub.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return stub


def misnamed(model: Any) -> Iterator[str]:
    """Lines about methods (and, of an instance, attributes) that are not part of the contract but look like it."""
    kind = model if isinstance(model, type) else type(model)
    if is_closed_form(kind):
        return
    for name, right in ELSEWHERE.items():
        if callable(getattr(model, name, None)):
            yield f"{name} is not part of the contract and is not called; here it is {right}"
    if not isinstance(getattr(kind, "pieces", None), (bool, type(None))):
        yield "pieces is neither True nor False, so it says nothing about computing a batch in pieces"
    for name, right in (("loss", LOSS), ("configure_optimizer", OPTIMISER)):
        if not _has(kind, name) and callable(getattr(model, name, None)):
            yield f"{name} is an attribute and not a method, so it is not called; write a method {right}"
