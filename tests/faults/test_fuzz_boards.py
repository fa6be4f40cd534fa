"""Boards damaged in any way: `leaderboard`, `compare` and `report` end in words, soon, and show no number that no valid
record supports.

That is: every row of the rebuilt results.csv that has an error is, number by number and name by name, the row of the
same trial on the board before it was damaged. Other rows have no error. Of boards of schema 1, whose records hold no
hash of themselves, that is promised of the errors and of all that is in a trial's key. Boards are live or packed.

A mutant is one to three changes of one board. How many: PDEBENCH_HSS_MUTANTS (40 unless told; 2,000 take minutes).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import zlib

import pandas as pd
import pytest
from bad_boards import as_schema_1, command, is_calm, make_board
from bad_packs import lines_of, write_lines
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

MUTANTS = int(os.environ.get("PDEBENCH_HSS_MUTANTS", "40"))
pytestmark = pytest.mark.timeout(60 + 5 * MUTANTS)
ERRORS = ["test_err", "relative_l2", "trajectory_l2", "rmse", "max_error"]
IN_KEY = ["scale", "budget", "n_train", "seed", "params_target", "data_id", "device"]
STRANGE = [
    *(None, True, False, 0, -1, 1, 10**30, 10**400, 2**63, 0.5, -0.5, 1e308, 1e-320, math.nan, math.inf, -math.inf),
    *("", "x", "ok", "../../x", "=1+1", "\x1b[2J", "\ud800", "0" * 24, "a" * 20_000),
    *([], {}, [[]], {"a": {}}, [1, 2], {"n_test": 4}, {"test_err": 0.0}),
]
number = st.integers(0, 10**6)


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """By schema and form: a board, and its results."""
    folder = tmp_path_factory.mktemp("boards")
    made = make_board(folder / "3-live")
    shutil.copytree(made, folder / "1-live")
    as_schema_1(folder / "1-live")
    found = {}
    for schema in (1, 3):
        live, packed = folder / f"{schema}-live", folder / f"{schema}-packed"
        assert command("leaderboard", live)[0] == 0
        shutil.copytree(live, packed)
        assert command("pack", packed)[0] == 0
        found |= {(schema, "live"): (live, rows(live)), (schema, "packed"): (packed, rows(packed))}
    return found


def rows(board) -> pd.DataFrame:
    return pd.read_csv(board / "results.csv", keep_default_na=False, dtype=str).set_index("key")


# --- ways to damage a board: each takes the files, and numbers to choose with -----------------------------------------


def flip_a_bit(files, a, b):
    content = bytearray(files[a % len(files)].read_bytes())
    if content:
        content[b % len(content)] ^= 1 << (b % 8)
        files[a % len(files)].write_bytes(content)


def flip_a_bit_near_the_end(files, a, b):
    content = bytearray(files[a % len(files)].read_bytes())
    if content:
        content[-1 - b % min(len(content), 600)] ^= 1 << (a % 8)
        files[a % len(files)].write_bytes(content)


def cut(files, a, b):
    content = files[a % len(files)].read_bytes()
    files[a % len(files)].write_bytes(content[: b % (len(content) + 1)])


def empty(files, a, b):
    files[a % len(files)].write_bytes(b"")


def append(files, a, b):
    with files[a % len(files)].open("ab") as file:
        file.write(bytes([b % 256]) * (1 + b % 100))


def overwrite_four_bytes(files, a, b):
    content = bytearray(files[a % len(files)].read_bytes())
    at = b % max(1, len(content) - 4)
    content[at : at + 4] = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"PK\x05\x06", b"PK\x01\x02")[a % 4]
    files[a % len(files)].write_bytes(content)


def swap(files, a, b):
    first, second = files[a % len(files)], files[b % len(files)]
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


def delete(files, a, b):
    files[a % len(files)].unlink()


def link_to_another(files, a, b):
    first, second = files[a % len(files)], files[b % len(files)]
    if first != second:
        first.unlink()
        first.symlink_to(second.resolve())


def link_outside(files, a, b):
    files[a % len(files)].unlink()
    files[a % len(files)].symlink_to(("/etc/passwd", "/dev/zero", "/nowhere", "..")[b % 4])


def make_directory(files, a, b):
    files[a % len(files)].unlink()
    files[a % len(files)].mkdir()


def make_pipe(files, a, b):
    files[a % len(files)].unlink()
    os.mkfifo(files[a % len(files)])


def nest_deeply(files, a, b):
    files[a % len(files)].write_text("[" * 100_000 if b % 2 else '{"a":' * 100_000)


def enlarge(files, a, b):
    with files[a % len(files)].open("r+b") as file:
        file.truncate(1 << 40)  # a sparse file of 1 TiB


def copy_under_another_name(files, a, b):
    source = files[a % len(files)]
    source.with_name(f"{b % 16**6:024x}{source.suffix}").write_bytes(source.read_bytes())


def change_a_value(files, a, b):
    _change(files, a, b, remove=False)


def remove_a_value(files, a, b):
    _change(files, a, b, remove=True)


def _change(files, a, b, remove):
    texts = [file for file in files if file.name.endswith((".json", ".jsonl.gz"))]
    if not texts:
        return
    path = texts[a % len(texts)]
    is_pack = path.suffix == ".gz"
    try:
        content = lines_of(path) if is_pack else json.loads(path.read_bytes())
    except (ValueError, RecursionError, EOFError, OSError, zlib.error):
        return
    places = list(_places(content))
    if not places:
        return
    parent, name = places[b % len(places)]
    if remove:
        del parent[name]
    else:
        parent[name] = STRANGE[(a + b) % len(STRANGE)]
    if is_pack:
        write_lines(path, content, sealed=b % 3 > 0)
    else:
        path.write_text(json.dumps(content))


def _places(value):
    """Every entry of every object and list inside."""
    if isinstance(value, (dict, list)):
        for name in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, name
            yield from _places(value[name])


WAYS = [
    *(flip_a_bit, flip_a_bit_near_the_end, cut, empty, append, overwrite_four_bytes, swap, delete, link_to_another),
    *(link_outside, make_directory, make_pipe, nest_deeply, enlarge, copy_under_another_name, remove_a_value),
    *(change_a_value, change_a_value, change_a_value, change_a_value),
]
damage = st.lists(st.tuples(st.sampled_from(WAYS), number, number), min_size=1, max_size=3)


def plain_files(board):
    found = [board / "plan.json", *sorted((board / "records").iterdir())]
    return [path for path in found if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 30]


@settings(
    max_examples=MUTANTS,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take longer than reading three changes
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(damage, st.sampled_from([1, 3, 3]), st.sampled_from(["live", "packed"]))
def test_a_damaged_board_ends_in_words_and_shows_no_number_without_a_record(
    boards, tmp_path_factory, damage, schema, form
):
    original, before = boards[schema, form]
    mutant = tmp_path_factory.mktemp("mutant") / "board"
    shutil.copytree(original, mutant)
    try:
        for way, a, b in damage:
            if files := plain_files(mutant):
                way(files, a, b)
        for arguments in (
            ("leaderboard", mutant),
            ("compare", original, mutant, "--force"),
            ("report", mutant, "--out", mutant.parent / "report.html"),
        ):
            code, printed = command(*arguments)
            assert is_calm(code, printed), f"{arguments[0]} ended with {code}: {printed[-2000:]}"
        assert_supported(rows(mutant), before, schema)
    finally:
        shutil.rmtree(mutant.parent)


def assert_supported(after: pd.DataFrame, before: pd.DataFrame, schema: int) -> None:
    assert after.index.is_unique
    shown = after[(after[ERRORS] != "").any(axis=1)]
    assert set(shown["status"]) <= {"ok"}
    columns = [*ERRORS, *IN_KEY] if schema == 1 else list(before.columns)
    for key, row in shown.iterrows():
        for column in columns:
            found = row.get(column, "")  # a column that would be empty is not written
            absent = schema == 1 and column in ERRORS and found == ""  # a missing number is no wrong one
            assert absent or same(found, before.loc[key, column]), (key, column, found)


def same(a: str, b: str) -> bool:
    """The same text, or the same number: 21 is 21.0 in a column that has a cell without one."""
    try:
        return a == b or float(a) == float(b)
    except ValueError:
        return False
