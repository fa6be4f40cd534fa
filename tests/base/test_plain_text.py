"""Text from strangers does nothing where it is printed, and a table gives back the names it was made from."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.base.plain_text import csv_cell, csv_text, in_figure, latex, markdown, visible, write_csv
from pdebench_hss.cli import main
from pdebench_hss.cli.study import _print_points

pieces = st.sampled_from(
    ["=", "+", "-", "@", "'", " ", "\t", "\r", "\x1b[2J", "\u202e", "\\", "\\u001b", "u001b", "a", "|", "<b>"]
)
texts = st.one_of(st.text(max_size=20), st.lists(pieces, max_size=6).map("".join))


@settings(max_examples=300, deadline=None)
@given(texts)
def test_a_cell_of_a_table_is_harmless_and_gives_its_text_back(text):
    cell = csv_cell(text)
    assert not re.match(r"\s*[=+\-@]", cell)
    assert visible(cell) == cell
    assert csv_text(cell) == text


@pytest.mark.parametrize(
    "text", ["neural_hss[levels=2]", "Poisson Eq. (1D)", "it's", "a\\b", "", "ValueError: a < b", "ü – ∂"]
)
def test_ordinary_text_stands_in_a_table_as_it_is(text):
    assert csv_cell(text) == csv_text(text) == visible(text) == text


def test_numbers_are_not_text():
    out = io.StringIO()
    write_csv(pd.DataFrame({"skill": [-0.5, None], "name": ["-x", None], "rank": pd.array([1, None], "Int64")}), out)
    assert out.getvalue() == "skill,name,rank\n-0.5,'-x,1\n,,\n"


@given(st.lists(st.tuples(st.floats(), st.integers(), st.booleans(), st.none() | st.text('a,"\n \u00e9')), max_size=5))
def test_a_table_of_ordinary_values_is_written_as_pandas_writes_it(rows):
    table = pd.DataFrame(rows, columns=["error", "steps", "free", "na,me"])
    table["ended"] = pd.array([1.5 if row[2] else None for row in rows], "Float64")
    table["mixed"] = pd.Series([row[0] if row[2] else row[1] for row in rows], dtype=object)
    out, wanted = io.StringIO(), io.StringIO()
    write_csv(table, out)
    table["na,me"] = table["na,me"].map(csv_cell)
    table.to_csv(wanted, index=False, lineterminator="\n")
    assert out.getvalue() == wanted.getvalue()


def test_what_can_not_be_seen_is_spelled():
    assert visible("a\x1b]0;title\x07b\u202ec\nd") == r"a\u001b]0;title\u0007b\u202ec\u000ad"
    assert visible("a\nb\x1b", keep="\n") == "a\nb\\u001b"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<script>x</script>", "&lt;script>x&lt;/script>"),
        ("a | b", r"a \| b"),
        ("[x](javascript:alert(1))", r"[x]\(javascript:alert(1))"),
        ("&lt;b>", "&amp;lt;b>"),
        ("resnet[width=32]", "resnet[width=32]"),
        ("a & b", "a & b"),
    ],
)
def test_markup_is_text_in_markdown(text, plain):
    assert markdown(text) == plain


def test_commands_are_text_in_latex():
    assert latex(r"\input{/etc/passwd} 5% _x_" + "\x1b") == (
        r"\textbackslash{}input\{/etc/passwd\} 5\% \_x\_\textbackslash{}u001b"
    )


def test_what_stands_between_dollars_is_text_in_a_figure():
    assert in_figure("5 $ and $\\frac{$\x1b") == r"5 \$ and \$\frac{\$\u001b"
    assert in_figure(in_figure("a $ b\nc")) == "a \\$ b\nc"


HOSTILE = """
from pdebench_hss import ModelSpec, hookimpl
from pdebench_hss import BenchResult, make_study

BAD = "\\x1b]0;owned\\x07\\x1b[2J"


@hookimpl
def pdebench_hss_models():
    words = {"title": "T" + BAD, "description": "D" + BAD, "citation": "@misc{x, title={C" + BAD + "}, year={2020}}"}
    return [ModelSpec(name="hostile", build="nowhere:Model", **words)]


@hookimpl
def pdebench_hss_studies():
    words = {"title": "T" + BAD, "description": "D" + BAD, "paper": "P" + BAD}
    trials = {"models": "mean", "tasks": "poisson_1d", "scales": {"smoke": {}}}
    return [make_study({"name": "hostile_study", "figure": {"kind": "curves", "x": "n_train"}, **trials, **words})]


@hookimpl
def pdebench_hss_benches():
    return {"hostile_bench": f"{__name__}:measure"}


def measure(request):
    request.say("S" + BAD)
    return BenchResult(["name", "ms"], [{"name": "=HYPERLINK(1)" + BAD, "ms": 1.0}])
"""


@pytest.mark.parametrize(
    "command",
    [
        ("show", "hostile"),
        ("show", "hostile_study"),
        ("cite", "hostile"),
        ("bench", "hostile_bench", "--out", "times"),
        ("study", "hostile_study", "--scale", "smoke", "--dry-run"),
    ],
    ids=" ".join,
)
def test_no_command_sends_a_plugins_escapes_to_the_terminal(capsys, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    Path("hostile.py").write_text(HOSTILE)
    with pytest.raises(SystemExit) as end:
        main([*command, "--plugin", "hostile.py"])
    shown = "".join(capsys.readouterr())
    assert end.value.code == 0, shown
    assert r"\u001b]0;owned\u0007" in shown
    assert not re.search("[\x07\x1b]", shown)
    if "bench" in command:
        assert Path("times/hostile_bench.csv").read_text().startswith("name,ms\n'=HYPERLINK(1)\\u001b")


def test_the_points_of_a_study_are_printed_plainly(capsys):
    row = {"task": "a\x1b[2J", "model": "m", "n_train": 4, "test_err_mean": 0.1, "test_err_std": 0.2, "reason": "b\x07"}
    _print_points(pd.DataFrame([{**row, "c\x1b": "d\x1b"}]), ["c\x1b"])
    shown = capsys.readouterr().out
    assert not re.search("[\x07\x1b]", shown)
    assert shown.count(r"\u001b") == 3
    assert r"b\u0007" in shown
