"""The Neural-HSS paper: its studies, its printed tables, the tasks of its timing figures, its citation.

    *.yaml         the studies, one file each (the keys: `pdebench_hss.Study`)
    published.py   its two tables, from published.csv and models.csv
    timings.py     ``bench models`` at its sizes
    citation.py    BibTeX

Another paper is mirrored by another package like this one; examples/printed_table is the smallest.
"""

from __future__ import annotations

from pathlib import Path

from pdebench_hss import ReferenceTable, Study, hookimpl, read_study

from .published import published_tables


@hookimpl
def pdebench_hss_studies() -> list[Study]:
    return [read_study(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))]


@hookimpl
def pdebench_hss_references() -> list[ReferenceTable]:
    return published_tables()


@hookimpl
def pdebench_hss_benches() -> dict[str, str]:
    return {"models": "pdebench_hss_studies.timings:bench_models"}
