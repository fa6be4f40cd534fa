"""The library's files of networks, imported one by one.

``the_well.benchmark.models`` imports all networks at once, and with them packages of its extra ``benchmark``:
neuraloperator, which it pins to 0.3, timm, which brings torchvision, and huggingface_hub. The networks used here need
two names of them: a mixin that uploads weights, and DropPath, which is built for a rate above 0 and so never here.
While a file is imported stand-ins take the place of these packages; afterwards ``sys.modules`` is as it was before, so
that somebody who has installed the extra imports what they would without this package.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

MODELS = "the_well.benchmark.models"
_turn = threading.Lock()


class Uploads:
    """Stands for huggingface_hub.PyTorchModelHubMixin."""


class NoDropPath:
    """Stands for timm's DropPath."""

    def __init__(self, rate: float) -> None:
        raise NotImplementedError(f"DropPath({rate}) is in timm, which is not imported here")


@lru_cache(maxsize=8)
def networks(name: str) -> ModuleType:
    """The library's module of that name, ``unet_classic`` say."""
    with _turn, _alone():
        return importlib.import_module(f"{MODELS}.{name}")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    stands_in = {
        MODELS: _package(MODELS, [str(_folder())]),
        "huggingface_hub": _package("huggingface_hub", [], PyTorchModelHubMixin=Uploads),
        **{name: _package(name, [], DropPath=NoDropPath) for name in ("timm", "timm.layers")},
        **{name: _package(name, [], DropPath=NoDropPath) for name in ("timm.models", "timm.models.layers")},
    }
    families = ("huggingface_hub", "timm", MODELS)
    before = {name: module for name, module in sys.modules.items() if _is_of(name, families)}
    for name in before:
        del sys.modules[name]
    sys.modules.update(stands_in)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_of(name, families)]:
            del sys.modules[name]
        sys.modules.update(before)


def _is_of(name: str, families: tuple[str, ...]) -> bool:
    return any(name == family or name.startswith(f"{family}.") for family in families)


def _package(name: str, path: list[str], **names: type) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = path
    vars(module).update(names)
    return module


def _folder() -> Path:
    """Where the networks' files are, found without importing their package."""
    found = importlib.util.find_spec("the_well")
    if found is None or not found.submodule_search_locations:
        raise ImportError("the_well is not installed: pip install the_well")
    return Path(next(iter(found.submodule_search_locations))) / "benchmark" / "models"
