"""`compare` on the command line: its forms, its exit codes, and one clear line for whatever can't be compared."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest
from factories.comparisons import (
    compared,
    edited,
    make_board,
    with_value,
    without_column,
)
from factories.records import make_trial

import pdebench_hss as pb
from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.reading import read_board
from pdebench_hss.trials.store import Store

# The command line


def test_compare_prints_tables_csv_markdown_and_json(command, board, worse):
    _, text, _ = command("compare", board, worse)
    (line,) = [line for line in text.splitlines() if line.startswith("heat")]
    assert "+30.0 %" in line
    assert "worse" in line
    assert "4 cells: 1 worse, 3 identical" in text
    rows = json.loads(command("compare", board, worse, "--format", "json")[1])
    assert len(rows) == 4
    csv = command("compare", board, worse, "--format", "csv")[1].splitlines()
    assert csv[0].split(",") == list(rows[0])
    assert "| heat" in command("compare", board, worse, "--format", "markdown")[1]


@pytest.mark.parametrize(("tolerance", "code"), [("5%", 3), ("0.05", 3), ("0%", 3), ("40%", 0)])
def test_a_regression_beyond_the_tolerance_exits_3(command, board, worse, tolerance, code):
    found, _, err = command("compare", board, worse, "--fail-on-regression", "--tol", tolerance)
    assert found == code
    assert ("regression: 1 cell broken or worse" in err) == (code == 3)


def test_without_regression_or_without_asking_the_exit_is_0(command, board, worse):
    assert command("compare", board, worse)[0] == 0
    assert command("compare", board, board, "--fail-on-regression")[0] == 0
    assert command("compare", worse, board, "--fail-on-regression")[0] == 0


def test_a_worsened_copy_of_a_leaderboard_file_exits_3(cli, board, tmp_path):
    table = pd.read_csv(board / "leaderboard.csv")
    table["test_err_mean"] *= 1.5
    table.to_csv(tmp_path / "worse.csv", index=False)
    files = [str(board / "leaderboard.csv"), str(tmp_path / "worse.csv")]
    done = cli("compare", *files, "--fail-on-regression", "--tol", "5%")
    assert done.code == 3, done.err
    assert "regression: 4 cells" in done.err


@pytest.mark.parametrize("tolerance", ["five", "-1%", "nan"])
def test_a_tolerance_that_is_none_is_refused(command, board, tolerance):
    code, _, err = command("compare", board, board, f"--tol={tolerance}")
    assert code == 2
    assert f"--tol {tolerance}" in err


# Bad input: one clear line each


BAD = {
    "another version": (without_column("n_seeds"), ["lacks the column n_seeds", "another version"]),
    "no such columns": (lambda _: "a,b\n1,2\n", ["lacks the columns task, model", "not a table of pdebench-hss"]),
    "duplicated row": (lambda t: t + t.splitlines()[1] + "\n", ["line 2 and line 6 are the same cell (heat, "]),
    "NaN error": (with_value("test_err_mean", "nan"), ["line 2 (heat, ", "test_err_mean is empty", "status is ok"]),
    "no error": (with_value("test_err_mean", ""), ["line 2 (heat, ", "test_err_mean is empty"]),
    "infinite error": (with_value("test_err_mean", "inf"), ["test_err_mean is inf"]),
    "negative error": (with_value("test_err_mean", "-0.1"), ["test_err_mean is -0.1"]),
    "negative deviation": (
        with_value("test_err_std", "-0.1"),
        ["line 2 (heat, ", "test_err_std is -0.1; a standard deviation is 0 or more"],
    ),
    "infinite deviation": (with_value("test_err_std", "inf"), ["line 2 (heat, ", "test_err_std is inf"]),
    "negative count": (with_value("n_seeds", "-1"), ["line 2 (heat, ", "n_seeds is -1"]),
    "decimal comma, quoted": (
        with_value("test_err_mean", '"0,25"'),
        ["line 2: test_err_mean is '0,25'", "decimal points"],
    ),
    "decimal comma, bare": (with_value("test_err_mean", "0,25"), ["line 2: ", "decimal commas"]),
    "semicolons": (lambda t: t.replace(",", ";"), ["separated by semicolons"]),
    "tabs": (lambda t: t.replace(",", "\t"), ["separated by tabs"]),
    "words for numbers": (with_value("fit_seconds", "fast"), ["line 2: fit_seconds is 'fast', not a number"]),
    "part of a sample": (with_value("n_train", "7.5"), ["n_train is '7.5', not a whole number"]),
    "unknown status": (with_value("status", "great"), ["no status 'great'"]),
    "cut short": (lambda t: t[: len(t) - 40], ["line 5", "cut short"]),
    "header only": (lambda t: t.splitlines()[0] + "\n", ["a header and no rows"]),
    "empty file": (lambda _: "", ["is empty"]),
    "column twice": (lambda t: t.replace("equation", "task", 1), ["has the column 'task' twice"]),
}


@pytest.mark.parametrize(("edit", "words"), BAD.values(), ids=BAD)
def test_a_bad_table_is_refused_in_one_line_that_says_where(board, tmp_path, edit, words):
    path = edited(board, tmp_path, edit)
    with pytest.raises(UsageError) as refusal:
        read_board(path)
    message = str(refusal.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert word in message


def test_results_are_checked_like_leaderboards(board, tmp_path):
    path = edited(board, tmp_path, lambda t: t + t.splitlines()[3] + "\n", "results.csv")
    with pytest.raises(UsageError, match="line 4 and line 14 are the same cell"):
        read_board(path)


def test_tables_in_memory_are_checked_like_files(board):
    results = read_board(board / "results.csv").results
    with pytest.raises(UsageError, match="table 1: row 0 and row 12 are the same cell"):
        pb.compare(pd.concat([results, results]), results)
    with pytest.raises(UsageError, match="table 2 lacks the column status"):
        pb.compare(results, results.drop(columns="status"))


def test_what_a_spreadsheet_adds_without_harm_is_read(board, tmp_path):
    path = tmp_path / "edited.csv"
    text = without_column("peak_memory_mb")((board / "leaderboard.csv").read_text())
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert set(compared(board, path)["verdict"]) == {"identical"}


def test_a_column_of_a_later_version_does_no_harm(board, tmp_path):
    path = edited(board, tmp_path, lambda t: "\n".join(f"{line},extra" for line in t.splitlines()))
    assert set(compared(board, path)["verdict"]) == {"identical"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), ["holds neither records nor results.csv nor leaderboard.csv"]),
        (lambda path: None, ["no such file or directory"]),
        (lambda path: path.write_bytes(b"\xff\xfe\x00binary"), ["can't be read: not UTF-8 text"]),
        (lambda path: make_board(path, tasks=["other"]), ["no cell in common", "2 models on other"]),
    ],
    ids=["empty directory", "nothing there", "binary", "no common cells"],
)
def test_nothing_to_compare_is_one_line_and_exit_2(command, board, tmp_path, make, words):
    path = tmp_path / "wrong"
    make(path)
    code, _, err = command("compare", board, path)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_one_board_is_nothing_to_compare(command, board):
    code, _, err = command("compare", board)
    assert code == 2
    assert "at least 2" in err


def test_reading_writes_nothing(command, board):
    before = {path: path.stat().st_mtime_ns for path in board.rglob("*")}
    command("compare", board, board)
    command("leaderboard", board / "results.csv")
    assert {path: path.stat().st_mtime_ns for path in board.rglob("*")} == before


def test_tables_without_records_are_never_overwritten(command, board, tmp_path):
    copy = tmp_path / "copy"
    (copy / "records").mkdir(parents=True)
    shutil.copy(board / "leaderboard.csv", copy)
    code, _, err = command("leaderboard", copy)
    assert code == 2
    assert "holds no records" in err
    assert (copy / "leaderboard.csv").read_bytes() == (board / "leaderboard.csv").read_bytes()


def test_a_leaderboard_can_be_printed_from_results(command, board):
    csv = command("leaderboard", board / "results.csv", "--format", "csv")[1]
    assert csv.splitlines()[0] == (board / "leaderboard.csv").read_text().splitlines()[0]
    assert "## Toy Eq. (`heat`)" in command("leaderboard", board / "results.csv", "--format", "markdown")[1]


def test_cells_that_are_planned_and_not_run_are_missing(board, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(board, copy)
    store = Store(copy)
    present = [record.trial for record in store.all()]
    late = [make_trial("late", task="heat", task_label="heat", data_id="heat")]
    store.add_to_plan([*present, *late])
    table = compared(copy, board)
    assert table.loc[("heat", "late"), "verdict"] == "in neither"
    assert set(table.drop(("heat", "late"))["verdict"]) == {"identical"}
