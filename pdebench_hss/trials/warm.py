"""Imported by a worker before its first fork: everything that each trial would otherwise import or look up again.

Counting the first FLOP makes torch import dynamo, which takes seconds; finding plugins reads the metadata of all
installed packages; the state of the source takes two runs of git. A fork inherits all of it.
"""

from __future__ import annotations

import encodings.ascii  # noqa: F401

import numpy.ctypeslib  # noqa: F401  (safetensors uses it)
import torch._dynamo  # noqa: F401

from ..base import machine
from ..base.references import call_target
from ..contract.registry import BUILT_IN, Registry, add_files, load_registry
from . import run_trial  # noqa: F401  (imported for the forks)

machine.versions()
machine.source_state()
machine.hardware()  # for CPU trials: asking a GPU for its name would start CUDA, and forks could then no longer use it

_INSTALLED = load_registry()

for _metric in _INSTALLED.metrics.values():
    if _metric.origin.distribution == BUILT_IN:  # others may be anybody's code, which runs in forks alone
        call_target(_metric.spec.compute)


def registry(plugin_files: tuple[str, ...]) -> Registry:
    """All installed plugins and the given files; call it once per fork."""
    add_files(_INSTALLED, plugin_files)
    return _INSTALLED
