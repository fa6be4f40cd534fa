"""A file that is laid out like an earlier one is read as if it were the first: the same arrays, the same complaints."""

from __future__ import annotations

import numpy as np
import pytest

from pdebench_hss.base.files import BadFile
from pdebench_hss.trials import array_layouts
from pdebench_hss.trials.array_files import read_arrays
from pdebench_hss.trials.array_writer import npz


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(array_layouts, "_KNOWN", {})


def some_arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "error_rmse": rng.random(4),
        "picture": rng.random((3, 1, 5)).astype(np.float32),
        "index": rng.integers(0, 9, 3),
        "nothing": np.empty(0),
        "one": np.array(rng.random()),
    }


@pytest.mark.parametrize("names", [(), ("picture",), ("one", "error_rmse"), ("absent",)])
def test_arrays_are_those_that_were_written(names):
    read_arrays(npz(some_arrays(0)))
    arrays = some_arrays(1)
    content = npz(arrays)
    assert array_layouts.find(content) is not None
    found = read_arrays(content, names)
    assert list(found) == [name for name in arrays if not names or name in names]
    for name, array in found.items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype


def outcome(content: bytes) -> object:
    try:
        return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in read_arrays(content).items()}
    except BadFile as error:
        return str(error)


def test_every_damaged_byte_has_the_same_outcome_as_without_a_known_layout():
    content = npz(some_arrays(1))
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :]
        array_layouts._KNOWN.clear()
        alone = outcome(damaged)
        array_layouts._KNOWN.clear()
        read_arrays(npz(some_arrays(0)))
        assert outcome(damaged) == alone, place


def test_other_arrays_in_a_file_of_the_same_length_are_read_as_what_they_are():
    read_arrays(npz({"ab": np.arange(4.0), "cd": np.arange(4.0)}))
    content = npz({"ef": np.arange(4), "gh": np.arange(2, 6.0)})
    assert array_layouts.find(content) is None
    assert read_arrays(content)["ef"].dtype == np.int64


def test_what_is_large_or_deflated_is_not_remembered():
    read_arrays(npz({"large": np.zeros(10_000)}))
    assert not array_layouts._KNOWN
    for length in range(2 * array_layouts.MOST):
        read_arrays(npz({"a" * (length + 1): np.zeros(1)}))
    assert 0 < len(array_layouts._KNOWN) <= array_layouts.MOST
