"""Boards -> what the page shows, as plain JSON values. Pure: the same records give the same page.

`page_data` has two parts, because a page should not read what it does not show yet:

    summary   boards, leaderboard rows with their trials, printed tables           read when the page opens
    details   by key of the trial: settings, provenance, learning curves, errors  read when something asks for them

Pictures are the third part (`gallery`). What many trials share (settings, machines, versions) is stored once in
``pools`` and referenced by number. Errors in rows and trials keep full precision; curves and quantiles are only drawn
and have `DIGITS` digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..base.plain_text import visible
from ..base.version import __version__
from ..boards import frames, text, trust
from ..boards.addresses import cell_path
from ..boards.caveats import caveats
from ..boards.intervals import by_start
from ..boards.ladders import change_text
from ..boards.reference_tables import CELL, filled, has_rows
from ..boards.writing import sorted_results
from ..contract.metric import MetricSpec
from ..contract.reference_table import ReferenceTable, printed_titles
from ..plots.looks import looks
from ..trials.record import Record
from ..trials.store import Store

CURVE_POINTS = 40
QUANTILES = np.linspace(0, 1, 21)
DIGITS = 4
ROW_COLUMNS = (
    *("task", "equation", "model", "scale", "budget", "n_train", "params_target", "metric", "params_real"),
    *("test_err_mean", "test_err_std", "err_low", "err_high", "n_seeds", "n_expected", "rank", "skill"),
    *("fit_seconds", "predict_ms", "peak_memory_mb", "flops_step", "fit_flops", "status", "reason", "hardware"),
    *("device", "training_free"),
)
TRIAL_COLUMNS = (
    *("key", "seed", "status", "reason", *frames.METRICS, "val_err", "fit_seconds", "predict_ms", "peak_memory_mb"),
    *trust.COLUMNS,
)
Curve = tuple[Any, Any]  # steps, and a value at each of them


@dataclass
class Board:
    """A directory's name and everything that was read from it."""

    name: str
    records: list[Record]
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)  # of the training loss
    held_out: Mapping[str, Curve] = field(default_factory=dict)  # of the error on held-out samples
    starts: Mapping[str, np.ndarray] = field(default_factory=dict)  # starts of test samples, where several share one
    by_step: Mapping[str, np.ndarray] = field(default_factory=dict)  # errors of rollouts
    trust: Mapping[str, trust.Trust] = field(default_factory=dict)  # of results


def read_board(store: Store, name: str) -> Board:
    """Read a directory of records; one that can't be read counts as missing (and is warned about)."""
    loss, held_out = ("curve_steps", "curve_losses"), ("val_steps", "val_errors")
    entries = list(store.entries(*loss, *held_out, "test_group", "step_relative_l2"))
    arrays = {record.key: found for record, found in entries}

    def curves(steps: str, values: str) -> dict[str, Curve]:
        return {key: (found[steps], found[values]) for key, found in arrays.items() if steps in found}

    return Board(
        name,
        [record for record, _ in entries],
        {key: found["error_test_err"] for key, found in arrays.items() if "error_test_err" in found},
        curves(*loss),
        curves(*held_out),
        {key: found["test_group"] for key, found in arrays.items() if "test_group" in found},
        {key: found["step_relative_l2"] for key, found in arrays.items() if "step_relative_l2" in found},
        trust.trust_in(store.path, ((record, found.get("error_test_err")) for record, found in entries)),
    )


def page_data(
    boards: Sequence[Board], references: Sequence[ReferenceTable] = (), metrics: Sequence[MetricSpec] = ()
) -> dict[str, Any]:
    """Everything but the pictures; ``references`` are the printed tables to compare with, ``metrics`` those that a
    reader may choose: a metric without a direction can't rank."""
    rows: list[dict[str, Any]] = []
    papers: list[dict[str, Any]] = []
    details: dict[str, dict[str, Any]] = {}
    cautions: list[dict[str, Any]] = []
    pools = Pools()
    measured = [*frames.METRICS[1:], *frames.further_metrics(record for board in boards for record in board.records)]
    for number, board in enumerate(boards):
        results = trust.with_trust(sorted_results(board.records), board.trust)
        independent = {key: by_start(errors, board.starts.get(key)) for key, errors in board.errors.items()}
        table = frames.leaderboard(results, independent)
        rows += _rows(number, results, table, measured)
        papers += _papers(number, table, references)
        cautions += [{"board": number, "text": visible(line)} for line in caveats(table)]
        details |= {trial_id(number, record.key): _detail(record, board, pools) for record in board.records}
    return {
        "summary": {
            "version": __version__,
            "boards": [board.name for board in boards],
            "rows": rows,
            "papers": papers,
            "caveats": cautions,
            "titles": _visible(printed_titles(references)),
            "looks": _looks(rows, printed_titles(references)),
            "metrics": [_choice(spec) for spec in metrics if spec.name in measured],
            "measured": measured,
        },
        "details": {"pools": pools.values, "quantiles": [_plain(q) for q in QUANTILES], "trials": details},
    }


def _looks(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What each model looks like in the charts: the same as in figures."""
    free = [row["model"] for row in rows if row["training_free"]]
    return {name: look.on_page() for name, look in looks([row["model"] for row in rows], free, titles).items()}


def trial_id(board: int, key: str) -> str:
    """The id of a trial on the page: two boards may hold the same trial, run on two machines."""
    return f"{board}-{key}"


def _choice(spec: MetricSpec) -> dict[str, Any]:
    texts = {"title": spec.title, "formula": spec.formula}
    return {"name": spec.name, **_visible(texts), "higher": spec.higher_is_better}


def _rows(number: int, results: pd.DataFrame, table: pd.DataFrame, measured: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a board's leaderboard, each with its trials and what sets its training apart."""
    identity = [*frames.GROUP, "model"]
    like = table.groupby(frames.GROUP, sort=False, dropna=False).ngroup()  # rows that are ranked against each other
    groups = [f"{number}-{place}" for place in like]
    trials: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    of_trials = _records(results.reindex(columns=list(dict.fromkeys([*TRIAL_COLUMNS, *measured]))))
    for names, trial in zip(_records(results[identity]), of_trials, strict=True):
        trials.setdefault(tuple(names.values()), []).append({"id": trial_id(number, trial.pop("key")), **trial})
    shown = table[list(ROW_COLUMNS)].assign(
        note=[_note(row) for _, row in table.iterrows()],
        held_out=[text.held_out(row) for _, row in table.iterrows()],
        trust=[trust.words(row) for _, row in table.iterrows()],
        cell=[cell_path(row) for _, row in table.iterrows()],
    )
    return [
        {"board": number, "group": group, **row, "trials": trials[tuple(names.values())]}
        for names, group, row in zip(_records(table[identity]), groups, _records(shown), strict=True)
    ]


def _note(row: pd.Series) -> str:
    """What sets a row's training apart, and whether it is converged, if that was measured."""
    converged = change_text(row)
    seedless = "deterministic, run once" if row.get("deterministic") == frames.YES else ""
    draw = f"data seed {row['data_seed']}" if row.get("data_seed") else ""
    parts = (draw, seedless, text.training_note(row), f"converged: {converged}" if converged else "")
    return "; ".join(filter(None, parts))


def _papers(number: int, ours: pd.DataFrame, references: Sequence[ReferenceTable]) -> list[dict[str, Any]]:
    """The printed tables that a board has rows of, with our numbers."""
    found = []
    for reference in references:
        if not has_rows(reference, ours):
            continue
        models = list(reference.models)
        lines = []
        for row in _records(filled(reference, ours)):
            cells_of = {model: {value: row.pop(f"{model}_{value}") for value in CELL} for model in models}
            lines.append({**row, "cells": cells_of})
        title = visible(reference.title)
        found.append({"board": number, "name": reference.name, "title": title, "models": models, "rows": lines})
    return found


class Pools:
    """Values that many trials share, each kept once: ``number(kind, value)`` is its place in ``values[kind]``."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, kind: str, value: Any) -> int:
        pool = self.values.setdefault(kind, [])
        number = self._numbers.setdefault((kind, json.dumps(value, sort_keys=True)), len(pool))
        if number == len(pool):
            pool.append(_visible(value))
        return number


def _origin(record: Record, what: str) -> str | None:
    plugin = record.provenance.get("plugins", {}).get(what)
    return f"{plugin.get('distribution')} {plugin.get('version')}" if plugin else None


def _detail(record: Record, board: Board, pools: Pools) -> dict[str, Any]:
    trial, provenance = record.trial, record.provenance
    shared = {
        "settings": {
            "model_version": trial.model_version,
            "model_origin": trial.model_origin or _origin(record, "model"),
            "task_origin": trial.task_origin or _origin(record, "task"),
            "data_seed": trial.data_seed,
            **{f"batches.{name}": value for name, value in provenance.get("pieces", {}).items()},
            **{f"hparams.{name}": value for name, value in trial.hparams.items()},
            **{f"optimizer.{name}": value for name, value in vars(trial.optimizer).items()},
            **{f"task.{name}": value for name, value in trial.task_params.items()},
            **_training(record),
        },
        "hardware": provenance.get("hardware", {}),
        "versions": provenance.get("versions", {}),
        "source": provenance.get("source", {}),
        "data": record.data,
    }
    errors = board.errors.get(record.key, ())
    return {
        **{name: pools.number(name, value) for name, value in shared.items()},
        "parameters": record.parameters,
        "spent": {name: _plain(value) for name, value in record.spent.items()},
        "seconds": {name: _short(value) for name, value in record.seconds.items()},
        "serving": {name: _short(value) for name, value in record.serving.items()},
        "threads": provenance.get("threads"),
        "started": provenance.get("started"),
        "by_step": [_short(error) for error in board.by_step.get(record.key, ())],
        "curve": _thinned(*board.curves.get(record.key, ((), ()))),
        "held_out": _thinned(*board.held_out.get(record.key, ((), ()))),
        "errors": [_short(q) for q in np.quantile(errors, QUANTILES)] if len(errors) else [],
    }


def _training(record: Record) -> dict[str, Any]:
    """Settings that differ from the defaults; empty for most trials."""
    trial, tuned = record.trial, record.trial.tuned
    own = {
        "training": trial.training,
        "unrolled steps": trial.unroll if trial.unroll > 1 else None,
        "gradients between them": "stopped" if trial.unroll > 1 and trial.detach else None,
        "frames seen": trial.history if trial.history > 1 else None,
        "samples held out": trial.val,
        "tuned in tries": tuned.get("tries"),
        "tuning / s": tuned.get("seconds"),
        **{f"tuned.{name}": value for name, value in tuned.get("options", {}).items()},
    }
    return {name: value for name, value in own.items() if value not in ("", None, 0) or name.startswith("tuned.")}


def _thinned(steps: Any, losses: Any) -> list[list[float | None]]:
    """A learning curve with at most `CURVE_POINTS` points, equally spaced, the first and the last among them."""
    if len(steps) == 0:
        return []
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), CURVE_POINTS)).round().astype(int))
    return [[int(steps[i]) for i in kept], [_short(losses[i]) for i in kept]]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain values; what is missing or not finite is None."""
    columns = {str(name): [_plain(value) for value in table[name].tolist()] for name in table.columns}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _visible(value: Any) -> Any:
    """Plain values with invisible characters in texts and names made visible."""
    if isinstance(value, Mapping):
        return {visible(name): _visible(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_visible(entry) for entry in value]
    return _plain(value)


def _short(value: float | None) -> float | None:
    value = _plain(value)
    return None if value is None else float(f"{value:.{DIGITS}g}")
