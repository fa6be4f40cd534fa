"""Imported by a worker before its first fork: what every trial would import or find out by itself otherwise.

torch pulls in dynamo, seconds of it, on the first counted FLOP; plugins are looked up in the metadata of all installed
packages; the state of the source takes two runs of git. A fork inherits all of it.
"""

from __future__ import annotations

import torch._dynamo  # noqa: F401

from ..base import machine
from ..contract.registry import Registry, add_files, load_registry
from . import run_trial  # noqa: F401  (imported for the forks)

machine.versions()
machine.source_state()
machine.hardware()  # of a CPU trial: to ask a GPU for its name would start CUDA, which a fork could not use any more

_INSTALLED = load_registry()


def registry(plugin_files: tuple[str, ...]) -> Registry:
    """All installed plugins and the given files; to be asked once per fork."""
    add_files(_INSTALLED, plugin_files)
    return _INSTALLED
