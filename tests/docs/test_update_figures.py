"""Figures in documents are brought up to date in place, and what is ambiguous is left to people."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from document_figures import complaint, figures

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from update_figures import edits_of, like

BOARD = """task,model,test_err_mean,fit_seconds,status
heat,fno,0.10849,11.25,ok
heat,linear,3.4e-15,0.1,ok
heat,deep,,,diverged
wave,fno,0.42,2,ok
wave,linear,,,missing
"""
PAGE = "| | rows |\n|---|---|\n| ahead of every guess | 41 of 50 (82 %) |\n"


@pytest.fixture
def updated(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "leaderboard.csv").write_text(BOARD)
    (tmp_path / "b" / "statistics.md").write_text(PAGE)

    def update(text: str) -> tuple[str, list[str]]:
        edits, by_hand = edits_of(text, tmp_path)
        for edit in sorted(edits, reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        if not by_hand:
            assert not [wrong for figure in figures(text, tmp_path) if (wrong := complaint(figure, tmp_path))]
        return text, by_hand

    return update


def test_a_figure_changes_in_the_text_and_in_its_comment_and_keeps_its_digits(updated):
    text, by_hand = updated(
        "It has 0.2 in 9 s.\n<!-- figures b\n0.2 = heat fno\n9 = heat fno fit_seconds\n-->\n\nEnd: 0.2."
    )
    assert text == "It has 0.1 in 11 s.\n<!-- figures b\n0.1 = heat fno\n11 = heat fno fit_seconds\n-->\n\nEnd: 0.2."
    assert by_hand == []


def test_what_is_right_stays_to_the_letter(updated):
    text = "It has 0.11 and 3e-15.\n<!-- figures b\n0.11 = heat fno\n3e-15 = heat linear\n-->\n"
    assert updated(text) == (text, [])


def test_figures_that_are_printed_alike_are_taken_in_their_order(updated):
    text, _ = updated("1. Heat 0.20, wave 0.20.\n<!-- figures b\n0.20 = heat fno\n0.20 = wave fno\n-->\n")
    assert text.startswith("1. Heat 0.11, wave 0.42.\n")


def test_the_number_of_a_list_item_is_no_figure(updated):
    before = "8. First.\n9. Of 9 trained rows.\n<!-- figures b/statistics.md\n9 = 'ahead of every guess' 1\n-->\n"
    text, _ = updated(before)
    assert text.startswith("8. First.\n9. Of 50 trained rows.\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "0.20, once more 0.20.\n<!-- figures b\n0.20 = heat fno\n-->\n",
            "0.20 (b heat fno): heat fno: the document has",
        ),
        ("It has 0.20.\n<!-- figures b\n0.20 = heat deep\n-->\n", "b has nan"),
        ("It has 0.20.\n<!-- figures b\n0.20 = heat other\n-->\n", "0 rows have"),
        ("It has 0.30.\n<!-- figures b\n0.20 = heat fno\n-->\n", "does not stand in the text"),
    ],
)
def test_what_can_not_be_told_is_left_as_it_is_and_said(updated, text, why):
    after, (line,) = updated(text)
    assert after == text
    assert why in line


def test_cells_of_a_table_say_how_a_row_ended(updated):
    head = "| task | numbers | fno | linear | deep |\n|---|---|---|---|---|\n"
    comment = "\n<!-- table b rows=ours -->\n"
    text, _ = updated(
        f"{head}| heat | paper | 0.5 | 0.6 | 0.7 |\n| | ours | **0.2** | not run | 7 |\n"
        f"| wave | ours | 0.42 | 0.1 | – |\n{comment}"
    )
    assert text == (
        f"{head}| heat | paper | 0.5 | 0.6 | 0.7 |\n| | ours | **0.11** | 3.4e-15 | diverged |\n"
        f"| wave | ours | 0.42 | not run | – |\n{comment}"
    )


@pytest.mark.parametrize(
    ("printed", "value", "text"),
    [
        ("0.14", 0.2049, "0.20"), ("0.14", 0.0149, "0.015"), ("0.14", 0.996, "1.0"), ("0.9", 1.23, "1"),
        ("4.6e-3", 0.00312, "3.1e-3"), ("4.6e-3", 0.0312, "0.031"), ("0.0063", 0.00158, "0.0016"),
        ("0.0063", 9.96e-5, "1.0e-4"), ("26", 134.4, "134"), ("1,200", 2345.6, "2,346"), ("3e-15", 0.0, "0"),
        ("43", 6.04, "6.0"), ("1.7e-3", 0.00996, "1.0e-2"),
    ],
)  # fmt: skip
def test_digits_are_kept(printed, value, text):
    assert like(printed, value) == text
