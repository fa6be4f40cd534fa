"""The leaderboard as a page: `write_report` makes one file, `server` shows a directory during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UsageError
from ..base.files import write_text
from ..contract.metric import MetricSpec
from ..contract.reference_table import ReferenceTable
from ..trials.store import Store
from .gallery import gallery
from .page import render
from .page_data import page_data, read_board


def write_report(
    directories: Sequence[Path],
    out: Path,
    references: Sequence[ReferenceTable] = (),
    metrics: Sequence[MetricSpec] = (),
) -> dict[str, int]:
    """Write one page about one or several boards; returns what it holds, for a line on the screen."""
    page, counts = make_report(directories, references, metrics)
    write_text(out, page)
    return {**counts, "bytes": out.stat().st_size}


def make_report(
    directories: Sequence[Path],
    references: Sequence[ReferenceTable] = (),
    metrics: Sequence[MetricSpec] = (),
    links: Mapping[str, str] | None = None,
    title: str = "",
) -> tuple[str, dict[str, int]]:
    """The page, and how many rows, trials and pictures are in it. ``links`` are those of `page.render`; ``title`` is
    that of a page about one board, if not the name of its directory."""
    stores = [Store(directory) for directory in directories]
    for store in stores:
        if not store.records_dir.is_dir():
            raise UsageError(
                f"{store.path} holds no records; make some with: pdebench-hss run --out {store.path} --tasks ..."
            )
    names = [title] if title else board_names(directories)
    boards = [read_board(store, name) for store, name in zip(stores, names, strict=True)]
    data = page_data(boards, references, metrics)
    shown = gallery(data["summary"]["rows"], lambda trial: _samples(stores, trial))
    counts = {"rows": data["summary"]["rows"], "trials": data["details"]["trials"], "pictures": shown}
    page = render(data, shown, f"pdebench-hss: {', '.join(names)}", links)
    return page, {name: len(entries) for name, entries in counts.items()}


def board_names(directories: Sequence[Path]) -> list[str]:
    """The directories' own names; if two are equal, prefixed with their parents' names."""
    names = [directory.resolve().name for directory in directories]
    return [
        "/".join(directory.resolve().parts[-2:]) if names.count(name) > 1 else name
        for directory, name in zip(directories, names, strict=True)
    ]


def _samples(stores: Sequence[Store], trial: str) -> Any:
    number, _, key = trial.partition("-")
    return stores[int(number)].samples(key)
