"""A packed board that was cut, edited or forged: what is wrong is named, no number is, and the rest goes on."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_boards import as_schema_1, command, is_calm, make_board
from bad_packs import edit_pack, line_of

from pdebench_hss.trials.store import Store

INDEX, SAMPLES, PICTURES = "packed.jsonl.gz", "packed.samples.npz", "packed.pictures.npz"


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    board = make_board(tmp_path_factory.mktemp("good") / "board")
    assert command("pack", board)[0] == 0
    assert command("leaderboard", board)[0] == 0
    return board


@pytest.fixture
def board(good, tmp_path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "board"))


def results(board: Path) -> pd.DataFrame:
    return pd.read_csv(board / "results.csv").set_index(["model", "seed"])


# --- one bad line among good ones -------------------------------------------------------------------------------------


def change(**options):
    """Change the line of toy_conv, seed 0."""
    return lambda board, edit: edit_pack(board, lambda lines: edit(line_of(lines, "toy_conv", 0)), **options)


def metrics(line) -> dict:
    return line["record"]["metrics"]


def claim(name, place):
    return lambda line: line["samples"].update({name: place})


EDITED = "its line in the pack is not what was packed (sha256 differs)"
BEYOND = ["float64", [4], 10**6]
BAD_LINES = {
    "edited error": (False, lambda line: metrics(line).update(test_err=1e-9), EDITED),
    "edited place of an array": (False, claim("error_rmse", ["float64", [4], 0]), EDITED),
    "forged error": (True, lambda line: metrics(line).update(test_err=1e-9), "its content is not what was written"),
    "forged place": (True, claim("error_test_err", ["float64", [4], 1]), "test_err is"),
    "an array of 8 TB": (True, claim("error_test_err", ["float64", [10**12], 0]), "array 'error_test_err'"),
    "an array beyond the end": (
        True,
        claim("error_test_err", ["float64", [4], 10**6]),
        "array 'error_test_err' claims",
    ),
    "no values and endless sides": (True, claim("error_test_err", ["float64", [0, *[2**29] * 7], 0]), "array"),
    "an array of objects": (True, claim("error_test_err", ["object", [4], 0]), "array 'error_test_err' claims"),
    "an array nowhere": (True, claim("error_test_err", {"pickle": 1}), "array 'error_test_err' has no place"),
    "no arrays": (True, lambda line: line.pop("samples"), "its arrays are missing"),
    "no record": (True, lambda line: line.pop("record"), "its line in the pack holds no record"),
}


@pytest.mark.parametrize(("sealed", "edit", "reason"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_named_with_its_reason_and_the_rest_is_shown(good, board, tmp_path, sealed, edit, reason):
    change(sealed=sealed)(board, edit)
    code, printed = command("leaderboard", board)
    assert code == 0, printed
    assert " of the pack in " in printed
    assert f"can't be used ({reason}" in printed
    assert printed.count("warning: ") == 1
    before, after = results(good), results(board)
    bad = ("toy_conv", 0)
    assert after.loc[bad, "status"] == "missing"
    assert np.isnan(after.loc[bad, "test_err"])
    pd.testing.assert_frame_equal(after.drop(bad), before.drop(bad))
    for arguments in (("compare", good, board, "--force"), ("report", board, "--out", tmp_path / "report.html")):
        code, printed = command(*arguments)
        assert is_calm(code, printed)
        assert reason in printed


def test_a_record_that_is_there_twice_is_not_believed(board):
    edit_pack(board, lambda lines: lines.append(line_of(lines, "toy_conv", 0)), sealed=True)
    code, printed = command("leaderboard", board)
    assert (code, "it is in the pack twice" in printed) == (0, True)
    assert results(board).loc[("toy_conv", 0), "status"] == "missing"


def test_a_packed_record_of_the_first_release_is_checked_by_its_arrays(tmp_path):
    board = make_board(tmp_path / "old")
    as_schema_1(board)
    contents = {key: Store(board).live.content(key) for key in sorted(Store(board).live.keys())}
    assert command("pack", board)[0] == 0
    assert {key: Store(board).packed.content(key) for key in contents} == contents  # as they were, without a hash
    forge = {"test_err": 1e-9, "relative_l2": 1e-9}
    change(sealed=True)(board, lambda line: metrics(line).update(forge))
    code, printed = command("leaderboard", board)
    assert (code, "the mean of the errors behind it" in printed) == (0, True)
    assert results(board).loc[("toy_conv", 0), "status"] == "missing"


# --- files ------------------------------------------------------------------------------------------------------------


def overwrite(path, content):
    path.unlink()
    path.write_bytes(content)


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def link(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def huge(path):
    os.truncate(path, 1 << 40)


def empty(path):
    os.truncate(path, 0)


def folder(path):
    path.unlink()
    path.mkdir()


FILES = [cut, flip, link, pipe, huge, empty, folder]


@pytest.mark.parametrize("name", [INDEX, SAMPLES])
@pytest.mark.parametrize("damage", FILES)
def test_a_damaged_file_is_named_once_and_no_number_comes_from_it(good, board, name, damage):
    damage(board / "records" / name)
    code, printed = command("leaderboard", board)
    assert is_calm(code, printed)
    assert f"{board / 'records'}: {name} " in printed
    assert len([line for line in printed.splitlines() if "warning: " in line and f"{name} " in line]) == 1
    before, after = results(good), results(board)
    shown = after[after["test_err"].notna()]
    assert (shown["test_err"] == before.loc[shown.index, "test_err"]).all()
    if name == SAMPLES:
        assert set(after["status"]) == {"missing", "skipped", "failed"}


@pytest.mark.parametrize("damage", [*FILES, os.unlink])
def test_lost_pictures_are_named_and_cost_no_record(good, board, tmp_path, damage):
    damage(board / "records" / PICTURES)
    assert command("leaderboard", board)[0] == 0
    assert (board / "results.csv").read_bytes() == (good / "results.csv").read_bytes()
    code, printed = command("report", board, "--out", tmp_path / "report.html")
    assert (code, f"{PICTURES} in " in printed, "pictures of 0" in printed) == (0, True, True)


def test_arrays_that_claim_more_than_their_file_can_hold_are_refused(board):
    """A member of a few bytes that states 2 GB, with all hashes right."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("float64.npy", b"0" * 100)
    bomb = content.getvalue().replace((100).to_bytes(4, "little"), (2 << 30).to_bytes(4, "little"))
    overwrite(board / "records" / SAMPLES, bomb)
    edit_pack(board, lambda lines: lines[0].update(samples=hashlib.sha256(bomb).hexdigest()), sealed=True)
    code, printed = command("leaderboard", board)
    assert (code, "more than its file can hold" in printed) == (0, True)


def test_lines_that_unpack_to_more_than_a_record_are_not_read_to_their_end(board):
    edit_pack(board, lambda lines: lines.insert(1, {"key": "0" * (16 << 20)}), sealed=True)
    code, printed = command("leaderboard", board)
    assert is_calm(code, printed)
    assert f"a line has more than {8 << 20} bytes" in printed


# --- what run and pack do with them -----------------------------------------------------------------------------------


def test_run_runs_the_cell_of_a_bad_line_again_and_the_new_record_counts(good, board, toys):
    change()(board, lambda line: metrics(line).update(test_err=1e-9))
    options = ("--models", "toy_conv", "--tasks", "toy", "--scale", "smoke", "--executor", "inline", "--seeds", "2")
    code, printed = command("run", "--plugin", toys, *options, "--out", board)
    assert (code, "1 to run, 1 cached" in printed) == (0, True), printed
    pd.testing.assert_series_equal(results(board)["test_err"], results(good)["test_err"])
    code, printed = command("pack", board)
    assert (code, "warning" in printed) == (0, False), printed
    assert len(list((board / "records").glob("*"))) == 3
    assert "warning" not in command("leaderboard", board)[1]
    pd.testing.assert_series_equal(results(board)["test_err"], results(good)["test_err"])


@pytest.mark.parametrize("name", [SAMPLES, PICTURES])
def test_packing_a_damaged_pack_keeps_its_files_aside(board, name):
    cut(board / "records" / name)
    lost = (board / "records" / name).read_bytes()
    code, printed = command("pack", board, "--no-pictures")
    assert (code, "kept in records/set_aside" in printed) == (0, True)
    assert (board / "records" / "set_aside" / name).read_bytes() == lost
    assert (board / "records" / "set_aside" / INDEX).exists()
    assert "warning" not in command("leaderboard", board)[1]


def test_a_pack_of_a_newer_form_is_kept_and_its_cells_are_not_run(board, toys):
    edit_pack(board, lambda lines: lines[0].update(pack=2), sealed=True)
    before = {path.name: path.read_bytes() for path in (board / "records").iterdir()}
    options = ("--models", "toy_conv", "--tasks", "toy", "--scale", "smoke", "--executor", "inline", "--force")
    code, printed = command("run", "--plugin", toys, *options, "--out", board)
    assert (code, "toy_conv on toy is not run: packed.jsonl.gz was written by a newer" in printed) == (1, True)
    code, printed = command("pack", board)
    assert "pack it with that version" in printed
    assert {path.name: path.read_bytes() for path in (board / "records").iterdir()} == before


def test_a_folder_of_records_that_is_a_link_is_not_packed(board):
    (board / "records").rename(board.parent / "elsewhere")
    (board / "records").symlink_to(board.parent / "elsewhere")
    code, printed = command("pack", board)
    assert (code, "records is a symbolic link" in printed) == (2, True)


def test_every_command_reads_a_packed_board(good, tmp_path):
    for arguments in (
        ("compare", good, good),
        ("leaderboard", good, "--format", "csv"),
        ("plot", good, "--out", tmp_path),
        ("report", good, "--out", tmp_path / "report.html"),
        ("cite", good),
    ):
        code, printed = command(*arguments)
        assert (code in (0, 2), "holds no records" in printed) == (True, False), printed
