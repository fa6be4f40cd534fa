"""A folder of boards as the pages of a site: what `make docs` adds to the documents.

    boards/<path>/index.html     the report of a board, with links to the list and to its files
    boards/<path>/*.csv          its tables, to be downloaded; of a submission also the report of its verification
    boards/index.json            the index for machines, if the folder has one

`listing` is the list of all boards as Markdown. Addresses are those of `boards.addresses`, so they are the same in the
index, in the list and on the pages. Names, licences and contacts of submissions come from others and are text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from ..base.plain_text import markdown, visible
from ..boards import submissions
from ..boards.addresses import FOLDER, board_address
from ..boards.index import FILE as INDEX
from ..boards.index import boards_below
from ..boards.trust import LEVELS
from ..boards.writing import trust_of
from ..contract.metric import MetricSpec
from ..contract.reference_table import ReferenceTable
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from . import make_report

LIST = "all-boards"  # the page that lists them, beside `boards/`
KINDS = {"": "Boards", "studies": "Studies", "tuning": "Tuning", "submissions": "Submissions", "first": "First boards"}
SHOWN_COMMANDS = 3
VERIFICATION = "verification.json"


@dataclass(frozen=True)
class Shelf:
    """The boards below a folder, by their paths in it."""

    folder: Path

    @property
    def boards(self) -> list[str]:
        return [path.relative_to(self.folder).as_posix() for path in boards_below(self.folder)]

    def pages(
        self, references: Sequence[ReferenceTable] = (), metrics: Sequence[MetricSpec] = ()
    ) -> Iterator[tuple[str, str | Path]]:
        """Every file with its address: the text of a page, or the file to copy."""
        for board in self.boards:
            place = board_address(board)
            yield f"{place}index.html", self._report(board, references, metrics)
            yield from ((f"{place}{file.name}", file) for file in self.downloads(board))
        if (self.folder / INDEX).is_file():
            yield f"{FOLDER}/{INDEX}", self.folder / INDEX

    def tables(self, board: str) -> list[Path]:
        """The CSV files of a board, the leaderboard first."""
        return sorted((self.folder / board).glob("*.csv"), key=lambda path: (path.name != "leaderboard.csv", path.name))

    def downloads(self, board: str) -> list[Path]:
        """Its tables, and what was found when it was checked. That as JSON, because Markdown of others is not shown."""
        found = (self.folder / board).parent / VERIFICATION
        return [*self.tables(board), *([found] if self._is_submission(board) and found.is_file() else [])]

    def _is_submission(self, board: str) -> bool:
        return (self.folder / board).parent.joinpath(submissions.FILE).is_file()

    def _report(self, board: str, references: Sequence[ReferenceTable], metrics: Sequence[MetricSpec]) -> str:
        up = "../" * (board_address(board).count("/"))
        links = {"All boards": f"{up}{LIST}/", **{file.name: file.name for file in self.downloads(board)}}
        return make_report([self.folder / board], references, metrics, links, title(board))[0]

    def listing(self) -> str:
        """All boards as Markdown, grouped by the folders they are in."""
        parts: list[str] = []
        boards = self.boards
        folders = {board: board.split("/")[0] if "/" in board else "" for board in boards}
        for kind in (*KINDS, *sorted({*folders.values()} - {*KINDS})):
            own = [board for board in boards if folders[board] == kind]
            if own:
                parts += [f"## {KINDS.get(kind, markdown(kind))}", *(self._entry(board) for board in own)]
        return "\n\n".join(parts) + "\n"

    def _entry(self, board: str) -> str:
        store, place = Store(self.folder / board), board_address(board)
        records = store.current()
        commands = store.plan_file.read()[1]
        made_by = [visible(command).replace("`", "'") for command in commands[:SHOWN_COMMANDS]]
        files = [f"[{markdown(file.name)}]({place}{file.name})" for file in self.downloads(board)]
        lines = [
            f"### {markdown(title(board))}",
            _facts(records),
            *_trusted(store, records),
            *self._submitted(board),
            *(["\n".join(["```text", *made_by, "```"])] if made_by else []),
            " · ".join([f"[**Report**]({place}index.html)", *files]),
        ]
        return "\n\n".join(lines)

    def _submitted(self, board: str) -> list[str]:
        """Who submitted it, and under which licence; nothing of a board that is no submission."""
        if not self._is_submission(board):
            return []
        manifest = submissions.read_manifest((self.folder / board).parent)
        return [f"Licence: {markdown(manifest.licence)}. Contact: {markdown(manifest.contact)}."]


def title(board: str) -> str:
    """What a board is called: its path, without the name of the folder inside of a submission."""
    return board.removesuffix(f"/{submissions.BOARD}") if board.startswith("submissions/") else board


def _facts(records: Sequence[Record]) -> str:
    """How much there is, at which scales, when and on what it was made."""
    tasks, models = ({getattr(record.trial, f"{what}_label") for record in records} for what in ("task", "model"))
    ok = sum(record.status is Status.OK for record in records)
    scales = ", ".join(sorted({record.trial.scale for record in records}))
    facts = [
        f"{_plural(len(models), 'model')} on {_plural(len(tasks), 'task')}",
        f"{_plural(len(records), 'trial')}, {ok} with a result",
        f"scale {markdown(scales)}",
    ]
    ends = [record.provenance["ended"] for record in records if record.provenance.get("ended")]
    machines = {(record.provenance.get("hardware") or {}).get("cpu", "") for record in records if record.provenance}
    if ends:
        facts.append(datetime.fromtimestamp(max(ends), timezone.utc).strftime("%Y-%m-%d"))
    if machines - {""}:
        facts.append(markdown(", ".join(sorted(machines - {""}))))
    return " · ".join(facts)


def _trusted(store: Store, records: Sequence[Record]) -> list[str]:
    """How many results have which level of trust."""
    counts = Counter(found.level for found in trust_of(store, records).values())
    listed = ", ".join(f"{counts[level]} {level}" for level in reversed(LEVELS) if level in counts)
    return [f"Trust: {listed}."] if listed else []


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"
