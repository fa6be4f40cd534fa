"""A submission is complete, and one that is not what it says is refused by the name of what is wrong with it."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards import submissions
from pdebench_hss.boards.packing import pack
from pdebench_hss.boards.verifying import CONFIRMED, CONTRADICTED
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.store import Store
from pdebench_hss.use.submitting import other_boards, plugin_files, submit
from pdebench_hss.use.verification import Verification
from pdebench_hss.use.verifying import Request, verify

WORDS = {"licence": "CC-BY-4.0", "contact": "https://example.org/me", "install": {}}


def complaints(folder: Path, *others: Path) -> list[tuple[str, str]]:
    found = submissions.check(folder, others)
    assert {f.check for f in found} == {"submission"}
    return [(f.subject, f.detail) for f in found if f.verdict == CONTRADICTED]


def checked(folder: Path) -> Verification:
    return Verification(folder.name, submissions.check(folder), seed=0)


@pytest.fixture
def folder(board, plugins, tmp_path) -> Path:
    """A submission of the board of toys."""
    submit(board, tmp_path / "submissions", "toys-1", load_registry(plugins), checked, **WORDS)
    return tmp_path / "submissions" / "toys-1"


def numbers(folder: Path, plugins) -> set[tuple[str, str]]:
    store = Store(folder / "board")
    findings = verify(store, load_registry(plugins), Request(data="0", plugin_files=plugins))
    return {(f.check, f.subject) for f in findings if f.verdict == CONTRADICTED}


# --- a good one -------------------------------------------------------------------------------------------------------


def test_a_submission_has_all_that_is_needed_and_can_be_checked_with_nothing_else(board, plugins, folder):
    assert [f.verdict for f in submissions.check(folder)] == [CONFIRMED]
    manifest = json.loads((folder / "submission.json").read_text())
    assert (manifest["schema"], manifest["licence"], manifest["contact"]) == (1, "CC-BY-4.0", "https://example.org/me")
    source = manifest["plugins"]["model toy_conv"]
    assert source["distribution"] == "toy_plugin.py"
    assert "plugin/toy_modules.py" in source["files"]
    assert {path.name for path in (folder / "board" / "records").iterdir()} >= {"packed.jsonl.gz", "packed.samples.npz"}
    assert len(Store(folder / "board").keys()) == len(Store(board).keys())
    own = plugin_files(folder)
    assert {Path(file).name for file in own} == {"toy_plugin.py", "kept_plugin.py"}
    findings = verify(Store(folder / "board"), load_registry(own), Request(data="all", rerun="2", plugin_files=own))
    assert not [f for f in findings if f.verdict == CONTRADICTED]
    runs = [f for f in findings if f.check == "runs" and f.verdict == CONFIRMED]
    assert len(runs) == 2  # with the files of the submission alone


def test_the_command_prints_the_text_of_a_pull_request_and_verify_reads_what_it_wrote(board, plugins, cli, tmp_path):
    files = [word for file in plugins for word in ("--plugin", file)]
    words = ("--name", "toys-2", "--licence", "MIT", "--contact", "me", "--data", "0", *files)
    result = cli("submit", "board", *words)
    assert result.code == 0, result.err
    assert "Submission: toys-2" in result.out
    assert "0 contradicted" in result.out
    place = tmp_path / "leaderboards" / "submissions" / "toys-2"
    assert (place / "verification.md").is_file()
    assert cli("verify", str(place), "--data", "0", "--no-rescore").code == 0
    (place / "notes.zip").write_bytes(b"PK")
    result = cli("verify", str(place))
    assert result.code == 3
    assert "notes.zip: a submission holds no such file" in result.out


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("../up", {}, "--name"),
        ("Me", {}, "--name"),
        ("ok-1", {"licence": " "}, "--licence is empty"),
        ("ok-1", {"contact": ""}, "--contact is empty"),
    ],
)
def test_what_a_submission_needs_is_asked_for(board, plugins, tmp_path, name, words, message):
    with pytest.raises(UsageError, match=message):
        submit(board, tmp_path / "s", name, load_registry(plugins), checked, **{**WORDS, **words})


def test_a_plugin_that_is_not_here_is_asked_for(board, tmp_path):
    with pytest.raises(UsageError, match=r"comes from .*_plugin.py, which is not here: .* --plugin"):
        submit(board, tmp_path / "s", "ok-1", load_registry(), checked, **WORDS)
    assert not list((tmp_path / "s").iterdir())


def test_one_that_contradicts_itself_is_not_written(board, plugins, tmp_path):
    wrong = Verification("x", [submissions.Finding("records", CONTRADICTED, "a record", "edited")], 0)
    found = submit(board, tmp_path / "s", "ok-1", load_registry(plugins), lambda made: wrong, **WORDS)
    assert found.contradicted
    assert not list((tmp_path / "s").iterdir())


# --- bad ones, each by name -------------------------------------------------------------------------------------------


def forged(folder: Path, change) -> None:
    """Unpack the records, change one, hash it again and pack again: a careful forger."""
    store = Store(folder / "board")
    record = next(r for r in store.current() if r.trial.model == "toy_conv" and r.status == "ok")
    store.live.write(change(record, store.samples(record.key)))
    pack(store)
    (folder / "board" / ".lock").unlink()


def test_edited_numbers_are_found(folder, plugins):
    def cheaper(record, samples):
        arrays = {n: 0.9 * a if n.startswith("error_") else a for n, a in samples.items()}
        return dataclasses.replace(record, metrics={n: 0.9 * v for n, v in record.metrics.items()}, samples=arrays)

    forged(folder, cheaper)
    assert complaints(folder) == []
    found = numbers(folder, plugins)
    assert {check for check, _ in found} == {"scores", "tables"}


def test_swapped_arrays_are_found(folder, plugins):
    path = folder / "board" / "records" / "packed.samples.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert ("files", "records") in numbers(folder, plugins)


def test_a_record_copied_from_another_board_is_found(folder, board):
    assert complaints(folder, board)[0][1] == "it is a copy of the one in board"
    store = Store(folder / "board")
    cells, commands, _ = store.plan_file.read()
    gone = next(iter(cells))
    store.plan_file.write({cell: planned for cell, planned in cells.items() if cell != gone}, commands, {})
    ((subject, detail),) = complaints(folder)
    assert subject.startswith("record ")
    assert detail == "it is not in the plan of this board; was it copied from another?"


def test_boards_that_it_must_not_repeat_are_those_beside_it(folder, board, tmp_path):
    assert other_boards(folder) == [board]
    assert other_boards(folder, board) == []
    shutil.copytree(folder, folder.with_name("toys-2"))
    assert other_boards(folder) == [board, folder.with_name("toys-2") / "board"]


def test_missing_and_other_source_are_found(folder):
    (folder / "plugin" / "toy_modules.py").unlink()
    assert ("model toy_conv", "its source is missing: plugin/toy_modules.py is not there") in complaints(folder)
    (folder / "plugin" / "toy_modules.py").write_text("pass\n")
    assert ("model toy_conv", "its files are not those that its sha256 names") in complaints(folder)


def manifest(folder: Path, **changes) -> None:
    content = json.loads((folder / "submission.json").read_text())
    (folder / "submission.json").write_text(json.dumps({**content, **changes}))


def test_a_plugin_that_is_left_out_and_records_of_another_source_are_found(folder):
    plugins = json.loads((folder / "submission.json").read_text())["plugins"]
    manifest(folder, plugins={what: source for what, source in plugins.items() if what != "model toy_conv"})
    assert "its source (toy_plugin.py) is missing from the submission" in complaints(folder)[0][1]
    changed = folder / "plugin" / "toy_modules.py"
    changed.write_text(changed.read_text() + "# better\n")
    source = plugins["model toy_conv"]
    sha256 = submissions.source_digest(folder / name for name in source["files"])
    others = {what: s for what, s in plugins.items() if "plugin/toy_modules.py" not in s["files"]}
    manifest(folder, plugins={**others, "model toy_conv": {**source, "sha256": sha256}})
    assert "made with another source than the submitted one" in complaints(folder)[0][1]


@pytest.mark.parametrize("path", ["../../secrets.py", "/etc/passwd", "plugin/../../x.py", "board/plan.json", "a\\b.py"])
def test_paths_that_leave_the_directory_are_refused(folder, path):
    plugins = json.loads((folder / "submission.json").read_text())["plugins"]
    manifest(folder, plugins={**plugins, "model toy_conv": {**plugins["model toy_conv"], "files": [path]}})
    ((subject, detail),) = complaints(folder)
    assert subject == "submission.json"
    assert "leaves the directory" in detail or "is not a Python file in plugin/" in detail


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "it has schema 2; this pdebench-hss reads schema 1"),
        ({"schema": "1"}, "it has no schema"),
        ({"licence": ""}, "its licence is empty"),
        ({"contact": 5}, "its contact is empty, too long, or not text"),
        ({"name": "toys-3"}, "it is called 'toys-3', and its folder 'toys-1'"),
        ({"extra": 1}, "and no others"),
        ({"plugins": []}, "its plugins are not a table"),
        ({"plugins": {"model x": {}}}, "plugin 'model x' needs the fields"),
    ],
)
def test_a_manifest_that_is_none_is_refused(folder, changes, message):
    manifest(folder, **changes)
    ((subject, detail),) = complaints(folder)
    assert subject == "submission.json"
    assert message in detail


def test_links_and_pipes_are_refused_before_anything_is_read(folder):
    (folder / "board" / "plan.json").unlink()
    (folder / "board" / "plan.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "README.md")
    assert set(complaints(folder)) == {
        ("board/plan.json", "it is a symbolic link"),
        ("README.md", "it is not a regular file"),
    }


def test_ten_thousand_files_are_refused_without_reading_them(folder):
    for number in range(10_000):
        (folder / "plugin" / f"m{number}.py").touch()
    assert complaints(folder) == [("toys-1", "it has more than 2000 files; pack its board")]


def test_too_many_bytes_are_refused(folder):
    with (folder / "README.md").open("wb") as file:
        file.truncate(submissions.LARGEST_TOTAL + 1)  # takes no room on the disk
    assert "at most 524288000 are taken" in complaints(folder)[0][1]


def test_a_bomb_is_refused_and_not_unpacked(folder):
    index = folder / "board" / "records" / "packed.jsonl.gz"
    index.write_bytes(gzip.compress(bytes(200 << 20)))
    assert index.stat().st_size < 1 << 20
    ((subject, detail),) = complaints(folder)
    assert subject == "board/records"
    assert "packed.jsonl.gz can't be used: a line has more than" in detail


def test_records_and_plans_of_another_schema_are_named(folder):
    plan = folder / "board" / "plan.json"
    plan.write_text(plan.read_text().replace('"schema": 4', '"schema": 99'))
    assert complaints(folder)[0][1] == "it is not in the plan of this board; was it copied from another?"
    findings = verify(Store(folder / "board"), load_registry(), Request(data="0", rescore=False))
    (finding,) = (f for f in findings if f.check == "plan")
    assert (finding.verdict, "newer pdebench-hss (schema 99" in finding.detail) == (CONTRADICTED, True)
