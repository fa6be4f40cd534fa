"""`rescore`: recompute every metric of a board from kept predictions or weights, and compare with its records.

A record is

    confirmed        all errors of all samples are equal to the bit
    within rounding  some differ, by less than rounding explains
    contradicted     some differ by more
    not checked      they can't be computed, or not on this machine; the reason is given

Rounding: an error e of a sample may differ by ``share * e + floor * s``, where s is the metric of a prediction that is
entirely wrong (e divided by the sample's relative error). From predictions, only the metrics' own sums can round
differently, in double precision. From weights, a whole network can, in its own precision, perhaps on another machine.

``val_err`` is checked like the others: its samples are drawn again by task and seed. No predictions of them are kept,
so it takes the weights; without them it is not checked, and the reason is given.

Records are never changed: they are a trial's statement when it ended, under its hash. Metrics that a record lacks
because they were added later are written to ``rescored.csv`` on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import PdebenchError
from ..base.files import replacing
from ..base.plain_text import write_csv
from ..contract.registry import Registry
from ..runs.metric_plugins import scoring_files
from ..trials.predictions import NoPredictions
from ..trials.record import Record
from ..trials.store import Store
from .again import KEPT, WEIGHTS, Again, Outcome, run_all
from .sources import Ensure, own_data, own_dataset, scored_records

CONFIRMED, ROUNDED, CONTRADICTED, UNCHECKED = "confirmed", "within rounding", "contradicted", "not checked"
TOLERANCE = {KEPT: (1e-9, 1e-12), WEIGHTS: (1e-3, 1e-5)}  # share of the error, and of an entirely wrong prediction's
FILE = "rescored.csv"
VAL = "val_err"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one record.

    difference  the largest, relative to what rounding may explain: more than 1 contradicts
    metric      the metric with that difference
    means       every metric that was computed, by name
    added       those of them that the record lacks
    absent      metrics of the record that can't be computed here
    no_val      why ``val_err`` is among these
    """

    record: Record
    verdict: str
    source: str = ""
    reason: str = ""
    difference: float = 0.0
    metric: str = ""
    means: Mapping[str, float] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    no_val: str = ""


def rescore(
    store: Store,
    registry: Registry,
    ensure: Ensure,
    *,
    sources: Sequence[str] = (KEPT, WEIGHTS),
    plugin_files: Sequence[str] = (),
    jobs: int = 1,
    progress: Any = lambda done, total: None,
) -> Iterator[Verdict]:
    """A verdict for each record that ended well, those that can't be checked first. ``sources`` are tried in order."""
    todo: dict[str, tuple[Record, Again]] = {}
    for record in scored_records(store):
        try:
            todo[record.key] = record, _work(store, record, registry, ensure, sources, tuple(map(str, plugin_files)))
        except (PdebenchError, NoPredictions) as error:
            yield Verdict(record, UNCHECKED, reason=str(error))
    work = [item for _, item in todo.values()]
    for item, outcome in run_all(work, jobs, lambda done: progress(done, len(work))):
        record = todo[item.key][0]
        stated = {name: array for name, array in store.samples(item.key).items() if name.startswith("error_")}
        yield judge(
            record, {name.removeprefix("error_"): array for name, array in stated.items()}, outcome, item.source
        )


def _work(
    store: Store, record: Record, registry: Registry, ensure: Ensure, sources: Sequence[str], files: tuple[str, ...]
) -> Again:
    source = _source(store, record, sources)
    dataset = own_dataset(record, registry)
    return Again(
        board=str(store.path),
        key=record.key,
        source=source,
        data=own_data(record, registry, ensure),
        task_params=record.trial.task_params,
        data_seed=record.trial.data_seed,
        held_out=bool(record.trial.val) and store.models.has(record),
        plugin_files=files,
        scoring_files=scoring_files(files, dataset.task.origin.file, registry),
    )


def _source(store: Store, record: Record, sources: Sequence[str]) -> str:
    """The first source that the record has; raises `NoPredictions` with all reasons if it has none."""
    reasons = []
    for source in sources:
        if source == WEIGHTS:
            if store.models.has(record):
                return source
            reasons.append(f"no model: {_no_model(record)}")
        else:
            try:
                store.predictions.path(record)
                return source
            except NoPredictions as error:
                reasons.append(f"no predictions: {error}")
    raise NoPredictions("; ".join(reasons))


def _no_model(record: Record) -> str:
    return str(record.artefacts.get("model", {}).get("reason") or "it was not kept")


def judge(record: Record, stated: Mapping[str, np.ndarray], outcome: Outcome, source: str) -> Verdict:
    """``stated``: the errors of each sample that the record holds, by metric."""
    if outcome.refused or outcome.failed:
        return Verdict(record, UNCHECKED, source, outcome.refused or outcome.failed)
    common = [name for name in stated if name in outcome.samples]
    worst, metric, same = 0.0, "", True
    for name in common:
        same = same and np.array_equal(stated[name], outcome.samples[name], equal_nan=True)
        tolerance = TOLERANCE[WEIGHTS if name == VAL else source]
        gap = excess(stated[name], outcome.samples[name], _relative(name, stated), tolerance)
        if gap > worst:
            worst, metric = gap, name
    absent = tuple(name for name in record.metrics if name not in outcome.means)
    verdict = CONFIRMED if same else ROUNDED if worst <= 1 else CONTRADICTED
    return Verdict(
        record,
        verdict,
        source,
        _words(record, outcome, metric) if verdict == CONTRADICTED else "",
        worst,
        metric,
        outcome.means,
        added=tuple(name for name in outcome.means if name not in record.metrics),
        absent=absent,
        no_val=(outcome.no_val or f"no model: {_no_model(record)}") if VAL in absent else "",
    )


def _relative(name: str, stated: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The relative error of each sample; of held-out ones, by the scale of the test samples."""
    relative = stated.get("relative_l2")
    if name != VAL or relative is None or "test_err" not in stated:
        return relative
    scale = float(np.mean(stated["test_err"] / np.maximum(relative, np.finfo(float).tiny)))
    return stated[VAL] / max(scale, np.finfo(float).tiny)


def excess(a: np.ndarray, b: np.ndarray, relative: np.ndarray | None, tolerance: tuple[float, float]) -> float:
    """The largest difference relative to the allowed one; infinite if they can't be compared at all."""
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    fine = np.isfinite(a)
    a, b = a[fine], b[fine]
    share, floor = tolerance
    size = np.zeros_like(a)
    if relative is not None and relative.shape == fine.shape:
        size = a / np.maximum(relative[fine], np.finfo(float).tiny)
    allowed = share * np.maximum(np.abs(a), np.abs(b)) + floor * np.abs(size)
    differs = a != b
    return float(np.max(np.abs(a - b)[differs] / np.maximum(allowed[differs], np.finfo(float).tiny), initial=0.0))


def _words(record: Record, outcome: Outcome, metric: str) -> str:
    return f"{metric} is stated as {record.metrics.get(metric)!r}, and computed as {outcome.means.get(metric)!r}"


def write_table(store: Store, verdicts: Sequence[Verdict]) -> Any:
    """``rescored.csv``: a row for each record with its verdict and every metric as computed now."""
    rows = []
    for found in sorted(verdicts, key=lambda v: (v.record.trial.task_label, v.record.trial.model_label, v.record.key)):
        trial = found.record.trial
        names = {"task": trial.task_label, "model": trial.model_label, "seed": trial.seed, "key": found.record.key}
        rows.append({**names, "verdict": found.verdict, "source": found.source, "reason": found.reason, **found.means})
    with replacing(store.path / FILE) as temporary:
        write_csv(pd.DataFrame(rows), temporary)
    return store.path / FILE
