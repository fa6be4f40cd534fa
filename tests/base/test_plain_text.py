"""Text from strangers does nothing where it is printed, and a table gives back the names it was made from."""

from __future__ import annotations

import io
import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.base.plain_text import csv_cell, csv_text, latex, markdown, visible, write_csv

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
