"""`submit`: a board made ready to be added to a repository of boards.

board -> packed copy, plugin source, manifest -> checked as a maintainer would -> in its place, or refused
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..base.errors import UsageError
from ..base.files import check_writable, write_text
from ..boards import submissions, trust
from ..boards.merging import merge
from ..boards.submissions import BOARD, PLUGIN, Manifest, Source
from ..boards.writing import write_board
from ..contract.identity import source_files, source_hash
from ..contract.registry import BUILT_IN, Registered, Registry
from ..trials.store import Store
from .verification import VERDICTS, Verification, write_reports

Verify = Callable[[Path], Verification]


def submit(
    board: Path,
    shelf: Path,
    name: str,
    registry: Registry,
    verify: Verify,
    *,
    licence: str,
    contact: str,
    install: Mapping[str, str],
) -> Verification:
    """Write a submission to a folder of that name on the ``shelf``. ``install`` says by distribution how to install it,
    if not by its name and version; ``verify`` checks the finished folder. One that contradicts itself is not kept."""
    if not submissions.NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: write small letters, digits, _ and -, two of them or more")
    folder = shelf / name
    for option, text in (("--licence", licence), ("--contact", contact)):
        if not text.strip():
            raise UsageError(
                f"{option} is empty; others must know under which licence they may use this and whom to ask"
            )
    if folder.exists():
        raise UsageError(f"{folder} is there already; choose another --name, or remove it first")
    check_writable(folder.absolute().parent)
    with tempfile.TemporaryDirectory(prefix=".submitting-", dir=folder.absolute().parent) as temporary:
        made = Path(temporary) / folder.name
        made.mkdir()
        done = merge([board], made / BOARD, registry)
        if done.conflicts:
            raise UsageError(f"{board} has {len(done.conflicts)} conflicts; `run` its command to settle them first")
        _drop_own_checks(Store(made / BOARD), registry)
        plugins = _copy_sources(Store(made / BOARD), made, registry, install)
        manifest = Manifest(folder.name, licence.strip(), contact.strip(), plugins)
        write_text(made / submissions.FILE, json.dumps(manifest.to_plain(), indent=1) + "\n")
        found = verify(made)
        if not found.contradicted:
            write_reports(found, made)
            os.replace(made, folder)
    return found


def _drop_own_checks(store: Store, registry: Registry) -> None:
    """Results that their author has checked are still self-reported: levels of trust are given by somebody else."""
    if (own := store.path / trust.FILE).exists():
        own.unlink()
        write_board(store, registry)


def _copy_sources(store: Store, made: Path, registry: Registry, install: Mapping[str, str]) -> dict[str, Source]:
    """The source of every plugin that records were made with, by what it brings; copied beside the board."""
    wanted: dict[str, Registered[object] | str] = {}
    for record in store.current():
        for kind, plugin in record.provenance.get("plugins", {}).items():
            name = record.trial.model if kind == "model" else record.trial.task
            if plugin.get("distribution") != BUILT_IN:
                table: Mapping[str, Registered[object]] = registry.models if kind == "model" else registry.tasks  # type: ignore[assignment]
                wanted[f"{kind} {name}"] = table.get(name, str(plugin.get("distribution")))
    return {what: _copied(what, found, made, install) for what, found in sorted(wanted.items())}


def _copied(what: str, found: Registered[object] | str, made: Path, install: Mapping[str, str]) -> Source:
    if isinstance(found, str):
        raise UsageError(f"{what} comes from {found}, which is not here: install it, or give its file with --plugin")
    files, sha256 = source_files(found), source_hash(found)
    if not files:
        raise UsageError(f"{what} ({found.origin}): its source can't be found; a submission needs it")
    root = Path(os.path.commonpath([str(file.parent) for file in files]))
    root = root if found.origin.file else root.parent  # a package keeps the name of its folder
    names = []
    for file in sorted(files):
        place = made / PLUGIN / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        names.append(place.relative_to(made).as_posix())
    origin = found.origin
    usual = "" if origin.file else f"{origin.distribution}=={origin.version}"
    how = install.get(origin.distribution, usual)
    return Source(origin.distribution, origin.version, sha256, how, tuple(names))


def board_in(folder: Path) -> Path:
    """The board of a submission; a folder that is none is its own."""
    is_submission = os.path.lexists(folder / submissions.FILE) or (folder / BOARD).is_dir()
    return folder / BOARD if is_submission else folder


def other_boards(folder: Path, *own: Path) -> list[Path]:
    """The boards of a submission's repository: those beside ``submissions/``, and other submissions. Not among them are
    ``own``, from which it was made, and what `run` leaves in ``latest`` by default."""
    shelf = folder.absolute().parent
    beside = [path for path in shelf.parent.iterdir() if path.name != "latest"] if shelf.name == "submissions" else []
    others = [path / BOARD for path in shelf.iterdir() if path.name != folder.name]
    known = {path.resolve() for path in own}
    return sorted(p for p in (*beside, *others) if (p / "plan.json").is_file() and p.resolve() not in known)


def plugin_files(folder: Path) -> list[str]:
    """The files of a submission to give as ``--plugin``: plugins that were such files, and can't be installed."""
    sources = [source for source in submissions.read_manifest(folder).plugins.values() if not source.install]
    names = {name for source in sources for name in source.files if Path(name).name == source.distribution}
    return [str(folder / name) for name in sorted(names)]


def pull_request(folder: Path, found: Verification, models: Sequence[str], tasks: Sequence[str]) -> str:
    """The text that introduces a submission to a maintainer."""
    manifest = submissions.read_manifest(folder)
    counts = ", ".join(f"{len(found.having(verdict))} {verdict}" for verdict in VERDICTS)
    lines = [
        f"Submission: {manifest.name}",
        "",
        f"Models: {', '.join(models)}. Tasks: {', '.join(tasks)}.",
        f"Licence: {manifest.licence}. Contact: {manifest.contact}.",
        *(f"{what}: {source.install or ', '.join(source.files)}" for what, source in manifest.plugins.items()),
        "",
        f"`pdebench-hss verify leaderboards/submissions/{manifest.name} --rerun 5%` checks it; here (machine "
        f"`{found.where}`): {counts}.",
    ]
    return "\n".join(lines) + "\n"
