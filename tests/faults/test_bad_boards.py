"""The list of bad boards: the line that each gets, and the exit code. The good records are shown all the same."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_boards import as_schema_1, command, edit, is_calm, make_board

from pdebench_hss.boards.reading import read_board
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.validation import SCHEMA

TROUBLE = '=HYPERLINK("http://x","y")<img src=x onerror=alert(1)>|\x1b[31m\u202e'


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    board = make_board(tmp_path_factory.mktemp("good") / "board")
    assert command("leaderboard", board)[0] == 0
    return board


@pytest.fixture
def board(good, tmp_path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "board"))


def victim(board: Path) -> Path:
    """The record of toy_conv, seed 0."""
    return find(board, "toy_conv", 0)


def find(board: Path, model: str, seed: int) -> Path:
    for path in (board / "records").glob("*.json"):
        trial = json.loads(path.read_text())["trial"]
        if (trial["model"], trial["seed"]) == (model, seed):
            return path
    raise AssertionError("no such record")


def results(board: Path) -> pd.DataFrame:
    return pd.read_csv(board / "results.csv").set_index(["model", "seed"])


# --- one bad record among good ones -----------------------------------------------------------------------------------


def edited_error(path):
    edit(path, lambda c: c["metrics"].update(test_err=1e-9))


def forged_error(path):
    def forge(content):
        content["metrics"].update(test_err=1e-9, relative_l2=1e-9)

    edit(path, forge, seal=True)


def forged_rmse(path):
    edit(path, lambda c: c["metrics"].update(rmse=1e-9), seal=True)


def another_cells_record(path):
    other = find(path.parent.parent, "mean", 0)
    shutil.copy(other, path)
    shutil.copy(other.with_suffix(".npz"), path.with_suffix(".npz"))


def negative_error(path):
    edit(path, lambda c: c["metrics"].update(test_err=-1.0), seal=True)


def error_as_text(path):
    edit(path, lambda c: c["metrics"].update(test_err="0.1"), seal=True)


def missing_field(path):
    edit(path, lambda c: c["trial"].pop("scale"), seal=True)


def missing_status(path):
    edit(path, lambda c: c.pop("status"), seal=True)


def unknown_field(path):
    edit(path, lambda c: c.update(surprise=1), seal=True)


def deep_json(path):
    path.write_text('{"schema": 3, "key": ' + "[" * 100_000)


def empty_record(path):
    path.write_bytes(b"")


def huge_record(path):
    os.truncate(path, 1 << 40)


def not_utf8(path):
    path.write_bytes(b"\xff\xfe{}")


def link_to_elsewhere(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def empty_arrays(path):
    path.with_suffix(".npz").write_bytes(b"")


def no_arrays(path):
    path.with_suffix(".npz").unlink()


def arrays_behind_a_link(path):
    arrays = path.with_suffix(".npz")
    arrays.rename(path.parent.parent / "elsewhere.npz")
    arrays.symlink_to(path.parent.parent / "elsewhere.npz")


def rewrite_arrays(path, write) -> None:
    """Other arrays, and a record that claims them: what a forger could do."""
    import hashlib

    content = io.BytesIO()
    write(content)
    path.with_suffix(".npz").write_bytes(content.getvalue())
    edit(path, lambda c: c.update(arrays=hashlib.sha256(content.getvalue()).hexdigest()), seal=True)


def array_of_2_eib(path):
    def write(file):
        with zipfile.ZipFile(file, "w") as archive:
            shape = f"({2**58},)"
            header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            archive.writestr("error_test_err.npy", b"\x93NUMPY\x01\x00\x76\x00" + header.encode())

    rewrite_arrays(path, write)


def zip_bomb(path):
    def write(file):
        np.savez_compressed(file, error_test_err=np.zeros(40 << 20))

    rewrite_arrays(path, write)


def pickled_array(path):
    rewrite_arrays(path, lambda file: np.savez(file, error_test_err=np.array([{}, {}, {}, {}], dtype=object)))


def wrong_number_of_samples(path):
    error = json.loads(path.read_text())["metrics"]["test_err"]
    rewrite_arrays(path, lambda file: np.savez(file, error_test_err=np.full(1000, error)))


def arrays_cut_short(path):
    os.truncate(path.with_suffix(".npz"), 1000)


BAD_RECORDS = [
    (edited_error, "its content is not what was written (sha256 differs)"),
    (forged_error, "test_err is 1e-09, and the mean of the errors behind it "),
    (forged_rmse, "rmse is 1e-09, and the mean of the errors behind it "),
    (another_cells_record, "it is the record of trial "),
    (negative_error, "metrics is a dict of another kind"),
    (error_as_text, "metrics is a dict of another kind"),
    (missing_field, "trial: scale is missing"),
    (missing_status, "status is missing"),
    (unknown_field, "it has an unknown field 'surprise'"),
    (deep_json, "it is nested too deeply"),
    (empty_record, "the file is empty"),
    (huge_record, "it has 1099511627776 bytes; at most 4194304 are read"),
    (not_utf8, "not UTF-8 text"),
    (link_to_elsewhere, "it is a symbolic link"),
    (pipe, "it is not a regular file"),
    (empty_arrays, "its arrays are not those that were written (sha256 differs)"),
    (no_arrays, "its arrays are missing"),
    (arrays_behind_a_link, "it is a symbolic link"),
    (array_of_2_eib, "array 'error_test_err' has no header of plain numbers"),
    (zip_bomb, "its arrays claim 335544448 bytes; at most 67108864 are read"),
    (pickled_array, "array 'error_test_err' has no header of plain numbers"),
    (wrong_number_of_samples, "the errors behind test_err are not one number for each of its test samples"),
    (arrays_cut_short, "its arrays are not those that were written (sha256 differs)"),
]


@pytest.mark.parametrize(("damage", "reason"), BAD_RECORDS, ids=[damage.__name__ for damage, _ in BAD_RECORDS])
def test_a_bad_record_is_named_with_its_reason_and_the_rest_is_shown(good, board, tmp_path, damage, reason):
    path = victim(board)
    damage(path)
    code, printed = command("leaderboard", board)
    line = f"warning: record {path.name} in {board} can't be used ({reason}"
    assert code == 0
    assert line in printed
    assert printed.count("warning: ") == 1
    before, after = results(good), results(board)
    bad = ("toy_conv", 0)
    assert after.loc[bad, "status"] == "missing"
    assert np.isnan(after.loc[bad, "test_err"])
    pd.testing.assert_frame_equal(after.drop(bad), before.drop(bad))
    for arguments in (("compare", good, board, "--force"), ("report", board, "--out", tmp_path / "report.html")):
        code, printed = command(*arguments)
        assert (code, line in printed) == (0, True), printed
        assert is_calm(code, printed)


@pytest.mark.parametrize("damage", [edited_error, forged_rmse, another_cells_record, empty_arrays, no_arrays])
def test_records_of_the_first_release_are_checked_by_their_arrays(board, damage):
    as_schema_1(board)
    path = victim(board)
    if damage is edited_error:
        edit(path, lambda c: c["metrics"].update(test_err=1e-9, relative_l2=1e-9))
    elif damage is forged_rmse:
        edit(path, lambda c: c["metrics"].update(rmse=1e-9))
    else:
        damage(path)
    code, printed = command("leaderboard", board)
    assert (code, f"record {path.name}" in printed) == (0, True)
    assert results(board).loc[("toy_conv", 0), "status"] == "missing"


def test_a_digit_of_an_old_record_that_its_samples_do_not_support_is_not_shown(good, board):
    as_schema_1(board)
    edit(victim(board), lambda c: c["metrics"].update(max_error=c["metrics"]["max_error"] * (1 + 1e-13)))
    assert command("leaderboard", board)[0] == 0
    assert results(board)["max_error"].equals(results(good)["max_error"])


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_an_old_record_that_is_ok_without_an_error_is_read_as_diverged(board, value):
    as_schema_1(board)
    edit(victim(board), lambda c: c["metrics"].update(test_err=value, relative_l2=value))
    code, printed = command("leaderboard", board)
    assert code == 0, printed
    row = results(board).loc[("toy_conv", 0)]
    assert (row["status"], row["reason"]) == ("diverged", "the test error test_err is not finite")
    summary = pd.read_csv(board / "leaderboard.csv").set_index("model").loc["toy_conv"]
    assert (summary["n_seeds"], summary["n_expected"]) == (1, 2)
    assert np.isnan(summary["rank"])


def test_a_record_of_a_newer_schema_is_kept_and_named(board, toys):
    path = victim(board)
    edit(path, lambda c: c.update(schema=SCHEMA + 1, news=True))
    content = path.read_bytes()
    code, printed = command("leaderboard", board)
    assert code == 0
    newer = f"written by a newer pdebench-hss (schema {SCHEMA + 1}, this one reads up to {SCHEMA}))"
    assert f"{newer}; it is kept, and left out" in printed
    options = ("--models", "toy_conv", "--tasks", "toy", "--scale", "smoke", "--executor", "inline", "--force")
    code, printed = command("run", "--plugin", toys, *options, "--seeds", "2", "--out", board)
    assert code == 1
    assert "toy_conv on toy is not run: written by a newer pdebench-hss" in printed
    assert path.read_bytes() == content
    assert results(board).loc[("toy_conv", 1), "status"] == "ok"


def test_run_sets_bad_records_aside_and_runs_their_cells_again(board, good, toys):
    path = victim(board)
    edited_error(path)
    (board / "records" / "notes.json").write_text("{}")
    bad = path.read_bytes()
    options = ("--models", "toy_conv", "--tasks", "toy", "--scale", "smoke", "--executor", "inline")
    code, printed = command("run", "--plugin", toys, *options, "--seeds", "2", "--out", board)
    assert code == 0, printed
    assert f"set aside as records/set_aside/{path.name}" in printed
    assert (board / "records" / "set_aside" / path.name).read_bytes() == bad
    assert (board / "records" / "set_aside" / "notes.json").exists()
    pd.testing.assert_series_equal(results(board)["test_err"], results(good)["test_err"])


# --- bad plans --------------------------------------------------------------------------------------------------------


def first_cell(content) -> dict:
    return next(iter(content["cells"].values()))


BAD_CELLS = {
    "outside": (lambda c: first_cell(c).update(key="../../x"), "its key is not that of its trial ("),
    "another": (lambda c: first_cell(c).update(key="0" * 24), "its key is not that of its trial ("),
    "number": (lambda c: first_cell(c).update(key=3), "its key is not that of its trial ("),
    "no trial": (lambda c: first_cell(c).pop("trial"), "it is not a key and a trial"),
    "text": (lambda c: c["cells"].update({next(iter(c["cells"])): "x"}), "it is not a key and a trial"),
    "twice": (lambda c: c["cells"].update({"a copy": dict(first_cell(c))}), "it is the same as "),
}


@pytest.mark.parametrize(("change", "reason"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_a_bad_cell_of_a_plan_is_named_and_the_rest_is_shown(good, board, change, reason):
    outside = board.parent.parent / "x.json"
    shutil.copy(victim(board), outside)
    edit(board / "plan.json", change)
    code, printed = command("leaderboard", board)
    assert code == 0
    assert f"warning: plan.json in {board} can't be used: cell " in printed
    assert reason in printed
    after, before = results(board), results(good)
    pd.testing.assert_frame_equal(after, before.loc[after.index])
    assert len(after) >= len(before) - 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty"),
        ("{", "not JSON"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "expected an object, found list"),
        ('{"schema": 3, "cells": 3}', "it has no cells"),
        ('{"schema": 3, "cells": {}, "commands": [3]}', "its commands are not text"),
    ],
)
def test_a_plan_that_is_none_is_named_and_all_records_are_shown(good, board, content, reason):
    (board / "plan.json").write_text(content)
    code, printed = command("leaderboard", board)
    assert code == 0
    assert f"warning: plan.json in {board} can't be used: {reason}" in printed
    pd.testing.assert_frame_equal(results(board).sort_index(), results(good).sort_index())


def test_a_plan_of_a_newer_schema_is_never_overwritten(board, toys):
    edit(board / "plan.json", lambda c: c.update(schema=SCHEMA + 1))
    content = (board / "plan.json").read_bytes()
    options = ("--models", "mean", "--tasks", "toy", "--scale", "smoke", "--executor", "inline")
    code, printed = command("run", "--plugin", toys, *options, "--out", board)
    assert code == 2
    newer = f"written by a newer pdebench-hss (schema {SCHEMA + 1}, this one reads up to {SCHEMA})"
    assert f"{newer}; use that version or another" in printed
    assert (board / "plan.json").read_bytes() == content


def test_a_folder_of_records_that_is_a_link_is_refused(board):
    (board / "records").rename(board.parent / "elsewhere")
    (board / "records").symlink_to(board.parent / "elsewhere")
    for arguments in (("leaderboard", board), ("compare", board, board), ("report", board)):
        code, printed = command(*arguments)
        assert code == 2
        assert "records is a symbolic link; a board holds its own files" in printed


# --- text from strangers ----------------------------------------------------------------------------------------------


@pytest.fixture
def strange(board) -> Path:
    """A board in which a task's title, a model's label and a reason are meant to do harm."""
    from pdebench_hss.trials.trial import trial_key

    for path in sorted((board / "records").glob("*.json")):
        content = json.loads(path.read_text())
        trial = {**content["trial"], "equation": TROUBLE}
        if trial["model"] == "toy_conv":
            trial |= {"hparams": {"width": TROUBLE}, "model_label": f"toy_conv[width={TROUBLE}]"}
        if trial["model"] == "mean":
            trial |= dict.fromkeys(("model", "model_label"), f"@mean{TROUBLE}")
        key = trial_key(trial)
        reason = TROUBLE if content["status"] == "failed" else content["reason"]
        path.rename(path.with_name(f"{key}.json"))
        if path.with_suffix(".npz").exists():
            path.with_suffix(".npz").rename(path.with_name(f"{key}.npz"))
        edit(
            path.with_name(f"{key}.json"),
            lambda c, t=trial, k=key, r=reason: c.update(key=k, trial=t, reason=r),
            seal=True,
        )
    (board / "plan.json").unlink()
    return board


def test_no_file_or_terminal_gets_text_that_does_something(strange, tmp_path):
    printed = "".join(
        command(*arguments)[1]
        for arguments in (
            ("leaderboard", strange),
            ("leaderboard", strange, "--format", "markdown"),
            ("leaderboard", strange, "--format", "csv"),
            ("leaderboard", strange, "--format", "json"),
            ("compare", strange, strange),
            ("compare", strange, strange, "--format", "csv"),
            ("report", strange, "--out", tmp_path / "report.html"),
        )
    )
    assert "HYPERLINK" in printed
    written = {path.name: path.read_text() for path in (*strange.glob("*.*"), tmp_path / "report.html")}
    for name, text in {**written, "the terminal": printed}.items():
        for harm in ("\x1b", "\u202e"):
            assert harm not in text.replace("\x1b[1m", "") if name == "the terminal" else harm not in text, name
    for name in ("leaderboard.md", "README.md", "statistics.md"):
        assert "<img" not in written.get(name, "")
    assert "<img src=x" not in written["report.html"]
    for name in ("results.csv", "leaderboard.csv"):
        cells = [cell for row in __import__("csv").reader(io.StringIO(written[name])) for cell in row]
        assert not [cell for cell in cells if cell[:1] in tuple("=@\t\r") and cell[:1]]


def test_a_table_gives_the_names_that_its_records_have(strange):
    assert command("leaderboard", strange)[0] == 0
    names = {record.trial.model_label for record in Store(strange).current()}
    table = read_board(strange / "results.csv").results
    assert set(table["model"]) == names
    assert set(table["equation"]) == {TROUBLE}
