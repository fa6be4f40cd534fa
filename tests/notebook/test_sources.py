"""The source of a class with all that it uses makes the same class in another process, or is refused by name."""

from __future__ import annotations

import itertools
import linecache
import types

import pytest

from pdebench_hss import ModelSpec
from pdebench_hss.base.errors import UsageError
from pdebench_hss.notebook.models import given, plugin_file, snake_case
from pdebench_hss.notebook.sources import Sources, global_names

NET = """
from torch import nn

WIDTH = 3


def layer(width):
    return nn.Linear(width, WIDTH)


class Net(nn.Module):
    def __init__(self, task, width=4, name="a", other=None):
        super().__init__()
        self.layer = layer(width)

    def forward(self, WIDTH_of_it):
        return self.layer(WIDTH_of_it)
"""
COUNTER = itertools.count()


def cell(code: str, names: dict | None = None) -> types.SimpleNamespace:
    """What a notebook does with a cell: its lines are kept where Python looks for the source."""
    file = f"<cell {next(COUNTER)}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    names = {"__name__": "__main__"} if names is None else names
    exec(compile(code, file, "exec"), names)
    return types.SimpleNamespace(names=names, **{k: v for k, v in names.items() if k.isidentifier()})


def source_of(value) -> str:
    sources = Sources()
    sources.add(value)
    return sources.text


def test_a_class_comes_with_what_it_uses_and_nothing_else():
    found = cell(NET + "\nunused = 7\n")
    text = source_of(found.Net)
    assert "unused" not in text
    again: dict = {}
    exec(text, again)
    assert again["Net"](None, width=2).layer.weight.shape == (3, 2)


def test_names_that_are_local_are_not_taken_for_globals():
    assert global_names("def f(x):\n    y = x + z\n    return [w for w in y]") == {"z"}


def test_a_redefined_class_is_the_new_one():
    first = cell(NET)
    second = cell(NET.replace("width=4", "width=5"), first.names)
    assert "width=5" in source_of(second.Net)
    assert plugin_file(first.Net).file != plugin_file(second.Net).file


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (
            "import torch\nt = torch.ones(2)\nclass Net:\n    def f(self):\n        return t",
            "uses 't', which is of type Tensor",
        ),
        (
            "def make():\n    class Net:\n        def f(self): ...\n    return Net\nNet = make()",
            "defined inside a function",
        ),
        ("def g(self): ...\nclass Net:\n    def f(self): ...\nNet.g = g", "'g' is not in its class statement"),
    ],
)
def test_what_has_no_source_is_refused_by_name(code, complaint):
    with pytest.raises(UsageError, match=complaint):
        source_of(cell(code).Net)


def test_a_class_without_any_source_is_refused():
    names: dict = {"__name__": "__main__"}
    exec("class Net:\n    def f(self): ...", names)
    with pytest.raises(UsageError, match="the source of the class Net can't be found"):
        source_of(names["Net"])


def test_defaults_of_plain_values_are_the_hyper_parameters():
    text = plugin_file(cell(NET).Net).text
    assert "hparams={'width': 4, 'name': 'a'}" in text
    assert "name='net'" in text


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("class Net:\n    def __init__(self): ...", "must take the task first"),
        ("class Net:\n    def __init__(self, task, width): ...", "needs a value for 'width'"),
    ],
)
def test_a_class_that_can_not_be_built_is_refused(code, complaint):
    with pytest.raises(UsageError, match=complaint):
        plugin_file(cell(code).Net)


def test_an_object_is_refused_and_its_class_is_named():
    from torch import nn

    with pytest.raises(UsageError, match="give the class Linear itself"):
        given([nn.Linear(1, 1)])


def test_a_spec_is_written_with_what_it_says():
    net = cell(NET).Net
    spec = ModelSpec(name="mine", title="Mine", build=net, hparams={"width": 8}, size_knob="width")
    text = plugin_file(spec).text
    assert all(part in text for part in ("name='mine'", "build=Net", "size_knob='width'", "'width': 8"))


def test_two_models_of_one_name_are_refused():
    first, second = cell(NET).Net, cell(NET.replace("WIDTH = 3", "WIDTH = 4")).Net
    assert given([first, first, "linear"]).names == ["net", "net", "linear"]
    with pytest.raises(UsageError, match="two different models are called 'net'"):
        given([first, second])


@pytest.mark.parametrize(("name", "expected"), [("MyNet", "my_net"), ("FNO2d", "fno2d"), ("HTTPNet", "http_net")])
def test_names_of_classes_become_names_of_models(name, expected):
    assert snake_case(name) == expected
