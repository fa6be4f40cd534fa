"""Choosing one trial of a board: by model, task and seed, and by whatever else distinguishes trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UsageError, did_you_mean
from ..contract.selection import choose
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from ..trials.trial import Trial

# Fields that distinguish trials of one model, task and seed, named as on the command line.
FURTHER = ("scale", "budget", "n_train", "data_seed", "params_target", "device", "precision", "val")
MOST_LISTED = 8


def open_board(board: Any) -> Store:
    """The board of a path, a `Store` or a table made by `run`."""
    if isinstance(board, Store):
        return board
    place = getattr(board, "attrs", {}).get("board") if hasattr(board, "attrs") else board
    if not isinstance(place, (str, Path)):
        raise UsageError("this table does not know the directory that it was made in; give the directory instead")
    store = Store(place)
    if not store.path.is_dir():
        raise UsageError(f"{store.path}: no such directory")
    if not store.keys():
        raise UsageError(f"{store.path} holds no records; make some with: pdebench-hss run --out {store.path} ...")
    return store


def choose_record(
    store: Store,
    model: str | None = None,
    task: str | None = None,
    seed: int | None = 0,
    *,
    key: str | None = None,
    **further: Any,
) -> Record:
    """The one matching record. ``model`` and ``task`` are names or labels such as ``net[width=16]``; ``further`` are
    fields of the trial (`FURTHER`). A deterministic model has one record for all seeds. Raises `UsageError` with the
    choices if there is not exactly one."""
    labelled = store.plan_file.labelled(model, task) if model and task and key is None else []
    trials = labelled or list(board_trials(store))
    if key is not None:
        found = [trial for trial in trials if trial.key.startswith(key)]
        if not found:
            raise UsageError(f"no trial in {store.path} has a key that begins with {key!r}")
    else:
        found = _labelled(store, trials, "task", task)
        found = _labelled(store, found, "model", model)
        if seed is not None and not all(trial.deterministic for trial in found):
            found = _with(found, "seed", seed)
        for name, value in further.items():
            if value is not None:
                found = _with(found, name, value)
    if len(found) > 1:
        raise UsageError(_ambiguous(found))
    record = store.get(found[0].key)
    if record is None:
        raise UsageError(f"{_cell(found[0])} has not been run yet; run the command of the board again")
    if record.status is not Status.OK:
        raise UsageError(f"{_cell(found[0])} is {record.status}: {record.reason}")
    return record


def board_trials(store: Store) -> Iterable[Trial]:
    """The trials of a board as its tables show them, without reading their results."""
    plan = store.plan()
    return [entry.trial for entry in plan.values()] if plan else [record.trial for record in store.current()]


def _labelled(store: Store, trials: Sequence[Trial], what: str, wanted: str | None) -> list[Trial]:
    """The trials of one model or task. An exact label wins over others of the same name."""
    labels = list(dict.fromkeys(getattr(trial, f"{what}_label") for trial in trials))
    if wanted is None:
        if len(labels) == 1:
            return list(trials)
        raise UsageError(f"which {what}? {store.path} has {_some(labels)}; write {what}=NAME (--{what} NAME)")
    label = _spelled(wanted, what, {getattr(trial, what) for trial in trials})
    exact = [trial for trial in trials if getattr(trial, f"{what}_label") == label]
    found = exact or [trial for trial in trials if getattr(trial, what) == label]
    if not found:
        hint = did_you_mean(wanted, labels)
        raise UsageError(f"no {what} {wanted!r} in {store.path}.{hint}  It has {_some(labels)}")
    names = list(dict.fromkeys(getattr(trial, f"{what}_label") for trial in found))
    if len(names) > 1:
        raise UsageError(f"{what} {wanted!r} is one of {_some(names)}; write which")
    return found


def _spelled(wanted: str, what: str, names: Iterable[str]) -> str:
    """With its options in the order of labels; unchanged if it is not a name with options."""
    try:
        return choose(wanted, {*names, wanted.partition("[")[0]}, what)[0].label
    except UsageError:
        return wanted


def _with(trials: Sequence[Trial], name: str, value: Any) -> list[Trial]:
    found = [trial for trial in trials if str(getattr(trial, name)) == str(value)]
    if not found:
        there = sorted({str(getattr(trial, name)) for trial in trials})
        what = f"{trials[0].model_label} on {trials[0].task_label}"
        raise UsageError(f"{what}: no {name} {value}; it was run with {name} {', '.join(there)}")
    return found


def _ambiguous(trials: Sequence[Trial]) -> str:
    """The fields that differ, or the keys."""
    differing = [name for name in ("seed", *FURTHER) if len({str(getattr(trial, name)) for trial in trials}) > 1]
    lines = [
        f"{', '.join(f'{name}={getattr(trial, name)}' for name in differing)} (key {trial.key[:8]})" for trial in trials
    ]
    what = f"{trials[0].model_label} on {trials[0].task_label}"
    return f"{what}: {len(trials)} trials; say which by {' or '.join(differing) or 'key'}: {_some(lines, '; ')}"


def _cell(trial: Trial) -> str:
    return f"{trial.model_label} on {trial.task_label} (seed {trial.seed})"


def _some(words: Sequence[str], between: str = ", ") -> str:
    more = len(words) - MOST_LISTED
    return between.join(words[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
