"""The index of a folder of boards: every cell once, under an address that does not change."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from factories.boards import page_record, page_trial, usual_board, write_board

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards import trust
from pdebench_hss.boards.claims import result_of
from pdebench_hss.boards.findings import CONFIRMED
from pdebench_hss.boards.index import boards_below, rewrite_tables, write_index
from pdebench_hss.boards.reading import read_board
from pdebench_hss.boards.table_checks import check_tables
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.store import Store

ROOT = Path(__file__).parents[2]


def index(folder) -> dict:
    return json.loads(write_index(folder)[0].read_text())


def test_every_cell_of_every_board_is_there_as_on_its_leaderboard(tmp_path):
    boards = [usual_board(tmp_path / name) for name in ("b", "a")]
    write_board(tmp_path / "latest", [page_record(page_trial(), 0.1)])  # what somebody happens to have run
    found = index(tmp_path)
    assert found["schema"] == 1
    assert [board["path"] for board in found["boards"]] == ["a", "b"]
    table = read_board(boards[1]).summary
    mine = [cell for cell in found["cells"] if cell["board"] == 0]
    assert [(c["task"], c["model"], c["status"]) for c in mine] == list(
        zip(table["task"], table["model"], table["status"], strict=True)
    )
    for cell, error in zip(mine, table["test_err_mean"], strict=True):
        assert cell["error"] == (None if error != error else error)
        assert len(cell["keys"]) == cell["expected"]
        assert cell["trust"] == ("self-reported" if cell["seeds"] else None)
    addresses = [cell["id"] for cell in found["cells"]]
    assert len(set(addresses)) == len(addresses)


def test_the_same_boards_give_the_same_bytes_and_a_new_result_the_same_address(tmp_path):
    board = write_board(tmp_path / "a", [page_record(page_trial(), 0.1)])
    first = write_index(tmp_path)[0].read_bytes()
    assert write_index(tmp_path)[0].read_bytes() == first
    before = json.loads(first)["cells"][0]
    newer = page_trial(model_version="2")
    Store(board).add_to_plan([newer])
    Store(board).put(page_record(newer, 0.05))
    (after,) = index(tmp_path)["cells"]
    assert (after["id"], after["address"]) == (before["id"], before["address"])
    assert (before["error"], after["error"]) == (0.1, 0.05)
    assert before["keys"] != after["keys"]


def test_levels_of_trust_and_boards_in_folders_are_in_it(tmp_path):
    record = page_record(page_trial(), 0.1)
    board = write_board(tmp_path / "more" / "a", [record, page_record(page_trial(seed=1), 0.2)])
    result = result_of(record, record.samples["error_test_err"])
    trust.write_checks(board, [trust.Check(record.key, result, "re-run", "equal to the bit", "m", 1.7e9, "1")])
    found = index(tmp_path)
    assert found["boards"] == [
        {
            **{"path": "more/a", "page": "boards/more/a/", "rows": 1, "trials": 2},
            **{"trust": {"re-run": 1, "self-reported": 1}, "submission": None},
        }
    ]
    (cell,) = found["cells"]
    assert [cell[name] for name in trust.COLUMNS] == ["re-run 1, self-reported 1", "m", "2023-11-14"]


def test_every_field_is_described_in_the_documents(tmp_path):
    usual_board(tmp_path / "a")
    found = index(tmp_path)
    rows = [line.split("|")[1] for line in (ROOT / "docs" / "submit.md").read_text().splitlines() if line[:1] == "|"]
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {name for part in ("boards", "cells") for entry in found[part] for name in entry} <= described
    assert f'`"schema": {found["schema"]}`' in (ROOT / "docs" / "submit.md").read_text()


def test_a_folder_without_boards_is_refused_and_links_are_not_followed(tmp_path):
    (tmp_path / "leaderboards").mkdir()
    with pytest.raises(UsageError, match="holds no boards"):
        write_index(tmp_path / "leaderboards")
    write_board(tmp_path / "elsewhere", [page_record(page_trial(), 0.1)])
    (tmp_path / "leaderboards" / "a").symlink_to(tmp_path / "elsewhere")
    assert boards_below(tmp_path / "leaderboards") == []


def test_the_committed_index_is_that_of_the_committed_boards(tmp_path):
    """Whoever adds a board writes it again."""
    made = write_index(ROOT / "leaderboards", tmp_path / "index.json")[0]
    wrong = "leaderboards/index.json is not what its boards give: run `make index` and commit it"
    assert (ROOT / "leaderboards" / "index.json").read_bytes() == made.read_bytes(), wrong
    addresses = [cell["address"] for cell in json.loads(made.read_bytes())["cells"]]
    assert len(set(addresses)) == len(addresses)  # no two cells of a site share one


def test_tables_that_are_there_can_be_made_anew(tmp_path):
    board = usual_board(tmp_path / "boards" / "a")
    (board / "results.csv").write_text("of another version\n")
    assert rewrite_tables(tmp_path / "boards", load_registry()) == [board / "results.csv"]
    assert (board / "results.csv").read_text().startswith("key,")
    assert not (board / "leaderboard.md").exists()
    assert rewrite_tables(tmp_path / "boards", load_registry()) == []


@pytest.mark.parametrize("board", boards_below(ROOT / "leaderboards"), ids=lambda path: path.name)
def test_committed_tables_are_those_of_the_committed_records(board):
    """To the byte: what somebody reads there is what today's code makes of the records. Not all need be there."""
    wrong = [f for f in check_tables(Store(board), load_registry()) if f.verdict != CONFIRMED]
    advice = "run `make index` and commit what it wrote"
    assert {f.detail for f in wrong} <= {"it is not there"}, advice
