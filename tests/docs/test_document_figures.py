"""A figure that stands in a document and in a CSV file is the file's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from document_figures import complaint, figures, unnamed

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BOARD = "task,model,test_err_mean,fit_seconds\nheat,fno,0.10849,11.25\nheat,linear,3.4e-15,0.1\n"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_figures_of_documents_are_those_of_the_files_they_name(path):
    wrong = [text for figure in figures(path.read_text(encoding="utf-8"), ROOT) if (text := complaint(figure, ROOT))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_text_that_quotes_a_board_names_its_figures(path):
    assert not unnamed(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_no_document_says_one_seed_so_far_of_a_board_that_has_more(path):
    said = re.search(r"\bone\s+(?:seed\s+)?so\s+far\b", path.read_text(encoding="utf-8"))
    seeds = pd.read_csv(ROOT / "leaderboards" / "small-cpu" / "leaderboard.csv")["n_expected"].max()
    assert not said or seeds == 1, f"{path.name} says {said[0]!r}, and leaderboards/small-cpu has {seeds} seeds"


def test_enough_figures_are_checked():
    assert sum(len(list(figures(path.read_text(encoding="utf-8"), ROOT))) for path in DOCUMENTS) > 150


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FNO has 0.11.\n\n<!-- figures b\n0.11 = heat fno\n-->\n", None),
        ("FNO has 0.108.\n\n<!-- figures b\n0.108 = heat fno\n-->\n", None),
        ("It took 11 s.\n<!-- figures b\n11 = heat fno fit_seconds\n-->\n", None),
        ("Linear: 3.4e-15.\n<!-- figures b\n3.4e-15 = heat linear\n-->\n", None),
        ("From a file: 11.2 s.\n<!-- figures b/leaderboard.csv\n11.2 = model=fno fit_seconds\n-->\n", None),
        ("FNO has 0.12.\n\n<!-- figures b\n0.12 = heat fno\n-->\n", "the document has 0.12, b has 0.10849"),
        ("FNO has 0.1.\n\n<!-- figures b\n0.11 = heat fno\n-->\n", "does not stand in the text"),
        ("FNO has 0.114.\n\n<!-- figures b\n0.11 = heat fno\n-->\n", "does not stand in the text"),
        ("ResNet: 0.1.\n\n<!-- figures b\n0.1 = heat resnet\n-->\n", "0 rows have"),
    ],
)
def test_a_wrong_figure_is_noticed(tmp_path, text, expected):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "leaderboard.csv").write_text(BOARD)
    (found,) = [complaint(figure, tmp_path) for figure in figures(text, tmp_path)]
    assert (found is None) if expected is None else expected in found


def test_every_cell_of_a_named_table_is_compared(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "leaderboard.csv").write_text(BOARD)
    table = (
        "| task | numbers | fno | linear |\n|---|---|---|---|\n| heat | paper | 0.5 | – |\n| | ours | 0.11 | 3e-15 |\n"
    )
    named = [complaint(figure, tmp_path) for figure in figures(f"{table}<!-- table b rows=ours -->\n", tmp_path)]
    assert named == [None, None]
    everything = [complaint(figure, tmp_path) for figure in figures(f"{table}<!-- table b -->\n", tmp_path)]
    assert [text for text in everything if text] == ["heat fno: the document has 0.5, b has 0.10849"]
    swapped = figures(f"{table}<!-- table b rows=ours columns=fno:3 -->\n", tmp_path)
    assert "the document has 3e-15" in str(complaint(*swapped, tmp_path))


def test_quoting_a_board_without_naming_figures_is_noticed():
    assert unnamed("See [it](../leaderboards/small-cpu): 0.3 and 0.4.\n\nMore.")
    assert not unnamed("See [it](../leaderboards/small-cpu): 0.3.\n<!-- figures b\n0.3 = heat fno\n-->\n")
    assert not unnamed("See [it](../leaderboards/small-cpu), three seeds.\n")


def test_tables_made_of_benchmarks_are_what_their_files_give():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "kernel_tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
