"""Train a trial of a board again, and say whether the same came out.

    equal to the bit      every error of every test sample
    within rounding       they differ by less than rounding explains (`rescoring.TOLERANCE`)
    within seeds          the machine, a version or the source differs, or the budget is one of time, and the error is
                          where another seed would be: with x_i the logarithms of the errors of the row's n seeds,

                              |log e - mean x| <= t(1 - a / 2; n - 1) std(x) sqrt(1 + 1 / n),      a = 0.05 / m

                          where m is the number of trials that are trained again at once (Bonferroni)
    contradicted          none of these; on the same machine with the same versions and source only the bit counts, and
                          without training only rounding
    not checked           it can't be run here, it failed, or one seed has no interval

A trial is run as it is recorded: options, budget, seed and number of threads. The model and the task are those that are
installed here, and must declare the versions that the record was made with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base import devices
from ..base.errors import PdebenchError, UsageError
from ..boards.findings import CONFIRMED, CONTRADICTED, UNCHECKED
from ..contract.budget import CLOCKS
from ..contract.registry import Registry
from ..data.cache import Dataset, ensure
from ..runs.config import RunConfig, available_cores
from ..runs.plan import Plan, plan_of
from ..runs.reporter import Reporter
from ..runs.runner import Run
from ..training.protocol import PROTOCOL
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from ..trials.trial import Trial
from .again import WEIGHTS
from .loading import model_spec
from .rescoring import TOLERANCE, excess
from .sources import own_dataset

BIT, ROUNDING, SEEDS = "equal to the bit", "within rounding", "within seeds"
LEVEL = 0.05
PACKAGES = ("python", "torch", "numpy", "scipy")  # whose versions may change how a training rounds


@dataclass(frozen=True)
class Rerun:
    """What came of training a record's trial again. ``differences``: what is not as it was when the record was made."""

    record: Record
    verdict: str
    how: str = ""
    reason: str = ""
    again: Record | None = None
    differences: tuple[str, ...] = ()


class _Again(Run):
    """A run of trials that are given, without tables."""

    def __init__(
        self, config: RunConfig, trials: Sequence[tuple[Trial, Dataset]], registry: Registry, reporter: Reporter | None
    ) -> None:
        super().__init__(config, registry, reporter)
        self.trials = trials

    def _make_plan(self) -> Plan:
        return plan_of(self.trials, self.store, self.config)

    def write_tables(self) -> tuple[pd.DataFrame, list[Path]]:
        return pd.DataFrame(), []


def rerun(
    records: Sequence[Record],
    store: Store,
    registry: Registry,
    folder: Path,
    *,
    plugin_files: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Iterator[Rerun]:
    """Train the trials of these records again, in a new board in ``folder``; those that can't be come first."""
    groups: dict[tuple[str, str, int], list[tuple[Trial, Dataset]]] = {}
    todo: dict[str, Record] = {}
    for record in records:
        try:
            dataset = runnable(record, registry, plugin_files)
        except PdebenchError as error:
            yield Rerun(record, UNCHECKED, reason=str(error))
            continue
        threads = int(record.provenance.get("threads") or 1)
        groups.setdefault((record.trial.device, record.trial.precision, threads), []).append((record.trial, dataset))
        todo[record.key] = record
    rows = _rows_of(store)
    for (device, precision, threads), trials in groups.items():
        config = RunConfig(
            tasks="all",
            device=device,
            precision=precision,
            jobs=max(1, available_cores() // threads),
            out=str(folder / f"{device}-{precision}-{threads}"),
            plugins=tuple(map(str, plugin_files)),
            keep_models=False,
        )
        engine = _Again(config, trials, registry, reporter)
        for again in engine.execute().records:
            record = todo[again.key]
            arrays = (store.read(record.key, ())[1], engine.store.read(again.key, ())[1])
            yield compare(record, again, *arrays, rows.get(_row(record.trial), []), len(todo))


def runnable(record: Record, registry: Registry, plugin_files: Sequence[str] = ()) -> Dataset:
    """The data of a record's trial; raises `UsageError` if the trial is not the same one here. Data of another recipe,
    as earlier versions spelled it, will do if they have the same content."""
    trial = record.trial
    if trial.protocol != PROTOCOL:
        raise UsageError(f"it was made by protocol {trial.protocol}; this version trains by protocol {PROTOCOL}")
    model_spec(trial, record, registry)
    devices.resolve_device(trial.device)  # refused if this machine has none
    dataset, stated = own_dataset(record, registry), record.data.get("sha256")
    if dataset.id != trial.data_id:
        found = ensure(dataset, jobs=available_cores(), plugin_files=plugin_files).sha256
        if found != stated:
            raise UsageError(f"its data have the content {str(stated)[:12]}; those of the task here have {found[:12]}")
    if trial.task_digest and dataset.spec.digest() != trial.task_digest:
        how = "it scales, pads or scores fields differently, or an earlier version spelled that otherwise"
        raise UsageError(f"task {trial.task!r} has another digest here: {how}")
    return dataset


def _row(trial: Trial) -> tuple[Any, ...]:
    return replace(trial, seed=0).place


def _rows_of(store: Store) -> Mapping[tuple[Any, ...], list[float]]:
    """The errors of all seeds of each row of the board."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for record in store.current():
        if record.status is Status.OK and "test_err" in record.metrics:
            found.setdefault(_row(record.trial), []).append(record.metrics["test_err"])
    return found


# --- the same or not --------------------------------------------------------------------------------------------------


def compare(
    record: Record,
    again: Record,
    stated: Mapping[str, np.ndarray],
    found: Mapping[str, np.ndarray],
    seeds: Sequence[float],
    trials: int = 1,
) -> Rerun:
    """A record and another of the same trial with their arrays; ``seeds`` are the errors of its row, and ``trials`` is
    how many are compared at once."""
    differences = tuple(_differences(record, again))
    exact = not differences and record.trial.budget.kind not in CLOCKS

    def ended(verdict: str, how: str = "", reason: str = "") -> Rerun:
        return Rerun(record, verdict, how, reason, again, differences)

    words = f"stated {_said(record)}, trained again {_said(again)}"
    if not again.status.is_settled:
        return ended(UNCHECKED, reason=f"trained again it ended {again.status}: {again.reason}")
    if again.status is not record.status:
        if exact:
            return ended(CONTRADICTED, reason=f"{words}, on the same machine with the same versions")
        return ended(UNCHECKED, reason=f"{words}; {_listed(differences)}")
    if record.status is not Status.OK:
        return ended(CONFIRMED, f"{record.status} again")
    names = [name for name in stated if name.startswith("error_") and name in found]
    if names and all(np.array_equal(stated[name], found[name], equal_nan=True) for name in names):
        return ended(CONFIRMED, BIT)
    if exact:
        return ended(CONTRADICTED, reason=f"{words}, on the same machine with the same versions")
    if _within_rounding(stated, found, names):
        return ended(CONFIRMED, ROUNDING)
    if record.trial.training_free or record.trial.deterministic:
        return ended(CONTRADICTED, reason=f"{words}, more than rounding explains, and nothing in it is random")
    if (width := _half_width(seeds, trials)) is None:
        return ended(UNCHECKED, reason=f"{words}; one seed has no interval, and {_listed(differences)}")
    centre = float(np.mean(np.log(seeds)))
    if abs(math.log(again.metrics["test_err"]) - centre) <= width:
        return ended(CONFIRMED, SEEDS)
    low, high = (math.exp(centre + side * width) for side in (-1, 1))
    return ended(CONTRADICTED, reason=f"{words}; seeds give [{low:.4g}, {high:.4g}]; {_listed(differences)}")


def _said(record: Record) -> str:
    return repr(record.metrics["test_err"]) if "test_err" in record.metrics else str(record.status)


def _listed(differences: Iterable[str]) -> str:
    return f"here differ: {', '.join(differences) or 'nothing, but the budget is one of time'}"


def _differences(record: Record, again: Record) -> Iterator[str]:
    """What can change how a training rounds, or what it computes."""
    then, now = record.provenance, again.provenance
    machines = [p.get("hardware", {}).get("id", "unknown") for p in (then, now)]
    if machines[0] != machines[1]:
        yield f"the machine ({machines[0]}, here {machines[1]})"
    if then.get("threads") != now.get("threads"):
        yield f"threads ({then.get('threads')}, here {now.get('threads')})"
    for package in PACKAGES:
        versions = [p.get("versions", {}).get(package, "unknown") for p in (then, now)]
        if versions[0] != versions[1]:
            yield f"{package} ({versions[0]}, here {versions[1]})"
    for what in ("model", "task"):
        hashes = [p.get("plugins", {}).get(what, {}).get("sha256", "") for p in (then, now)]
        if hashes[0] != hashes[1]:
            yield f"the source of the {what}"
    states = [p.get("source") or {} for p in (then, now)]
    if states[0].get("commit") != states[1].get("commit") or any(state.get("modified") for state in states):
        yield "the source of pdebench-hss"


def _within_rounding(stated: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], names: Sequence[str]) -> bool:
    relative = stated.get("error_relative_l2")
    pairs = ((stated[name], found[name]) for name in names)
    return bool(names) and all(excess(a, b, relative, TOLERANCE[WEIGHTS]) <= 1 for a, b in pairs)


def _half_width(seeds: Sequence[float], trials: int) -> float | None:
    """Of the interval for the logarithm of another seed's error; None if the row has one seed."""
    from scipy.special import stdtrit

    if len(seeds) < 2 or min(seeds) <= 0:
        return None
    spread = float(np.std(np.log(seeds), ddof=1))
    quantile = float(stdtrit(len(seeds) - 1, 1 - LEVEL / max(1, trials) / 2))
    return quantile * spread * math.sqrt(1 + 1 / len(seeds))


def line(found: Rerun) -> str:
    """One line: whether it is the same."""
    cell = found.record.trial.words
    if found.verdict == UNCHECKED:
        return f"{cell}: can't tell. {found.reason}"
    if found.verdict == CONTRADICTED:
        return f"{cell}: not the same. {found.reason}"
    differing = f" ({_listed(found.differences)})" if found.differences else ""
    error = "" if found.again is None else f"{_said(found.again)}, "
    return f"{cell}: the same, {error}{found.how}{differing}"
