"""A submission is complete, and one that is not what it says is refused by the name of what is wrong with it."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import shutil
import zipfile
from pathlib import Path

import h5py
import pandas as pd
import pytest
from bad_packs import edit_pack, line_of

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards import submissions, trust
from pdebench_hss.boards.claims import result_of
from pdebench_hss.boards.findings import CONFIRMED, CONTRADICTED
from pdebench_hss.boards.packing import pack
from pdebench_hss.cli.verify import verified
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.store import Store
from pdebench_hss.use.submitting import other_boards, plugin_files, submit
from pdebench_hss.use.verification import Verification
from pdebench_hss.use.verifying import Request, verify

FILES = [str(Path(__file__).parents[1] / "toys" / name) for name in ("toy_plugin.py", "kept_plugin.py")]
WORDS = {"licence": "CC-BY-4.0", "contact": "https://example.org/me", "install": {}}


def complaints(folder: Path, *others: Path) -> list[tuple[str, str]]:
    found = submissions.check(folder, others)
    assert {f.check for f in found} == {"submission"}
    return [(f.subject, f.detail) for f in found if f.verdict == CONTRADICTED]


def checked(folder: Path) -> Verification:
    return Verification(folder.name, submissions.check(folder), seed=0)


@pytest.fixture(scope="module")
def submitted(made, tmp_path_factory) -> Path:
    """A submission of the board of toys."""
    shelf = tmp_path_factory.mktemp("submitted")
    submit(made / "board", shelf, "toys-1", load_registry(FILES), checked, **WORDS)
    return shelf / "toys-1"


@pytest.fixture
def folder(submitted, board, tmp_path) -> Path:
    """A copy of it to damage, where `submit` would have put it."""
    return Path(shutil.copytree(submitted, tmp_path / "submissions" / "toys-1"))


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
    assert "warning" not in result.err  # the files are there twice now: where they were, and in the submission
    place = tmp_path / "leaderboards" / "submissions" / "toys-2"
    assert (place / "verification.md").is_file()
    assert cli("verify", str(place), "--data", "0", "--no-rescore").code == 0
    (place / "notes.zip").write_bytes(b"PK")
    result = cli("verify", str(place))
    assert result.code == 3
    assert "notes.zip: a submission holds no such file" in result.out


def test_what_its_author_has_checked_is_still_self_reported(board, plugins, tmp_path):
    record = toys_of(Store(board))[0]
    result = result_of(record, Store(board).samples(record.key, "error_test_err")["error_test_err"])
    trust.write_checks(board, [trust.Check(record.key, result, "re-run", "equal to the bit", "mine", 1.7e9, "1")])
    assert trust.read_checks(board)
    submit(board, tmp_path / "s", "ok-1", load_registry(plugins), checked, **WORDS)
    made = tmp_path / "s" / "ok-1" / "board"
    assert not (made / trust.FILE).exists()
    levels = set(pd.read_csv(made / "results.csv", keep_default_na=False)["trust"])
    assert "self-reported" in levels <= {"self-reported", ""}


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


def manifest(folder: Path, **changes) -> None:
    content = json.loads((folder / "submission.json").read_text())
    (folder / "submission.json").write_text(json.dumps({**content, **changes}))


def sources(folder: Path) -> dict:
    return json.loads((folder / "submission.json").read_text())["plugins"]


def toys_of(store: Store) -> list[Record]:
    """Two seeds of one model on one task."""
    return [r for r in store.current() if (r.trial.task_label, r.trial.model_label) == ("toy", "toy_conv")]


def forge(folder: Path, *results: tuple[Record, dict, dict]) -> None:
    """As somebody careful does it: errors, the arrays that they are means of, all hashes, and the pack."""
    store = Store(folder / "board")
    for record, metrics, arrays in results:
        store.live.write(dataclasses.replace(record, metrics=metrics, samples=arrays))
    pack(store)
    (folder / "board" / ".lock").unlink()


def edit_numbers(folder: Path) -> None:
    store = Store(folder / "board")
    record = toys_of(store)[0]
    arrays = {n: 0.9 * a if n.startswith("error_") else a for n, a in store.samples(record.key).items()}
    forge(folder, (record, {name: 0.9 * value for name, value in record.metrics.items()}, arrays))


def swap_results(folder: Path) -> None:
    store = Store(folder / "board")
    a, b = toys_of(store)
    forge(folder, (a, b.metrics, store.samples(b.key)), (b, a.metrics, store.samples(a.key)))


def swap_arrays(folder: Path) -> None:
    """Where the pack says that they are, hashed again."""

    def swap(lines) -> None:
        a, b = (line_of(lines, "toy_conv", seed) for seed in (0, 1))
        a["samples"], b["samples"] = b["samples"], a["samples"]

    edit_pack(folder / "board", swap, sealed=True)


def copy_a_record(folder: Path) -> None:
    """From a board that the plan does not know."""
    store = Store(folder / "board")
    cells, commands, _ = store.plan_file.read()
    gone = next(iter(cells))
    store.plan_file.write({cell: planned for cell, planned in cells.items() if cell != gone}, commands, {})


def leave_the_directory(folder: Path) -> None:
    plugins = sources(folder)
    manifest(
        folder, plugins={**plugins, "model toy_conv": {**plugins["model toy_conv"], "files": ["../../secrets.py"]}}
    )


def link(folder: Path) -> None:
    (folder / "board" / "plan.json").unlink()
    (folder / "board" / "plan.json").symlink_to("/etc/passwd")


def ten_thousand_files(folder: Path) -> None:
    for number in range(10_000):
        (folder / "plugin" / f"m{number}.py").touch()


def bomb(folder: Path) -> None:
    index = folder / "board" / "records" / "packed.jsonl.gz"
    index.write_bytes(gzip.compress(bytes(200 << 20)))
    assert index.stat().st_size < 1 << 20


BAD = {
    "edited numbers": (edit_numbers, "scores", "toy toy_conv seed 0", "is stated as"),
    "swapped results": (swap_results, "scores", "toy toy_conv seed 1", "is stated as"),
    "swapped arrays": (swap_arrays, "records", "", "and the mean of the errors behind it"),
    "a record of another board": (copy_a_record, "submission", "record ", "not in the plan of this board"),
    "missing plugin source": (
        lambda folder: (folder / "plugin" / "toy_modules.py").unlink(),
        *("submission", "model toy_conv", "its source is missing: plugin/toy_modules.py is not there"),
    ),
    "a path that leaves": (
        leave_the_directory,
        "submission",
        "submission.json",
        "'../../secrets.py' leaves the directory",
    ),
    "10,000 files": (ten_thousand_files, "submission", "toys-1", "it has more than 2000 files"),
    "a symbolic link": (link, "submission", "board/plan.json", "it is a symbolic link"),
    "a bomb": (bomb, "submission", "board/records", "packed.jsonl.gz can't be used: a line has more than"),
    "another schema": (
        lambda folder: manifest(folder, schema=2),
        *("submission", "submission.json", "it has schema 2; this pdebench-hss reads schema 1"),
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_submission_is_refused_by_name(folder, bad):
    """As the command does it, with what the submission brings and nothing else."""
    damage, check, subject, detail = BAD[bad]
    damage(folder)
    found = verified(folder, "0", "0", check == "scores", 0, 1, None, [])
    named = [f.subject for f in found.contradicted if f.check == check and detail in f.detail]
    assert [name for name in named if name.startswith(subject)]


def test_a_changed_file_of_arrays_is_found(folder, plugins):
    path = folder / "board" / "records" / "packed.samples.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert ("files", "records") in numbers(folder, plugins)


def test_a_record_copied_from_another_board_is_found(folder, board):
    assert complaints(folder, board)[0][1] == "it is a copy of the one in board"
    other = shutil.copytree(folder, folder.with_name("toys-2"))
    assert complaints(folder, other / "board")[0][1] == "it is a copy of the one in toys-2"


def test_boards_that_it_must_not_repeat_are_those_beside_it(folder, board, tmp_path):
    assert other_boards(folder) == [board]
    assert other_boards(folder, board) == []
    shutil.copytree(folder, folder.with_name("toys-2"))
    assert other_boards(folder) == [board, folder.with_name("toys-2") / "board"]


def test_other_source_is_found(folder):
    (folder / "plugin" / "toy_modules.py").write_text("pass\n")
    assert ("model toy_conv", "its files are not those that its sha256 names") in complaints(folder)


def test_a_plugin_that_is_left_out_and_records_of_another_source_are_found(folder):
    plugins = sources(folder)
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
    plugins = sources(folder)
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
    link(folder)
    os.mkfifo(folder / "README.md")
    assert set(complaints(folder)) == {
        ("board/plan.json", "it is a symbolic link"),
        ("README.md", "it is not a regular file"),
    }


def test_too_many_bytes_are_refused(folder):
    with (folder / "README.md").open("wb") as file:
        file.truncate(submissions.LARGEST_TOTAL + 1)  # takes no room on the disk
    assert "at most 524288000 are taken" in complaints(folder)[0][1]


def test_predictions_that_unpack_to_more_than_they_may_are_refused_and_not_unpacked(folder):
    path = folder / "board" / "predictions" / f"{'0' * 24}.h5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        file.create_dataset("prediction", (1 << 20, 300), "f8", chunks=(64, 300), compression="gzip")
    assert path.stat().st_size < 1 << 20
    expected = f"they unpack to {300 << 23} bytes; at most {2 << 30} are taken"
    assert complaints(folder) == [("board/predictions", expected)]
    path.write_bytes(b"not HDF5")
    ((subject, detail),) = complaints(folder)
    assert (subject, "it can't be read" in detail) == (f"board/predictions/{path.name}", True)


def test_a_bomb_among_the_models_is_named_and_not_unpacked(folder, plugins):
    path = folder / "board" / "models" / "packed.zip"
    with zipfile.ZipFile(path) as pack:
        names = pack.namelist()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        for name in names:
            pack.writestr(name, bytes(1 << 20))
    findings = verify(Store(folder / "board"), load_registry(plugins), Request(data="0", rescore=False))
    found = {f.detail for f in findings if f.verdict == CONTRADICTED}
    assert f"models/packed.zip: {names[0]} is compressed or too large, and is not unpacked" in found


def test_records_of_another_schema_are_named(folder):
    edit_pack(folder / "board", lambda lines: lines[1]["record"].update(schema=99), sealed=True)
    ((subject, detail),) = complaints(folder)
    assert subject.startswith("record ")
    assert "newer pdebench-hss (schema 99" in detail


def test_a_plan_of_another_schema_is_named(folder):
    plan = folder / "board" / "plan.json"
    plan.write_text(plan.read_text().replace('"schema": 4', '"schema": 99'))
    ((subject, detail),) = complaints(folder)
    assert (subject, "newer pdebench-hss (schema 99" in detail) == ("board/plan.json", True)
    findings = verify(Store(folder / "board"), load_registry(), Request(data="0", rescore=False))
    (finding,) = (f for f in findings if f.check == "plan")
    assert (finding.verdict, "newer pdebench-hss (schema 99" in finding.detail) == (CONTRADICTED, True)
