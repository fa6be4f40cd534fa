"""Printed tables beside ours: their rows, their columns, their numbers, and nothing invented where ours are missing."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pdebench_hss_studies
import pytest
from factories.records import make_record
from hypothesis import given
from hypothesis import strategies as st
from pdebench_hss_studies.published import published_tables

from pdebench_hss.boards import reference_tables
from pdebench_hss.boards.frames import leaderboard, results
from pdebench_hss.boards.reference_tables import filled, short_style, to_latex, to_markdown

TABLES = {table.name: table for table in published_tables()}
METRICS = {row.task: row.metric for table in TABLES.values() for row in table.rows}
ROWS = {
    "table_1d": ["Heat Eq.", "Poisson Neumann BC", "Burgers' Eq."],
    "table_2d": [
        *("Poisson Eq.", "Poisson Eq. (Mixed BC)", "Poisson Eq. (L-shape domain)", "Helmholtz equation"),
        *("Gray--Scott Eq. (Forward)", "Gray--Scott Eq. (Inverse)", "NS Eq. (Forward)", "NS Eq. (Inverse)"),
    ],
}
MODELS = {
    "table_1d": ["neural_hss", "fno", "resnet", "deeponet", "green_learning"],
    "table_2d": ["neural_hss", "fno", "resnet", "deeponet", "green_learning", "factformer"],
}


def board_of(*cells: tuple, **changes):
    """(task, model, error) -> a leaderboard."""
    records = []
    for task, model, error in cells:
        metric = METRICS[task]
        status = "ok" if error is not None else "skipped"
        reason = "" if error is not None else "needs a linear PDE"
        where = {"task": task, "task_label": task, "data_id": task, "metric": metric, **changes}
        records.append(make_record(model, error, status=status, reason=reason, **where))
    return leaderboard(results(records))


def table_of(*cells: tuple, name: str = "table_1d"):
    return filled(TABLES[name], board_of(*cells))


@pytest.mark.parametrize("name", ["table_1d", "table_2d"])
def test_rows_and_columns_are_the_papers_in_its_order(name):
    table = table_of(("heat_1d", "fno", 0.1), name=name)
    assert list(table["equation"]) == ROWS[name]
    shown = [
        column.removesuffix("_test_err")
        for column in table.columns
        if re.fullmatch(r"[a-z_]*(?<!paper)_test_err", column)
    ]
    assert shown == MODELS[name]


def test_every_published_number_is_in_its_cell():
    path = Path(pdebench_hss_studies.__file__).parent / "published.csv"
    tables = {name: table_of(("heat_1d", "fno", 0.1), name=name).set_index("task") for name in TABLES}
    count = 0
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found = tables[row["table"]].loc[row["task"], f"{row['model']}_paper_test_err"]
            assert math.isnan(found) if row["test_err"] == "" else found == float(row["test_err"])
            count += 1
    assert count == 15 + 48


def test_published_parameter_counts_are_numbers():
    table = table_of(("heat_1d", "fno", 0.1)).set_index("task")
    assert table.loc["heat_1d", "neural_hss_paper_params"] == 45_000
    assert table.loc["burgers_1d", "resnet_paper_params"] == 1_700_000


def test_ours_stand_beside_the_papers_with_their_ratio_in_full_precision():
    error = 0.0123456789012345
    row = table_of(("heat_1d", "fno", error)).set_index("task").loc["heat_1d"]
    assert (row["fno_test_err"], row["fno_params"]) == (error, 200)
    assert row["fno_ratio"] == pytest.approx(error / 8e-3, rel=1e-15)
    assert (row["scale"], row["budget"], row["n_train"]) == ("smoke", "steps=4", 8)


def test_an_error_in_another_metric_has_no_ratio():
    row = (
        filled(TABLES["table_1d"], board_of(("heat_1d", "fno", 0.1), metric="relative_l2"))
        .set_index("task")
        .loc["heat_1d"]
    )
    assert row["fno_test_err"] == 0.1
    assert math.isnan(row["fno_ratio"])


def test_what_was_not_run_or_skipped_is_missing_and_said_to_be():
    board = board_of(("heat_1d", "fno", 0.1), ("burgers_1d", "fno", 0.3), ("burgers_1d", "green_learning", None))
    table = filled(TABLES["table_1d"], board)
    row = table.set_index("task").loc["burgers_1d"]
    assert math.isnan(row["green_learning_test_err"])
    text = to_markdown(TABLES["table_1d"], table, board)
    assert "Not run: poisson_1d_neumann." in text
    assert "burgers_1d, green_learning: skipped (needs a linear PDE)." in text
    assert "heat_1d: scale smoke · steps=4 · 8 training samples" in text
    assert "Ours at scale smoke" in text


def test_a_model_with_a_failed_seed_is_missing_not_averaged():
    where = {"task": "heat_1d", "task_label": "heat_1d", "metric": "trajectory_l2"}
    records = [make_record("fno", 0.1, **where), make_record("fno", seed=1, status="failed", reason="no", **where)]
    board = leaderboard(results(records))
    table = filled(TABLES["table_1d"], board)
    assert math.isnan(table.set_index("task").loc["heat_1d", "fno_test_err"])
    assert "heat_1d, fno: failed (no)." in to_markdown(TABLES["table_1d"], table, board)


def test_a_task_run_in_two_ways_has_a_block_for_each():
    records = [
        make_record("fno", error, task="heat_1d", task_label="heat_1d", metric="trajectory_l2", budget=budget)
        for error, budget in ((0.1, "steps=4"), (0.2, "seconds=1"))
    ]
    table = filled(TABLES["table_1d"], leaderboard(results(records)))
    assert list(table["task"]) == ["heat_1d", "heat_1d", "poisson_1d_neumann", "burgers_1d"]
    assert list(table["fno_test_err"])[:2] == [0.1, 0.2]


CELLS = [
    ("heat_1d", "neural_hss", 0.002),
    ("heat_1d", "fno", 0.00101),
    ("heat_1d", "resnet", 0.001),
    ("heat_1d", "deeponet", 0.5),
]


def test_best_is_bold_and_second_underlined_by_the_full_numbers():
    board = board_of(*CELLS)
    text = to_markdown(TABLES["table_1d"], filled(TABLES["table_1d"], board), board)
    (line,) = [line for line in text.splitlines() if line.startswith("| Heat Eq.")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "Heat Eq.",
        "ours",
        "200",
        "2e-3",
        "200",
        "<ins>1e-3</ins>",
        "200",
        "**1e-3**",
        "200",
        "0.5",
        "–",
        "–",
    ]


def test_latex_has_the_papers_form():
    board = board_of(*CELLS)
    text = to_latex(TABLES["table_1d"], filled(TABLES["table_1d"], board), board)
    ours = next(line for line in text.splitlines() if line.startswith("Heat Eq."))
    assert ours == (
        r"Heat Eq. & ours & 200 & $2 \times 10^{-3}$ & 200 & \underline{$1 \times 10^{-3}$} & "
        r"200 & $\mathbf{1 \times 10^{-3}}$ & 200 & $0.5$ & -- & -- \\"
    )
    for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule(lr){11-12}", r"\multicolumn{2}{c}{Neural-HSS}"):
        assert word in text


@pytest.mark.parametrize("name", ["table_1d", "table_2d"])
def test_latex_is_balanced_and_every_line_has_all_columns(name):
    task = TABLES[name].rows[0].task
    board = board_of((task, "fno", 1e-5), (task, "green_learning", None))
    text = to_latex(TABLES[name], filled(TABLES[name], board), board)
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin{") == text.count(r"\end{")
    columns = 2 + 2 * len(MODELS[name])
    lines = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(lines) == 1 + 3 * len(ROWS[name])
    assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {columns}
    assert not re.search(r"(?<!\\)[_%#]", re.sub(r"\\label\{.*|%$|^%.*", "", text, flags=re.MULTILINE))


def test_a_reason_full_of_symbols_does_not_break_latex():
    where = {"task": "heat_1d", "task_label": "heat_1d", "metric": "trajectory_l2"}
    board = leaderboard(results([make_record("fno", status="failed", reason=r"{a_b} 50% \x ^ ~ $1", **where)]))
    text = to_latex(TABLES["table_1d"], filled(TABLES["table_1d"], board), board)
    assert r"\{a\_b\} 50\% \textbackslash{}x \textasciicircum{} \textasciitilde{} \$1" in text


@given(st.floats(1e-12, 1e6))
def test_errors_are_printed_as_the_paper_prints_them(value):
    digits, power = short_style(value)
    assert float(digits) * 10.0**power == pytest.approx(value, rel=0.5 if power else 0.005)
    if power:
        assert len(digits) == 1


def test_examples_of_the_style():
    style = reference_tables._plain
    assert [style(v) for v in (3e-3, 7e-8, 0.294, 0.12, 1.0, 0.0, math.nan)] == [
        "3e-3",
        "7e-8",
        "0.294",
        "0.12",
        "1",
        "0",
        "–",
    ]
