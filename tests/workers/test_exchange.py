"""What one process leaves for another is plain: it comes back as it was, and nothing else can come in its place."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest

from pdebench_hss.workers import exchange

LIMIT = 1 << 20


@pytest.fixture(params=["read", "view"])
def take(request):
    return (lambda path: exchange.read(path, LIMIT)) if request.param == "read" else exchange.view


def test_values_and_arrays_come_back_as_they_were(tmp_path, take):
    arrays = {
        "wide": np.arange(12.0).reshape(3, 4)[:, ::2],  # not contiguous
        "swapped": np.arange(5, dtype=">i2"),
        "truth": np.array([True, False]),
        "one": np.float32(0.1) * np.ones(()),
        "none": np.zeros((0, 3)),
    }
    value = {"number": 0.1 + 0.2, "text": "ü", "nothing": None, "list": [1, True, {"a": []}], "arrays": arrays}
    exchange.write(tmp_path / "value", value)
    found = take(tmp_path / "value")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found["arrays"][name], array, strict=True)
    assert {**found, "arrays": 0} == {**value, "arrays": 0}


@pytest.mark.parametrize("value", [object(), np.array([object()]), {1: 2}, {"$array": 1}, {1j}, np.array([1j])])
def test_what_is_not_plain_does_not_leave(tmp_path, value):
    with pytest.raises(exchange.NotPlain):
        exchange.write(tmp_path / "value", [value])


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def packed(text: str, rest: bytes = b"") -> bytes:
    return len(text).to_bytes(8, "big") + text.encode() + rest


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\xff" * 100,
        packed("{"),
        packed("[" * 100_000),
        packed("1" * 10_000),
        packed(json.dumps({"$array": ["<f8", [2**60], 0]}), b"x" * 64),  # 8 EiB in a header
        packed(json.dumps({"$array": ["<f8", [-1], 0]}), b"x" * 64),
        packed(json.dumps({"$array": ["O", [1], 0]}), b"x" * 64),
        packed(json.dumps({"$array": ["<f8", [1], -8]}), b"x" * 64),
        packed(json.dumps({"$array": 7}), b"x" * 64),
        packed(json.dumps({"$array": [["O"], [1], 0]}), b"x" * 64),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path, take, content):
    (tmp_path / "value").write_bytes(content)
    with pytest.raises(exchange.NotPlain):
        take(tmp_path / "value")


def test_a_pickle_is_refused_and_runs_nothing(tmp_path, take, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "ran"))
    (tmp_path / "value").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(exchange.NotPlain):
        take(tmp_path / "value")
    assert not (tmp_path / "ran").exists()


def test_a_pipe_or_a_link_in_its_place_is_refused_at_once(tmp_path, take):
    exchange.write(tmp_path / "other", 1)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for name in ("pipe", "link", "nothing"):
        with pytest.raises(exchange.NotPlain):
            take(tmp_path / name)


def test_more_than_the_reader_takes_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "value", "wb") as file:
        file.truncate(1 << 40)  # a hole of 1 TiB
    with pytest.raises(exchange.NotPlain, match=f"at most {LIMIT}"):
        exchange.read(tmp_path / "value", LIMIT)
