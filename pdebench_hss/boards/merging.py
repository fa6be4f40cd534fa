"""Join boards: shards of one plan, or the boards of several people.

    boards -> refuse what can't stand in one table -> claims about each trial -> those that count -> one packed board

Refused, with the names of two boards that disagree: shards of different plans, different protocols, a task with other
data (by recipe or by content), a cell that another trial stands for (a newer model, say), a record that can't be read.

A trial with one result is there once. Different results for one trial (`claims`) are both kept in ``conflicts/``; the
tables show neither number but both in words, with the machines that they come from. A later `run` on the merged board
makes such a trial again.

The sources are only read. The new board is made beside its place and renamed when it is whole. Its bytes depend on the
set of records alone: not on the order of boards, nor on which of them were merged before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..base.collector import collector_paused
from ..base.errors import StoreError, UsageError
from ..base.files import check_writable
from ..base.hashing import canonical
from ..contract.registry import Registry
from ..trials.plan_file import Cells, Planned, joined_shards, missing_shards, without_copies
from ..trials.record import Record
from ..trials.store import Store, read_from
from ..trials.trial import Trial
from . import trust
from .claims import Claim, chosen, claims_of
from .packing import install_pack
from .writing import write_board

Facts = Mapping[Hashable, set[str]]


@dataclass(frozen=True)
class Merged:
    """What merging did.

    records    trials with a record in the new board
    repeated   further claims with the same result, or of less worth
    conflicts  for each trial with different results: the board and the words of each
    missing    by plan: shards that no board holds, if cells are without a record
    """

    out: Path
    records: int
    repeated: int
    conflicts: list[list[tuple[Path, str]]]
    missing: dict[str, list[int]]


class _Board:
    """One of the boards to merge."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        if not path.is_dir():
            raise UsageError(f"{path}: no such directory")
        complaints = self.store.plan_file.read()[2]
        if complaints:
            raise StoreError(f"{path}: plan.json can't be merged: {complaints[0]}")
        if not self.store.keys() and not self.cells and not self.store.conflicts:
            raise UsageError(f"{path} holds no records and no plan; is it a directory that `run` wrote?")

    @property
    def path(self) -> Path:
        return self.store.path

    @cached_property
    def cells(self) -> Cells:
        found = self.store.plan()
        return found or {r.trial.cell: Planned(r.key, r.trial) for r in self.store.current()}

    @cached_property
    def claims(self) -> list[Claim]:
        return claims_of(self.store)

    def unfinished(self) -> set[str]:
        """Plans of which this board holds some shards and not all; none if every cell has a record all the same."""
        if _is_full(self.cells, {claim.key for claim in self.claims}):
            return set()
        return {name for name, numbers in self.store.plan_file.shards().items() if missing_shards(name, numbers)}


def merge(
    paths: Sequence[Path],
    out: Path,
    registry: Registry,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Merged:
    """Write the board that these boards make together. Installed plugins only provide printed tables."""
    _check_free(out)
    boards = []
    with collector_paused():
        for number, path in enumerate(paths):
            boards.append(_Board(path))
            _ = boards[-1].claims
            progress(number + 1, len(paths))
    _refuse_unlike(boards)
    by_key: dict[str, list[Claim]] = {}
    for claim in (claim for board in boards for claim in board.claims):
        by_key.setdefault(claim.key, []).append(claim)
    kept = {key: chosen(by_key[key]) for key in sorted(by_key)}
    check_writable(out.absolute().parent)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".merging", dir=out.absolute().parent))
    try:
        _write(Store(folder), boards, kept)
        write_board(Store(folder), registry)
        _put_in_place(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shards = {} if _is_full(Store(out).plan(), kept) else Store(out).plan_file.shards()
    return Merged(
        out,
        len(kept),
        sum(map(len, by_key.values())) - sum(map(len, kept.values())),
        [[(claim.board, claim.words) for claim in claims] for claims in kept.values() if len(claims) > 1],
        {name: absent for name, numbers in shards.items() if (absent := missing_shards(name, numbers))},
    )


def _is_full(cells: Cells, keys: Container[str]) -> bool:
    return all(planned.key in keys for planned in cells.values())


def _check_free(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise UsageError(f"{out} is there already; a merged board needs a new --out")


def _put_in_place(folder: Path, out: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)  # a temporary folder is for its owner alone
    if out.exists():
        out.rmdir()
    os.replace(folder, out)


# --- what can't be merged ---------------------------------------------------------------------------------------------


def _refuse_unlike(boards: Sequence[_Board]) -> None:
    parts = [(board, board.unfinished()) for board in boards]
    for board, plans in parts:
        other, theirs = next(((b, p) for b, p in parts if p and plans and p != plans), (board, plans))
        if other is not board:
            words = f"{board.path} ({_spelled(plans)}) and {other.path} ({_spelled(theirs)})"
            raise UsageError(f"shards of different plans: {words}; merge the shards of each plan first")
    _refuse_cells(boards)
    _refuse_facts(boards, "protocol", lambda board: {"": {str(t.protocol) for t in _trials(board)}})
    _refuse_facts(boards, "recipe of the data of {}", _recipes)
    _refuse_facts(boards, "content of the data with recipe {}", _contents)


def _spelled(plans: Iterable[str]) -> str:
    return ", ".join(f"plan {name.partition('/')[0][:8]} in {name.partition('/')[2]} shards" for name in sorted(plans))


def _trials(board: _Board) -> list[Trial]:
    return [planned.trial for planned in board.cells.values()]


def _recipes(board: _Board) -> Facts:
    found: dict[Hashable, set[str]] = {}
    for trial in _trials(board):
        place = f"{trial.task_label} (scale {trial.scale}, data seed {trial.data_seed})"
        found.setdefault(place, set()).add(trial.data_id)
    return found


def _contents(board: _Board) -> Facts:
    current, found = {planned.key for planned in board.cells.values()}, dict[Hashable, set[str]]()
    for claim in board.claims:
        if claim.data and claim.key in current:
            found.setdefault(claim.data[0][:12], set()).add(claim.data[1])
    return found


def _refuse_facts(boards: Sequence[_Board], what: str, facts_of: Callable[[_Board], Facts]) -> None:
    """Boards must agree on the values of every place that several of them have."""
    first: dict[Hashable, tuple[_Board, set[str]]] = {}
    for board in boards:
        for place, values in facts_of(board).items():
            other, known = first.setdefault(place, (board, values))
            if known != values:
                theirs, ours = (", ".join(sorted(value[:12] for value in found)) for found in (known, values))
                words = f"{what.format(place)}: {theirs} in {other.path}, {ours} in {board.path}"
                raise UsageError(f"these boards can't be merged, they differ in the {words}")


def _refuse_cells(boards: Sequence[_Board]) -> None:
    first: dict[str, tuple[_Board, Planned]] = {}
    for board in boards:
        for cell, planned in board.cells.items():
            other, known = first.setdefault(cell, (board, planned))
            if known.key != planned.key:
                a, b = known.trial.to_dict(), planned.trial.to_dict()
                fields = ", ".join(f"{n} {_short(a.get(n))} and {_short(b.get(n))}" for n in a if a[n] != b.get(n))
                raise UsageError(f"{cell!r} is not the same trial in {other.path} and in {board.path}: {fields}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- the new board ----------------------------------------------------------------------------------------------------


def _write(store: Store, boards: Sequence[_Board], kept: Mapping[str, list[Claim]]) -> None:
    settled = {key: claims[0] for key, claims in kept.items() if len(claims) == 1}
    store.records_dir.mkdir()
    if settled:
        install_pack(store.records_dir, {key: claim.files for key, claim in settled.items()}, settled.keys())
    sides = max((len(claims) for claims in kept.values() if len(claims) > 1), default=0)
    for number in range(sides):
        claims = {key: c[number] for key, c in kept.items() if len(c) > 1 and len(c) > number}
        folder = store.conflicts_dir / str(number + 1)
        folder.mkdir(parents=True)
        install_pack(folder, {key: claim.files for key, claim in claims.items()}, claims.keys())
    _write_plan(store, boards)
    trust.write_checks(store.path, [check for board in boards for check in trust.read_checks(board.path)])
    _copy_artefacts(store, settled.values())


def _write_plan(store: Store, boards: Sequence[_Board]) -> None:
    cells: Cells = {}
    for board in boards:
        for cell, planned in board.cells.items():
            known = cells.get(cell)
            if known is None or canonical(planned.trial.to_dict()) < canonical(known.trial.to_dict()):
                cells[cell] = planned  # labels and notes may differ under one key
    cells = without_copies(cells, _first_seeds(planned.trial for planned in cells.values()))
    commands = sorted({command for board in boards for command in board.store.commands()})
    shards = joined_shards(board.store.plan_file.shards() for board in boards)
    store.plan_file.write({cell: cells[cell] for cell in sorted(cells)}, commands, shards)


def _first_seeds(trials: Iterable[Trial]) -> Iterable[Trial]:
    """Of deterministic trials that fill one place, that of the smallest seed."""
    found: dict[Hashable, Trial] = {}
    for trial in trials:
        if trial.deterministic and (trial.place not in found or trial.seed < found[trial.place].seed):
            found[trial.place] = trial
    return found.values()


def _copy_artefacts(store: Store, claims: Iterable[Claim]) -> None:
    """Models and predictions of the records that count, where their board still has them."""
    models: dict[str, Record] = {}
    for claim in claims:
        record, source = read_from(claim.files, claim.key)[0], Store(claim.board)
        if store.models.copy(record, source.models):
            models[record.key] = record
        store.predictions.copy(record, source.predictions)
    if models:
        store.models.pack(models)
