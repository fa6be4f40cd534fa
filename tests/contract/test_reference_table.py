"""A printed table says what it is, wrong ones say what is wrong, and two of one name are refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pdebench_hss import Printed, ReferenceRow, ReferenceTable
from pdebench_hss.base.errors import PluginError
from pdebench_hss.contract.reference_table import printed, printed_range, printed_titles
from pdebench_hss.contract.registry import load_registry

ROW = ReferenceRow("wave", "Wave Eq.", "relative_l2", {"net": Printed(0.25, "37K")})
PLUGIN = """
from pdebench_hss import Printed, ReferenceRow, ReferenceTable, hookimpl

@hookimpl
def pdebench_hss_references():
    row = ReferenceRow("toy", "Toy Eq.", "relative_l2", {{"mean": Printed(0.5, "12")}})
    return [ReferenceTable("{name}", "toys", "{source}", {{"mean": "{title}"}}, (row,))]
"""


def table(**changes) -> ReferenceTable:
    given = {"name": "t", "title": "waves", "source": "Doe 2031", "models": {"net": "Net"}, "rows": (ROW,)}
    return ReferenceTable(**{**given, **changes})


def plugin(folder: Path, name: str, file: str, source: str = "Doe 2031", title: str = "Average") -> Path:
    path = folder / f"{file}.py"
    path.write_text(PLUGIN.format(name=name, source=source, title=title))
    return path


@pytest.mark.parametrize(
    ("text", "count"), [("37K", 37_000), ("1.99M", 1_990_000), ("2B", 2_000_000_000), ("128", 128), ("", None)]
)
def test_a_count_is_read_as_it_is_printed(text, count):
    assert Printed(params=text).param_count == count


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Printed(math.nan), "finite number"),
        (lambda: Printed(-0.1), "finite number"),
        (lambda: Printed(params="many"), "not 'many'"),
        (lambda: table(name="Table 1"), "lower-case"),
        (lambda: table(name="leaderboard"), "a board has a file of this name"),
        (lambda: table(models={"other": "Other"}), "a cell of 'net'; its models are other"),
        (lambda: table(rows=(ROW, ROW)), "task 'wave' has 2 rows"),
    ],
)
def test_a_wrong_table_says_what_is_wrong(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


def test_of_several_tables_the_first_that_has_a_cell_says_it():
    cells = {"net": Printed(0.5), "other": Printed(2.0), "third": Printed()}
    second = table(models={"net": "N", "other": "O", "third": "T"}, rows=(ReferenceRow("wave", "", "", cells),))
    tables = [table(), second]
    assert printed(tables, "wave", "net") == Printed(0.25, "37K")
    assert printed(tables, "wave", "other") == Printed(2.0)
    assert printed(tables, "heat", "net") is None
    assert printed_range(tables, "wave") == (0.25, 2.0)
    assert printed_range(tables, "heat") is None
    assert printed_titles(tables) == {"net": "Net", "other": "O", "third": "T"}


def test_two_plugins_with_a_table_of_one_name_are_both_named(tmp_path):
    files = [plugin(tmp_path, "same", "first_lab"), plugin(tmp_path, "same", "second_lab")]
    with pytest.raises(PluginError, match=r"a reference table named 'same'.*first_lab.*second_lab"):
        load_registry(files)


def test_a_plugin_with_a_wrong_table_is_set_aside_and_the_others_stay(tmp_path):
    registry = load_registry([plugin(tmp_path, "results", "trouble"), plugin(tmp_path, "mine", "fine")])
    assert ["a board has a file of this name" in broken.reason for broken in registry.broken] == [True]
    assert list(registry.references) == ["table_1d", "table_2d", "mine"]


def test_models_of_printed_tables_come_first_among_the_titles_under_their_own_names(tmp_path):
    titles = load_registry([plugin(tmp_path, "mine", "fine")]).titles()
    first = ["neural_hss", "fno", "resnet", "deeponet", "green_learning", "factformer", "mean"]
    assert list(titles)[: len(first)] == first
    assert titles["mean"] == "Mean"  # it is installed, and knows better than a table


def test_tables_of_several_papers_stand_beside_ours_each_in_its_own_file(cli, toys, tmp_path):
    """Also on a board that was run before; text from strangers is text in every form."""
    given = ("--models", "mean", "--tasks", "toy", "--scale", "smoke", "--executor", "inline", "--out", "board")
    assert cli("run", "--plugin", toys, *given).code == 0
    board = tmp_path / "board"
    assert not (board / "one.csv").exists()
    files = [plugin(tmp_path, "one", "a"), plugin(tmp_path, "two", "b", "Roe <2032>", "Av_erage & |co")]
    done = cli("leaderboard", "board", *(word for file in files for word in ("--plugin", str(file))))
    assert done.code == 0, done.err
    for name in ("one", "two"):
        assert all((board / f"{name}.{kind}").exists() for kind in ("csv", "md", "tex"))
    assert "# Doe 2031's table of toys, ours and published" in (board / "one.md").read_text()
    readme = (board / "README.md").read_text()
    assert "| `table_1d`, `table_2d` | the paper's tables with ours" in readme
    assert "| `one` | Doe 2031's tables with ours" in readme
    assert "<2032>" not in (board / "two.md").read_text() + readme
    assert r"Av\_erage \& \textbar{}co" in (board / "two.tex").read_text()
    assert r"Av_erage & \|co Params" in (board / "two.md").read_text()
