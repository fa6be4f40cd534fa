"""`load_model`: a trained model from a board, ready to be used.

    record -> models/<key>.json, .safetensors -> built as its trial built it, with these weights -> `LoadedModel`

Only what the record names by its hash is loaded, and nothing is unpickled. The code of the model comes from the plugin
that is installed here, which must declare the same version as the one that was trained.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ..base import devices
from ..base.errors import UsageError
from ..base.files import BadFile
from ..contract import traits
from ..contract.identity import maker_of
from ..contract.model import ModelSpec
from ..contract.registry import ARRAYS, Registered, Registry, load_registry
from ..contract.task import TaskInfo
from ..contract.task_file import is_task_file
from ..training.evaluation import Predictor
from ..training.trial_device import torch_device
from ..trials import weights
from ..trials.artefacts import NoModel
from ..trials.keeping import build, fields_of, normalizer_from
from ..trials.record import Record
from ..trials.store import Store
from ..trials.trial import Trial
from .choosing import choose_record, open_board
from .loaded import LoadedModel


def load_model(
    board: Any,
    model: str | None = None,
    task: str | None = None,
    seed: int | None = 0,
    *,
    device: str = "cpu",
    plugins: Sequence[str | os.PathLike[str]] = (),
    registry: Registry | None = None,
    key: str | None = None,
    **further: Any,
) -> LoadedModel:
    """A trained model as a function of physical fields.

    ``board`` is a directory that `run` wrote, or the table that it returned. ``model`` and ``task`` are named as on the
    board, with options if they had any (``"net[width=16]"``). If that matches several trials, choose by ``scale``,
    ``budget``, ``n_train`` or another field of `pdebench_hss.Trial`, or by the beginning of the ``key``. Models from
    ``--plugin`` files need these files again in ``plugins``.

    >>> net = load_model("leaderboards/latest", model="resnet", task="poisson_1d")  # doctest: +SKIP
    >>> u = net(f)  # numpy or torch, one sample or many                              # doctest: +SKIP
    """
    store = open_board(board)
    record = choose_record(store, model, task, seed, key=key, **further)
    return from_record(store, record, registry or load_registry([os.fspath(path) for path in plugins]), device)


def from_record(store: Store, record: Record, registry: Registry, device: str = "cpu") -> LoadedModel:
    """The model of one record."""
    trial, who = record.trial, f"{record.trial.model_label} on {record.trial.task_label} (seed {record.trial.seed})"
    chosen = devices.resolve_device(device)
    try:
        description, content = store.models.read(record)
        spec, info = model_spec(trial, record, registry), task_info(trial, record, registry)
        _check_fields(description, info)
        tensors = description["weights"].get("tensors")
        state = weights.from_bytes(content, tensors if isinstance(tensors, dict) else {})
        module = build(trial, spec, info, state)
        normalizer = normalizer_from(description.get("normalizer"), info)
    except NoModel as error:
        raise UsageError(
            f"{who} has no model to load: {error}. Run the command of the board again with --force to get it"
        ) from None
    except BadFile as error:
        raise UsageError(f"{who} can't be loaded: {error}") from None
    host = traits.is_closed_form(type(module))  # closed forms predict where their arrays are
    where = torch_device("cpu" if host else chosen.kind, chosen.index or 0)
    if isinstance(module, nn.Module) and where.type != "cpu":  # it was built there
        module.to(where)
    predictor = Predictor(module, info, normalizer, trial.optimizer.batch, where, trial.precision)
    return LoadedModel(predictor, record, description)


def model_spec(trial: Trial, record: Record, registry: Registry) -> ModelSpec:
    """The installed model that builds it; raises `UsageError` if it is missing, or not the one that was trained."""
    found = _installed(registry.models, "model", trial.model, record, registry)
    who = f"model {trial.model!r}"
    if found.spec.version != trial.model_version:
        raise UsageError(
            f"{who} was trained in version {trial.model_version!r}, and {found.origin} has version "
            f"{found.spec.version!r}; install the release that it was trained with, or run it again"
        )
    if trial.model_maker and maker_of(found) != trial.model_maker and not trial.model_maker.startswith("file "):
        raise UsageError(f"{who} was trained as part of {trial.model_maker}, and here it comes from {found.origin}")
    return found.spec


def task_info(trial: Trial, record: Record, registry: Registry) -> TaskInfo:
    """The task as the model was built for it."""
    spec = _installed(registry.tasks, "task", trial.task, record, registry).spec
    spec = spec if spec.history == trial.history else replace(spec, history=trial.history)
    if trial.scale not in spec.scales:
        raise UsageError(f"task {trial.task!r} has no scale {trial.scale!r} any more")
    return spec.info(trial.scale, trial.task_params)


def _installed(
    table: Mapping[str, Registered[Any]], kind: str, name: str, record: Record, registry: Registry
) -> Registered[Any]:
    if name in table:
        return table[name]
    plugin = record.provenance.get("plugins", {}).get(kind, {})
    package, version = plugin.get("distribution", ""), plugin.get("version", "")
    broken = next((str(b) for b in registry.broken if b.origin.distribution == package), "")
    if broken:
        raise UsageError(f"{kind} {name!r}: {broken}")
    if package == ARRAYS:
        raise UsageError(
            f"{kind} {name!r} is made of arrays that are not in the cache: pdebench-hss data add {name} ..."
        )
    if package.endswith(".py") or is_task_file(package):
        raise UsageError(f"{kind} {name!r} comes from the file {package}; give it with --plugin PATH or plugins=[PATH]")
    if not package:
        raise UsageError(f"{kind} {name!r} is not installed, and the record does not say which package brings it")
    raise UsageError(
        f"{kind} {name!r} comes from the package {package}, which is not installed: pip install {package}=={version}"
    )


def _check_fields(description: Mapping[str, Any], task: TaskInfo) -> None:
    stored = description.get("task", {})
    for name, value in fields_of(task).items():
        if stored.get(name) != value:
            raise BadFile(f"its {name} are {stored.get(name)}, and task {task.name!r} has {value} here")
