"""A board: a directory of records with everything that is derived from them.

`write_board` makes the following from the records alone. The result is bit for bit the same at any time and on any
machine with the same printed tables.

    results.csv                     one row per trial, full precision
    leaderboard.csv, .md            one row per task and model
    statistics.md                   average ranks over tasks, break-even against the classical solver
    NAME.csv, .md, .tex             each printed table that the board has rows of, with our numbers
    README.md                       machine, versions, command, date, duration, from the records
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.collector import collector_paused
from ..base.devices import DEFAULT_PRECISION, label
from ..base.errors import StoreError
from ..base.files import replacing, write_text
from ..base.plain_text import code, markdown, visible, write_csv
from ..contract.reference_table import ReferenceTable
from ..contract.registry import Registry
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from . import frames as tables
from . import reference_tables
from .caveats import leaderboard_page
from .intervals import by_start
from .ladders import with_rungs
from .ranking_page import statistics_page
from .standing import errors_by_cell
from .trust import FILE, Trust, trust_in, with_trust


def write_board(store: Store, registry: Registry, folder: Path | None = None) -> tuple[pd.DataFrame, list[Path]]:
    """(Re)write all tables of a directory from its records, there or in another ``folder``; returns the leaderboard and
    what was written.

    Installed plugins only provide the printed tables, and say which models are guesses or solvers.
    """
    with collector_paused():
        return _write_board(store, registry, folder or store.path)


def _write_board(store: Store, registry: Registry, folder: Path) -> tuple[pd.DataFrame, list[Path]]:
    records, errors = read_records(store)
    if not any(record.status is not Status.MISSING for record in records) and store.keys():
        raise StoreError(f"no record in {store.path} can be read by this version; its tables are left as they are")
    trials = with_trust(sorted_results(records), trust_of(store, records))
    board, references = tables.leaderboard(trials, errors), registry.reference_tables()
    texts = {
        "leaderboard.md": leaderboard_page(board, registry.models_in("guess")),
        "README.md": readme(records, store.commands(), references),
    }
    frames = {"results.csv": trials, "leaderboard.csv": board}
    if page := statistics_page(board, registry, tables.solver_levels(records), errors_by_cell(trials, errors)):
        texts["statistics.md"] = page
    for reference in references:
        if reference_tables.has_rows(reference, board):
            table = reference_tables.filled(reference, board)
            frames[f"{reference.name}.csv"] = table
            texts[f"{reference.name}.md"] = reference_tables.to_markdown(reference, table, board)
            texts[f"{reference.name}.tex"] = reference_tables.to_latex(reference, table, board)
    for name, frame in frames.items():
        with replacing(folder / name) as temporary:
            write_csv(frame, temporary)
    for name, text in texts.items():
        write_text(folder / name, text)
    return board, [folder / name for name in (*frames, *texts)]


def sorted_results(records: Iterable[Record]) -> pd.DataFrame:
    """Ladders in the order of their budgets, not of their spelling: 40 comes before 160."""
    order = [*tables.GROUP, "model", "seed"]
    found = tables.results(records)
    place = with_rungs(found[["budget"]].drop_duplicates()).sort_values(["kind", "amount"])["budget"]
    by_size = dict(zip(place, range(len(place)), strict=True))
    return found.sort_values(
        order,
        kind="stable",
        na_position="first",
        ignore_index=True,
        key=lambda column: column.map(by_size) if column.name == "budget" else column,
    )


def trust_of(store: Store, records: Iterable[Record]) -> dict[str, Trust]:
    """Who ran or checked the results of a board, by key."""
    name, checked = "error_test_err", (store.path / FILE).exists()
    return trust_in(store.path, ((r, store.samples(r.key, name).get(name) if checked else None) for r in records))


def read_records(store: Store, metric: str = "test_err") -> tuple[list[Record], dict[str, np.ndarray]]:
    """The records of a board, and the errors of independent test samples by trial key, for trials that ended well.

    Where several samples share a start, their mean counts as one (`intervals.by_start`).
    """
    records: list[Record] = []
    errors: dict[str, np.ndarray] = {}
    name = f"error_{metric}"
    with collector_paused():
        for record, arrays in store.scored() if metric == "test_err" else store.entries("test_group"):
            records.append(record)
            if name in arrays and metric in record.metrics:
                errors[record.key] = by_start(arrays[name], arrays.get("test_group"))
    return records, errors


def readme(records: list[Record], commands: list[str], references: Iterable[ReferenceTable] = ()) -> str:
    """Where the numbers of a board come from."""
    ran = [record for record in records if record.provenance]
    parts = [
        "# A board of pdebench-hss",
        "Everything here but `records/` and `plan.json` is derived from these two by the program; don't edit it.",
        "\n".join(["Made by (each with `--out` naming this directory):", "", *_code(commands)]),
        "\n".join(["Rebuild the tables from the records, bit for bit:", "", *_code(["pdebench-hss leaderboard ."])]),
        "\n".join(f"- {fact}" for fact in [*_trials(records), *_unkept(records), *_when(ran), *_machine(ran)]),
        "## Data\n\n" + _data(records),
        "## Files\n\n" + _files(references, records),
    ]
    return "\n\n".join(parts) + "\n"


PRINTED = ("hardware", "threads", "device", "precision", "versions", "source", "pieces")  # fields of a provenance
FILES = """\
| file | what it holds |
|---|---|
| `leaderboard.md`, `.csv` | one row per task and model |
| `results.csv` | one row per trial |
{references}| `statistics.md` | average ranks over tasks; after how many solves a model has repaid its training |
| `records/` | each trial's record (JSON) and its errors sample by sample (NPZ) |{artefacts}"""
ARTEFACTS = {
    "model": "| `models/` | trained models (safetensors and JSON): `pdebench-hss predict`, `export` |",
    "predictions": "| `predictions/` | all test predictions (HDF5): `pdebench-hss rescore` |",
}


def _files(references: Iterable[ReferenceTable], records: Iterable[Record]) -> str:
    names: dict[str, list[str]] = {}
    for reference in references:
        names.setdefault(reference.source, []).append(f"`{reference.name}`")
    what = "tables with ours beside the published numbers (`.md`, `.csv`, `.tex`)"
    rows = [f"| {', '.join(own)} | {markdown(source)}'s {what} |\n" for source, own in names.items()]
    kept = {kind for record in records for kind, named in record.artefacts.items() if named.get("sha256")}
    left = [f"\n{row}" for kind, row in ARTEFACTS.items() if kind in kept]
    return FILES.format(references="".join(rows), artefacts="".join(left))


def _code(lines: list[str]) -> list[str]:
    return ["```sh", *([visible(line).replace("`", "'") for line in lines] or ["# not recorded"]), "```"]


def _trials(records: list[Record]) -> list[str]:
    counts = Counter(record.status for record in records)
    order = sorted(counts, key=lambda status: (status != Status.OK, status))
    return [f"Trials: {len(records)} ({', '.join(f'{counts[status]} {status}' for status in order)})"]


def _unkept(records: list[Record]) -> list[str]:
    """Why models can't be loaded from this board, by model and reason; nothing where none was to be kept."""
    found: dict[tuple[str, str], list[str]] = {}
    for record in records:
        named = record.artefacts.get("model", {})
        if record.status is Status.OK and "reason" in named:
            found.setdefault((record.trial.model_label, named["reason"]), []).append(record.trial.task_label)
    return [
        f"Not kept: `{code(model)}` on {markdown(', '.join(dict.fromkeys(tasks)))} "
        f"({len(tasks)} trial{'s' * (len(tasks) > 1)}): {markdown(reason)}"
        for (model, reason), tasks in sorted(found.items())
    ]


def _when(ran: list[Record]) -> list[str]:
    if not ran:
        return []
    stamps = [(record.provenance.get("started"), record.provenance.get("ended")) for record in ran]
    spans = sorted((start, end) for start, end in stamps if start is not None and end is not None)
    if not spans:
        return []
    first, last = spans[0][0], max(end for _, end in spans)
    own = sum(record.seconds.get("total") or 0.0 for record in ran)
    return [
        f"Date: {_date(first)} to {_date(last)}",
        f"Duration: {_hours(_covered(spans))} in which at least one trial ran; {_hours(own)} summed over trials. "
        "Making the data is not in it.",
    ]


def _covered(spans: list[tuple[float, float]]) -> float:
    """The length of the union of sorted intervals: pauses between runs don't count, trials side by side count once."""
    total, reached = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _machine(ran: list[Record]) -> list[str]:
    kinds = _kinds([record.provenance for record in ran])
    facts = [
        ("Machine", _hardware),
        ("Threads per trial", lambda p: str(p.get("threads", "unknown"))),
        ("Device", lambda p: label(p.get("device", "unknown"), p.get("precision", DEFAULT_PRECISION))),
        ("Versions", lambda p: ", ".join(f"{name} {number}" for name, number in sorted(p.get("versions", {}).items()))),
        ("Source", _source),
    ]
    if any(_in_pieces(p) for p, _ in kinds):  # mentioned only where some are
        facts.append(("Batches", lambda p: _in_pieces(p) or "whole"))
    return [f"{name}: {_listed(kinds, spell)}" for name, spell in facts] if kinds else []


def _kinds(provenances: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Those that hold the same values, one of each and how many there are: records share what is equal in them."""
    counts: Counter[tuple[int, ...]] = Counter()
    first: dict[tuple[int, ...], dict[str, Any]] = {}
    for provenance in provenances:
        place = tuple([id(provenance.get(name)) for name in PRINTED])
        counts[place] += 1
        first.setdefault(place, provenance)
    return [(first[place], number) for place, number in counts.items()]


def _hardware(provenance: dict[str, Any]) -> str:
    known = {"cpu": "unknown", "cores": "?", "memory_gb": "?", "system": "unknown", "id": "unknown", "gpus": []}
    h = {**known, **provenance.get("hardware", {})}
    gpus = f", {', '.join(h['gpus'])}" if h["gpus"] else ""
    return f"{h['cpu']}, {h['cores']} cores, {h['memory_gb']} GB, {h['system']}{gpus} (`{h['id']}`)"


def _in_pieces(provenance: dict[str, Any]) -> str:
    """How a trial's batches were computed; empty if they were whole, or nothing was trained."""
    pieces = provenance.get("pieces", {})
    samples, batch = pieces.get("samples"), pieces.get("batch")
    return f"in pieces of {samples} of {batch} samples" if samples != batch else ""


def _source(provenance: dict[str, Any]) -> str:
    source = provenance.get("source")
    if not source or "commit" not in source:
        return "installed package"
    return f"commit `{source['commit'][:12]}`" + (" with changes" if source.get("modified") else "")


def _listed(kinds: list[tuple[dict[str, Any], int]], spell: Callable[[dict[str, Any]], str]) -> str:
    """The value all trials share, or each with the number of trials it holds for."""
    counts: Counter[str] = Counter()
    for provenance, number in kinds:
        counts[markdown(spell(provenance))] += number
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{text} ({n} trial{'s' * (n > 1)})" for text, n in sorted(counts.items()))


def _data(records: list[Record]) -> str:
    from tabulate import tabulate

    found = {
        (r.trial.task_label, r.trial.scale, r.data["n_train"], r.data["n_test"], r.trial.data_seed, r.data["sha256"])
        for r in records
        if "n_train" in r.data and "n_test" in r.data and "sha256" in r.data
    }
    rows = {
        (markdown(task), markdown(scale), *sizes, f"`{code(sha256[:16])}`") for task, scale, *sizes, sha256 in found
    }
    headers = ["task", "scale", "train", "test", "data seed", "sha256"]
    return tabulate(sorted(rows), headers=headers, tablefmt="github", disable_numparse=True)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _hours(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
