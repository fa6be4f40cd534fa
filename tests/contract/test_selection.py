"""Names as people type them: what is chosen is what was written, and what is wrong is said with the way out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.selection import Choice, check_options, choose, parse_value, split

KNOWN = ["fno", "heat_1d", "linear", "poisson_1d", "poisson_2d"]

# Words that YAML 1.1 or float() read as something else than text.
RESERVED = {"yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"}
words = st.text("abefilnorstuy", min_size=1, max_size=8).filter(lambda word: word not in RESERVED)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
options = st.dictionaries(words, st.booleans() | numbers | words, max_size=4)


def names(text, known=KNOWN) -> list[str]:
    return [choice.label for choice in choose(text, known, "model")]


@settings(deadline=None)
@given(name=st.sampled_from(KNOWN), options=options)
def test_a_label_typed_again_is_the_same_choice(name, options):
    choice = Choice(name, options)
    (again,) = choose(choice.label, KNOWN, "model")
    assert again == choice
    assert {key: type(value) for key, value in again.options.items()} == {k: type(v) for k, v in options.items()}


@pytest.mark.parametrize("typed", ["fno[modes=null]", "fno[modes=~]"])
def test_a_label_with_nothing_as_its_value_typed_again_is_the_same_choice(typed):
    (choice,) = choose(typed, KNOWN, "model")
    assert choose(choice.label, KNOWN, "model") == [choice]


@settings(deadline=None)
@given(options)
def test_labels_do_not_depend_on_the_order_of_options(options):
    backwards = dict(reversed(list(options.items())))
    assert Choice("fno", options).label == Choice("fno", backwards).label


def test_order_is_as_typed_and_each_choice_comes_once():
    assert names("linear,fno,linear") == ["linear", "fno"]
    assert names(["linear", "poisson_*", "poisson_2d"]) == ["linear", "poisson_1d", "poisson_2d"]
    assert names("fno[a=1,b=2],fno[b=2,a=1]") == ["fno[a=1,b=2]"]


def test_all_and_globs_stand_for_the_known_names():
    assert names("all") == KNOWN
    assert names("poisson_?d") == ["poisson_1d", "poisson_2d"]
    assert names("poisson_*[n=3]") == ["poisson_1d[n=3]", "poisson_2d[n=3]"]


def test_all_leaves_out_what_stands_apart_and_names_and_globs_do_not():
    def chosen(text):
        return [choice.name for choice in choose(text, KNOWN, "task", apart={"heat_1d"})]

    assert chosen("all") == ["fno", "linear", "poisson_1d", "poisson_2d"]
    assert chosen("heat_1d") == chosen("heat_*") == ["heat_1d"]


def test_commas_inside_brackets_do_not_split():
    assert split(" fno[a=1,b=2] , linear,") == ["fno[a=1,b=2]", "linear"]
    assert split(["fno[a=1,b=2],heat_1d", "linear"]) == ["fno[a=1,b=2]", "heat_1d", "linear"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("-2", -2), ("0.5", 0.5), ("1e-3", 1e-3), ("true", True), ("no", False), ("gelu", "gelu")],
)
def test_values_are_read_as_what_they_look_like(text, value):
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("fnoo", "no model 'fnoo'. Did you mean 'fno'?  See: pdebench-hss list models"),
        ("zzzzzz", "no model 'zzzzzz'.  See: pdebench-hss list models"),
        ("burgers_*", "no model matches 'burgers_*'. See: pdebench-hss list models"),
        ("fno[a]", "model 'fno[a]': 'a' is not key=value"),
        ("fno[a=]", "model 'fno[a=]': 'a=' is not key=value"),
        ("fno[1a=2]", "model 'fno[1a=2]': '1a=2' is not key=value"),
        ("fno[a=1", "can't read model 'fno[a=1': write name or name[key=value,key=value]"),
        ("fno a=1", "can't read model 'fno a=1': write name or name[key=value,key=value]"),
        (" , ", "no model was named; write --models all, or see: pdebench-hss list models"),
    ],
)
def test_what_can_not_be_read_is_named_with_the_way_out(typed, message):
    with pytest.raises(UsageError) as refusal:
        choose(typed, KNOWN, "model")
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("value", "default", "becomes"),
    [
        (8, 4, 8),
        (8.0, 4, 8),
        (1, 0.1, 1.0),
        (False, True, False),
        ("relu", "gelu", "relu"),
        (12, None, 12),
    ],
)
def test_an_option_becomes_its_defaults_type(value, default, becomes):
    checked = check_options({"key": value}, {"key": default}, "model 'fno'")
    assert checked == {"key": becomes}
    assert type(checked["key"]) is type(becomes)


@pytest.mark.parametrize(
    ("value", "default"), [(8.5, 4), (True, 4), ("wide", 4), (True, 0.1), ("fast", 0.1), (1, True), (3, "gelu")]
)
def test_an_option_of_another_type_is_refused_with_an_example(value, default):
    with pytest.raises(UsageError) as refusal:
        check_options({"key": value}, {"key": default}, "model 'fno'")
    expected = f"model 'fno': key must be {type(default).__name__} (like {default!r}), not {value!r}"
    assert str(refusal.value) == expected


def test_an_unknown_option_is_refused_with_the_nearest_and_all_known_ones():
    with pytest.raises(UsageError) as refusal:
        check_options({"widht": 8}, {"width": 4, "depth": 2}, "model 'fno'")
    assert str(refusal.value) == "model 'fno' has no option 'widht'. Did you mean 'width'?  It has: depth, width"
    with pytest.raises(UsageError, match="It has: none"):
        check_options({"width": 8}, {}, "model 'mean'")
