"""Help and tables fit a terminal of 80 columns, and help knows every option."""

from __future__ import annotations

import typer

from pdebench_hss.cli.app import app
from pdebench_hss.cli.fitted_table import fitted_table

WIDTH = 80


def pages(command, context, words=()):
    """The words of every command, and its help."""
    yield " ".join(words), command.get_help(context)
    for name, child in getattr(command, "commands", {}).items():
        below = child.context_class(child, info_name=name, parent=context, terminal_width=WIDTH)
        yield from pages(child, below, (*words, name))


def helps() -> dict[str, str]:
    root = typer.main.get_command(app)
    return dict(pages(root, root.context_class(root, info_name="pdebench-hss", terminal_width=WIDTH)))


def test_no_help_is_wider_than_the_terminal():
    found = helps()
    assert {"run", "data add", "list models"} <= set(found)
    too_wide = [(words, line) for words, text in found.items() for line in text.splitlines() if len(line) > WIDTH]
    assert not too_wide


def test_the_list_of_commands_is_a_line_each_and_not_cut_off():
    text = helps()[""]
    assert "..." not in text.partition("Commands:")[2]
    assert "--debug" in text


HEADERS = ["task", "title", "scales", "from"]
ROWS = [["heat_1d", "Heat Eq.", "smoke:32 small:128", "home 1.0"], ["wave_2d", "Wave Eq.", "smoke:16x16", "home 1.0"]]


def test_a_table_with_room_is_whole():
    lines = fitted_table(HEADERS, ROWS, width=80).splitlines()
    assert lines[0].split() == HEADERS
    assert len(lines) == 4


def test_what_every_row_says_is_said_once_where_room_is_short():
    lines = fitted_table(HEADERS, ROWS, width=44).splitlines()
    assert lines[0].split() == HEADERS[:3]
    assert lines[-1] == "in every row: from home 1.0"


def test_remarks_are_said_below_where_room_is_short():
    rows = [
        ["fno", "0.06", ""],
        ["linear", "–", "its weights belong to a grid"],
        ["mean", "–", "its weights belong to a grid"],
    ]
    assert fitted_table(["model", "error", ""], rows, rule=False, width=30).splitlines() == [
        "model   error",
        "fno     0.06",
        "linear  –",
        "mean    –",
        "linear, mean: its weights",
        "belong to a grid",
    ]


def test_optional_columns_go_before_cells_are_broken():
    text = fitted_table(HEADERS, ROWS, optional=["title", "scales"], width=30)
    assert text.splitlines()[0].split() == ["task", "title"]
    assert "scales" in text.splitlines()[-1]


def test_long_cells_are_broken_at_spaces_and_numbers_keep_their_percent():
    text = fitted_table(["model", "interval"], [["net", "[−0.1 %, +2.5 %]"], ["fno", ""]], width=17, rule=False)
    assert text.splitlines() == ["model  interval", "net    [−0.1 %,", "       +2.5 %]", "fno"]


def test_a_table_is_never_wider_than_its_room():
    rows = [[*"ab", "x" * 200, "many words of text " * 9], ["c", "d", "", "short"]]
    for width in range(30, 130, 7):
        assert max(map(len, fitted_table(HEADERS, rows, width=width).splitlines())) <= width
