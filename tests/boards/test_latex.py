"""Tables for papers: what they print, and that a real LaTeX compiles them, whatever names and reasons are in them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pdebench_hss.boards.chosen_rows import choose_rows
from pdebench_hss.boards.comparison import compare
from pdebench_hss.boards.latex_comparison import comparison_latex
from pdebench_hss.boards.latex_layout import columns_of_a_block
from pdebench_hss.boards.latex_leaderboard import decimals_of, leaderboard_latex, number_text, with_formulas
from pdebench_hss.boards.reading import read_board
from pdebench_hss.boards.reference_tables import filled, to_latex
from pdebench_hss.contract.registry import load_registry

ROOT = Path(__file__).parents[2]
REGISTRY = load_registry()
TITLES, METRICS = REGISTRY.titles(), REGISTRY.metric_specs()
ADVICE = "tables are compiled by a real LaTeX: apt-get install texlive-latex-recommended"


@pytest.fixture(scope="module")
def small():
    """A committed board, from its tables."""
    return read_board(ROOT / "leaderboards" / "first" / "small-cpu" / "results.csv")


# ---------------------------------------------------------------- digits


@pytest.mark.parametrize(
    ("mean", "std", "decimals", "text"),
    [
        (0.21134, 0.0042, 3, r"0.211 \pm 0.004"),
        (0.21134, 1e-7, 4, r"0.2113 \pm {<}0.0001"),
        (0.21134, 0.0, 3, "0.211"),
        (0.21134, np.nan, 3, "0.211"),
        (3.1e-8, 2e-9, 3, r"(3.10 \pm 0.20) \times 10^{-8}"),
        (9.999e-5, 1e-9, 3, r"(1.00 \pm {<}0.01) \times 10^{-4}"),
        (4.5e11, 7.8e11, 3, r"(4.50 \pm 7.80) \times 10^{11}"),
        (5.76e-15, np.nan, 3, r"5.76 \times 10^{-15}"),
        (-0.35, 0.02, 2, r"-0.35 \pm 0.02"),
        (0.0, np.nan, 3, "0.000"),
    ],
)
def test_mean_and_deviation_share_their_digits(mean, std, decimals, text):
    assert number_text(mean, std, decimals) == text


def test_a_column_has_as_many_decimals_as_its_smallest_deviation_needs():
    assert decimals_of([0.2, 0.5], [0.004, 0.1]) == 3
    assert decimals_of([0.2, 3e-9], [0.1, 1e-12]) == 2  # what has a power of ten has digits of its own
    assert decimals_of([0.2], [1e-9]) == 4
    assert decimals_of([0.2], [np.nan]) == 3


def test_wide_tables_are_laid_out_in_blocks_of_equal_width():
    assert [columns_of_a_block(n, 12) for n in (1, 3, 4, 5, 8, 15, 21)] == [1, 3, 4, 3, 4, 5, 7]


# ---------------------------------------------------------------- what is printed


def lines_of(text: str) -> dict[str, list[str]]:
    """The cells of each row, by its name."""
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.endswith(r"\\")]
    return {name: cells for name, *cells in rows}


def test_the_table_has_the_boards_numbers_marks_and_baselines(small):
    whole = small.summary
    board = choose_rows(whole, "poisson_2d,heat_1d", "neural_hss,fno,linear")
    text = leaderboard_latex(board, TITLES, METRICS, ["neural_hss", "fno", "linear"], whole)
    rows = lines_of(text)
    for task, place in (("poisson_2d", 0), ("heat_1d", 1)):
        mine = board[board["task"] == task].set_index("model")
        best, second = mine["test_err_mean"].sort_values().index[:2]
        titles = {model: TITLES[model] for model in mine.index}
        assert rows[titles[best]][place].startswith(r"$\mathbf{")
        assert rows[titles[second]][place].startswith(r"\underline{")
    fno = board[(board["model"] == "fno") & (board["task"] == "poisson_2d")].iloc[0]
    assert f"{fno['test_err_mean']:.3f} \\pm {fno['test_err_std']:.3f}" in rows["FNO"][0]
    assert list(rows)[-1] == "Linear"
    assert text.splitlines()[
        text.splitlines().index(next(x for x in text.splitlines() if x.startswith("Linear"))) - 1
    ] == (r"\midrule")


def test_the_caption_says_metric_unit_seeds_budget_and_what_is_not_shown(small):
    whole = small.summary
    text = leaderboard_latex(choose_rows(whole, "poisson_2d", "fno,resnet"), TITLES, METRICS, (), whole)
    caption = next(line for line in text.splitlines() if line.startswith(r"\caption"))
    first = whole[whole["task"] == "poisson_2d"].iloc[0]
    for words in (
        *("Relative L2", "no unit", r"mean $\pm$ standard deviation over 3 seeds", "Scale small"),
        *(f"{first['budget'].partition('=')[2]} steps", f"{first['n_train']} training samples"),
        *("Not shown: ", "Linear", "better than all shown on 1 of 1 tasks"),
    ):
        assert words in caption


def test_reasons_and_lost_seeds_are_said(small):
    board = choose_rows(small.summary, "heat_1d", "fno,green_learning,resnet").copy()
    board.loc[board["model"] == "resnet", ["status", "reason", "n_seeds", "rank"]] = [
        "diverged",
        "loss is nan",
        2,
        None,
    ]
    board.loc[board["model"] == "fno", ["status", "reason", "n_seeds", "rank", "test_err_mean"]] = [
        *("failed", "50 % of {it}", 0, None, np.nan),
    ]
    text = leaderboard_latex(board, TITLES, METRICS)
    assert lines_of(text)["ResNet"][0].endswith(r"$^\dagger$")
    assert "ResNet on heat\\_1d 2 of 3" in text
    assert lines_of(text)["FNO"] == ["--$^{1}$"]
    assert r"$^{1}$~50 \% of \{it\}." in text


def test_a_reason_is_said_once_and_empty_cells_have_its_number(small):
    board = choose_rows(small.summary, "heat_1d,poisson_1d,burgers_1d", "factformer,green_learning")
    text = leaderboard_latex(board, TITLES, METRICS)
    assert lines_of(text)["FactFormer"] == ["--$^{1}$"] * 3
    assert lines_of(text)["Green Learning"][2] == "--$^{2}$"
    assert "$^{1}$~2D only. $^{2}$~needs a linear PDE." in text


def test_norms_powers_and_powers_of_ten_are_formulas_and_other_signs_are_text():
    assert with_formulas("a_b: ||p - t|| / ||t||; |x|") == (r"a\_b: $\|p - t\|$ / $\|t\|$; \textbar{}x\textbar{}")
    assert with_formulas("mean (p - t)^2 / (var t + 1e-7) ^") == (
        r"mean (p - t)$^{2}$ / (var t + $10^{-7}$) \textasciicircum{}"
    )


def other_board(small):
    """The same board with one model better and one cell gone."""
    results = small.results.copy()
    results.loc[results["model"] == "fno", "test_err"] *= 0.2
    results = results[~((results["model"] == "mean") & (results["task"] == "heat_1d"))]
    return read_board(results, "new_board")


def test_a_comparison_marks_what_is_real_and_counts_the_rest(small):
    found = compare([small, other_board(small)])
    found = replace(found, table=choose_rows(found.table, "heat_1d,poisson_2d", "fno,resnet,mean"))
    text = comparison_latex(found, TITLES)
    rows = lines_of(text)
    assert rows["FNO"][0].startswith(r"$\mathbf{-80.0}$ \footnotesize $[")
    assert "ResNet" not in rows
    assert "Identical wherever there is something to compare: ResNet." in text
    assert rows["Mean"][0] == "only in the first"
    assert "Of 6 cells: 2 better, 3 identical, 1 only in the first." in text


# ---------------------------------------------------------------- LaTeX itself


def test_a_real_latex_compiles_every_kind_of_table(small, tmp_path):
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip(ADVICE)
    whole = small.summary
    strange = choose_rows(whole, "heat_1d", "fno,green_learning").copy()
    strange["model"] = ["net[a=$\\frac{]", "中 β ~ # % & _ ^ {}"]
    strange.loc[0, ["status", "reason", "n_seeds", "rank", "test_err_mean"]] = [
        "failed",
        "\\end{table} é ≤ |<>|",
        0,
        None,
        np.nan,
    ]
    some = choose_rows(whole, "heat_1d,poisson_*", "neural_hss,fno,resnet,linear")
    printed = REGISTRY.reference_tables()[0]
    tables = {
        "some": leaderboard_latex(some, TITLES, METRICS, ["resnet", "fno", "neural_hss", "linear"], whole),
        "all": leaderboard_latex(whole, TITLES, METRICS),
        "strange": leaderboard_latex(strange, TITLES, METRICS),
        "comparison": comparison_latex(compare([small, other_board(small)]), TITLES),
        "printed": to_latex(printed, filled(printed, whole), whole),
    }
    for name, text in tables.items():
        (tmp_path / f"{name}.tex").write_text(text)
    inputs = "\n".join(rf"\input{{{name}}}\clearpage" for name in tables)
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs}\n\\usepackage{graphicx}\n"
        f"\\begin{{document}}\n{inputs}\n\\end{{document}}\n"
    )
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "paper.log").read_text(errors="replace")
    assert f"Output written on paper.pdf ({len(tables)} pages" in log  # each fits a page
    assert "Overfull" not in log
    assert "Float too large" not in log
