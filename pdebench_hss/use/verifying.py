"""`verify`: a board checked by somebody who did not make it.

    files, records, plan, provenance, tables    what the board says about itself (`boards.verifying`)
    data                                        a sample of its data sets made again in an empty cache: content hashes
    scores                                      kept predictions, or else weights, scored again (`rescoring`)
    runs                                        a random sample of its trials trained again (`rerunning`)

The samples are drawn by a seed that the report states. By default it is a new one each time, so that nobody knows in
advance which trials will be trained again.
"""

from __future__ import annotations

import math
import os
import random
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import PdebenchError, UsageError
from ..base.files import LINK, NOT_REGULAR
from ..boards import trust
from ..boards.findings import CONFIRMED, CONTRADICTED, UNCHECKED, Finding
from ..boards.table_checks import check_tables
from ..boards.verifying import check_files, check_records
from ..contract.registry import Registry
from ..data import cache
from ..runs.reporter import Reporter
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from ..trials.validation import RecordWarning
from . import rescoring
from .rerunning import rerun
from .sources import own_dataset, scored_records

RERUN_STATUSES = (Status.OK, Status.DIVERGED)
SAMPLE = re.compile(r"(?P<percent>\d+(\.\d+)?)\s*%|(?P<count>\d+)|(?P<all>all)")


@dataclass(frozen=True)
class Request:
    """What to do beyond reading: ``data`` and ``rerun`` are samples such as ``3``, ``5%``, ``all`` or ``0``."""

    data: str = "3"
    rerun: str = "0"
    rescore: bool = True
    seed: int = 0
    jobs: int = 1
    plugin_files: Sequence[str] = ()
    said: Callable[[str], None] = field(default=lambda line: None)


def parse_sample(text: str, option: str, of: int) -> int:
    """How many of ``of`` things a sample has: a share is rounded up, so that of something there is at least one."""
    found = SAMPLE.fullmatch(text.strip())
    if found is None or float(found["percent"] or 0) > 100:
        raise UsageError(f"{option} {text}: write a number (3), a share of at most 100% (5%), or all")
    if found["all"]:
        return of
    return min(of, math.ceil(float(found["percent"]) / 100 * of) if found["percent"] else int(found["count"]))


def verify(store: Store, registry: Registry, request: Request, reporter: Reporter | None = None) -> list[Finding]:
    """Everything that was found. Nothing in the board is changed."""
    parse_sample(request.data, "--data", 1), parse_sample(request.rerun, "--rerun", 1)  # refused before any work
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)  # bad records are findings
        return _verify(store, registry, request, reporter)


def _verify(store: Store, registry: Registry, request: Request, reporter: Reporter | None) -> list[Finding]:
    findings = list(check_files(store))
    if any(finding.detail in (LINK, NOT_REGULAR) for finding in findings):
        return findings  # nothing else is read
    findings += check_records(store)
    bad = {finding.key for finding in findings if finding.verdict == CONTRADICTED and finding.key}
    if lost := [f for f in findings if f.verdict == CONTRADICTED and f.check == "records"]:
        findings.append(Finding("tables", UNCHECKED, "all tables", f"{len(lost)} of their records can't be used"))
    else:
        findings += check_tables(store, registry)
    good = [record for record in store.current() if record.key not in bad]
    findings += _check_data(good, registry, request)
    if request.rescore:
        findings += _check_scores(store, registry, request, bad)
    findings += _check_runs(good, store, registry, request, reporter)
    return findings


# --- data -------------------------------------------------------------------------------------------------------------


def _check_data(records: Sequence[Record], registry: Registry, request: Request) -> Iterator[Finding]:
    """Each chosen data set is made again, whatever the cache of this machine holds."""
    by_recipe: dict[str, list[Record]] = {}
    for record in records:
        if record.data.get("sha256"):
            by_recipe.setdefault(record.trial.data_id, []).append(record)
    count = parse_sample(request.data, "--data", len(by_recipe))
    chosen = random.Random(request.seed).sample(sorted(by_recipe), count)
    with _empty_cache():
        for recipe in chosen:
            request.said(f"making the data of {by_recipe[recipe][0].trial.task_label} again")
            yield _made_again(by_recipe[recipe], registry, request)
    if left := len(by_recipe) - count:
        yield Finding("data", UNCHECKED, f"{left} of {len(by_recipe)} data sets", "they are not in the sample (--data)")


def _made_again(records: Sequence[Record], registry: Registry, request: Request) -> Finding:
    trial, stated = records[0].trial, {record.data["sha256"] for record in records}
    subject = f"{trial.task_label} (scale {trial.scale}, data seed {trial.data_seed})"
    try:
        dataset = own_dataset(records[0], registry)
        found = cache.ensure(dataset, jobs=request.jobs, plugin_files=request.plugin_files).sha256
    except PdebenchError as error:
        return Finding("data", UNCHECKED, subject, str(error))
    if stated == {found}:
        return Finding("data", CONFIRMED, subject)
    if dataset.id != trial.data_id:  # content decides where an earlier version spelled the recipe otherwise
        words = "its recipe is not that of the task here, and neither is its content: another version, or public files"
        return Finding("data", UNCHECKED, subject, words)
    words = f"{len(records)} records state the content {', '.join(sorted(s[:12] for s in stated))}"
    return Finding("data", CONTRADICTED, subject, f"{words}; made again it is {found[:12]}")


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A data cache of its own, for this process and its workers."""
    before = os.environ.get("PDEBENCH_HSS_CACHE")
    with tempfile.TemporaryDirectory(prefix="verify-data-") as folder:
        os.environ["PDEBENCH_HSS_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["PDEBENCH_HSS_CACHE"]
            else:
                os.environ["PDEBENCH_HSS_CACHE"] = before


# --- scores and runs --------------------------------------------------------------------------------------------------

VERDICTS = {
    rescoring.CONFIRMED: CONFIRMED,
    rescoring.ROUNDED: CONFIRMED,
    rescoring.CONTRADICTED: CONTRADICTED,
    rescoring.UNCHECKED: UNCHECKED,
}


def _check_scores(store: Store, registry: Registry, request: Request, bad: set[str]) -> Iterator[Finding]:
    """Records without predictions and without a model are counted and not named one by one."""
    bare = [r for r in scored_records(store) if not _can_be_scored(store, r)]
    if bare:
        yield Finding("scores", UNCHECKED, f"{len(bare)} records", "they kept neither predictions nor a model")
    skipped = {record.key for record in bare} | bad
    if all(record.key in skipped for record in scored_records(store)):
        return
    request.said("scoring predictions again")
    found = rescoring.rescore(
        store,
        registry,
        lambda dataset: cache.ensure(dataset, jobs=request.jobs, plugin_files=request.plugin_files),
        plugin_files=request.plugin_files,
        jobs=request.jobs,
    )
    for verdict in found:
        if (key := verdict.record.key) not in skipped:
            how = f"{verdict.verdict} from {verdict.source}"
            level = trust.CONTRADICTED if verdict.verdict == rescoring.CONTRADICTED else trust.RESCORED
            yield Finding(
                *("scores", VERDICTS[verdict.verdict], verdict.record.trial.words, verdict.reason),
                **({} if verdict.verdict == rescoring.UNCHECKED else {"key": key, "level": level, "how": how}),
            )


def _can_be_scored(store: Store, record: Record) -> bool:
    return store.models.has(record) or bool(record.artefacts.get("predictions", {}).get("sha256"))


def _check_runs(
    records: Sequence[Record], store: Store, registry: Registry, request: Request, reporter: Reporter | None
) -> Iterator[Finding]:
    candidates = {record.key: record for record in records if record.status in RERUN_STATUSES}
    count = parse_sample(request.rerun, "--rerun", len(candidates))
    if not count:
        yield Finding("runs", UNCHECKED, f"{len(candidates)} trials", "none was trained again (--rerun)")
        return
    chosen = [candidates[key] for key in random.Random(request.seed).sample(sorted(candidates), count)]
    seconds = sum(record.seconds.get("total") or 0.0 for record in chosen)
    request.said(
        f"training {count} of {len(candidates)} trials again; they took {seconds:.0f} s when they were recorded"
    )
    with tempfile.TemporaryDirectory(prefix="verify-runs-") as folder:
        found = rerun(chosen, store, registry, Path(folder), plugin_files=request.plugin_files, reporter=reporter)
        for one in found:
            level = trust.CONTRADICTED if one.verdict == CONTRADICTED else trust.RERUN
            yield Finding(
                *("runs", one.verdict, one.record.trial.words, one.reason),
                **({} if one.verdict == UNCHECKED else {"key": one.record.key, "level": level, "how": one.how}),
            )
    if left := len(candidates) - count:
        yield Finding("runs", UNCHECKED, f"{left} of {len(candidates)} trials", "they are not in the sample (--rerun)")
