"""Rows of a board by the names of tasks and models, as people type them."""

from __future__ import annotations

import pandas as pd
import pytest

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.chosen_rows import choose_rows

BOARD = pd.DataFrame(
    [
        {"task": task, "model": model, "rank": rank}
        for task in ("heat", "poisson_1d", "poisson_2d[beta=1]")
        for rank, model in enumerate(("net", "net[width=4]", "other[depth=2]", "other[depth=3]"), start=1)
    ]
)


def chosen(tasks: str = "", models: str = "") -> list[tuple[str, int]]:
    rows = choose_rows(BOARD, tasks, models)
    return list(zip(rows["task"], rows["rank"]))


def test_names_select_their_label_and_only_without_one_their_variants():
    assert chosen("heat", "net") == [("heat", 1)]
    assert chosen("heat", "net[width=4]") == [("heat", 2)]
    assert chosen("heat", "other") == [("heat", 3), ("heat", 4)]
    assert chosen("poisson_2d", "net") == [("poisson_2d[beta=1]", 1)]


def test_globs_match_labels_and_brackets_are_plain_characters():
    assert chosen("poisson_*", "net") == [("poisson_1d", 1), ("poisson_2d[beta=1]", 1)]
    assert chosen("heat", "other[depth=?]") == [("heat", 3), ("heat", 4)]


def test_tasks_come_in_the_order_of_their_names_and_ranks_stay():
    assert chosen("poisson_1d,heat", "other[depth=3]") == [("poisson_1d", 4), ("heat", 4)]
    assert len(chosen()) == len(chosen("all", "all")) == len(BOARD)


def test_what_is_not_on_the_board_is_refused_with_a_hint():
    with pytest.raises(UsageError, match=r"no task 'heet' on the board\. Did you mean 'heat'"):
        choose_rows(BOARD, "heet")
    with pytest.raises(UsageError, match="no model 'fno' on the board"):
        choose_rows(BOARD, models="fno")
