"""A model's state survives the way through bytes to the last bit, whatever it is made of; nothing is unpickled."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from torch import nn

from pdebench_hss.base.files import BadFile
from pdebench_hss.trials import weights

DTYPES = [
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.int8, torch.int64, torch.uint8, torch.bool),
]


def through_bytes(state):
    content, table = weights.to_bytes(state)
    return weights.from_bytes(content, json.loads(json.dumps(table)))  # the table is stored as JSON


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 4), max_size=4).flatmap(lambda s: st.tuples(st.just(s), st.permutations(range(len(s))))),
    st.integers(0, 10),
)
def test_a_tensor_comes_back_with_its_bits_and_its_order_in_memory(dtype, form, seed):
    shape, axes = form
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64).mul(100).to(dtype).permute(axes)
    (back,) = through_bytes({"a.b": values}).values()
    assert (back.dtype, back.shape, bits(back)) == (values.dtype, values.shape, bits(values))
    if values.numel() > 1:
        assert [s for s, n in zip(back.stride(), back.shape) if n > 1] == [
            s for s, n in zip(values.stride(), values.shape) if n > 1
        ]


def test_special_values_survive():
    values = torch.tensor([float("nan"), float("inf"), -0.0, 5e-324, 1e-40], dtype=torch.float64)
    assert bits(through_bytes({"x": values})["x"]) == bits(values)


def test_no_state_is_a_state():
    assert through_bytes({}) == {}


def test_a_conjugate_and_a_slice_are_stored_as_what_they_show():
    whole = torch.randn(6, 4, dtype=torch.complex64)
    state = {"conj": whole.conj(), "slice": whole[1:5:2, ::3], "wide": whole[0].expand(3, 4)}
    back = through_bytes(state)
    assert all(torch.equal(back[name], value) for name, value in state.items())


def test_what_two_names_share_is_stored_once(tmp_path):
    first = nn.Linear(300, 300, bias=False)
    pair = nn.Sequential(first, nn.ReLU(), first)
    content, table = weights.to_bytes(pair.state_dict())
    assert len(content) < 1.1 * 4 * 300 * 300
    assert weights.size_of(pair.state_dict()) == 4 * 300 * 300
    other = nn.Linear(300, 300, bias=False)
    copy = nn.Sequential(other, nn.ReLU(), other)
    weights.restore(copy, weights.from_bytes(content, table))
    x = torch.randn(2, 300)
    assert torch.equal(copy(x), pair(x))
    assert copy[0].weight is copy[2].weight


def test_others_read_the_file_with_safetensors(tmp_path):
    model = nn.Linear(3, 2)
    content, _ = weights.to_bytes(model.state_dict())
    (tmp_path / "x.safetensors").write_bytes(content)
    with safe_open(tmp_path / "x.safetensors", "np") as file:
        assert set(file.keys()) == {"weight", "bias"}
        assert np.array_equal(file.get_tensor("weight"), model.weight.detach().numpy())


class Box(nn.Module):
    def __init__(self, **buffers):
        super().__init__()
        for name, value in buffers.items():
            self.register_buffer(name, value)


def test_a_buffer_takes_the_shape_dtype_and_order_that_are_stored():
    fitted = Box(a=torch.randn(5, 3, dtype=torch.float64).T, b=torch.arange(4))
    fresh = Box(a=torch.zeros(0), b=None)
    weights.restore(fresh, through_bytes(fitted.state_dict()))
    assert torch.equal(fresh.a, fitted.a)
    assert fresh.a.stride() == fitted.a.stride()
    assert torch.equal(fresh.b, fitted.b)


def test_a_parameter_takes_the_dtype_that_is_stored_and_stays_a_parameter():
    fitted, fresh = nn.Linear(3, 2).double(), nn.Linear(3, 2)
    kept = fresh.weight
    weights.restore(fresh, through_bytes(fitted.state_dict()))
    assert torch.equal(fresh.weight, fitted.weight)
    assert fresh.weight is kept


@pytest.mark.parametrize("other", [nn.Linear(4, 2), nn.Linear(3, 2, bias=False), Box(a=torch.zeros(2))])
def test_the_state_of_another_model_is_refused(other):
    with pytest.raises(BadFile, match="not those of this model"):
        weights.restore(other, through_bytes(nn.Linear(3, 2).state_dict()))


@pytest.mark.parametrize("where", ["length", "header", "end", "nothing"])
def test_damaged_bytes_are_refused(where):
    content, table = weights.to_bytes(nn.Linear(3, 2).state_dict())
    damaged = {
        "length": b"\xff" * 8 + content[8:],
        "header": content[:8] + b"x" + content[9:],
        "end": content[:-3],
        "nothing": b"",
    }[where]
    with pytest.raises(BadFile, match="damaged"):
        weights.from_bytes(damaged, table)


@pytest.mark.parametrize(
    "change",
    [{"shape": [2, 4]}, {"dtype": "float64"}, {"dtype": "complex64"}, {"order": [0, 0]}, {"same_as": "elsewhere"}],
)
def test_a_table_that_does_not_fit_is_refused(change):
    content, table = weights.to_bytes(nn.Linear(3, 2).state_dict())
    with pytest.raises(BadFile, match="damaged"):
        weights.from_bytes(content, {**table, "weight": {**table["weight"], **change}})


def test_building_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    with weights.own_random_numbers(7):
        inside = torch.randn(4)
    assert torch.equal(torch.randn(4), expected)
    assert torch.equal(inside, torch.randn(4, generator=torch.Generator().manual_seed(7)))
