"""A model's state as bytes, and a model from them: safetensors, so nothing is ever unpickled.

A model is stored as its ``state_dict()``: parameters and persistent buffers, whatever their dtype, size and number. A
classical solver has none, and an empty file. Three things that the format can't express are in a separate table:

    order     a tensor's memory layout, its axes from the slowest to the fastest, where that is not C order: rounding of
              a matrix product depends on it, and a loaded model must answer bit for bit like the one that was scored
    complex   a complex tensor is stored as real numbers with a last axis (real, imaginary)
    same_as   a tensor that two names share is stored once

On the way back a buffer takes the shape, dtype and order that were stored, so a closed form may size its buffers in
``fit``; a parameter must have the shape that it was built with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from ..base.files import BadFile
from ..contract import traits

Table = Mapping[str, Mapping[str, Any]]  # of each tensor: dtype, shape and what is special about it


class NotKept(Exception):
    """Why a model's state can't be stored, in a few words."""


def state_of(model: Any) -> dict[str, Tensor]:
    """Everything that a prediction needs, by name; raises `NotKept` if the model does not provide it."""
    if not hasattr(model, "state_dict") or not hasattr(model, "load_state_dict"):
        if traits.fits_itself(type(model)) or not hasattr(model, "solve"):
            raise NotKept("it is not an nn.Module and lacks state_dict() and load_state_dict()")
        return {}
    state = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise NotKept(f"{name!r} of its state_dict() is a {type(value).__name__}, not a tensor")
        if value.layout != torch.strided or value.is_quantized or value.is_meta:
            raise NotKept(f"{name!r} of its state_dict() is not a plain array of numbers")
    return dict(state)


def size_of(state: Mapping[str, Tensor]) -> int:
    """Approximate bytes; shared tensors are counted once."""
    return sum({_place(tensor): tensor.numel() * tensor.element_size() for tensor in state.values()}.values())


def to_bytes(state: Mapping[str, Tensor]) -> tuple[bytes, dict[str, dict[str, Any]]]:
    """A file of safetensors, and the table of what is in it."""
    table: dict[str, dict[str, Any]] = {}
    stored: dict[str, Tensor] = {}
    first: dict[Any, str] = {}
    for name, tensor in state.items():
        table[name] = entry = {"dtype": _name(tensor.dtype), "shape": list(tensor.shape)}
        if (order := _order(tensor)) != list(range(tensor.ndim)):
            entry["order"] = order
        if (same := first.setdefault(_place(tensor), name)) != name:
            entry["same_as"] = same
            continue
        plain = tensor.detach().resolve_conj().resolve_neg().cpu()
        plain = torch.view_as_real(plain) if plain.is_complex() else plain
        stored[name] = plain.clone(memory_format=torch.contiguous_format)  # safetensors refuses what is shared
    return save(stored), table


def from_bytes(content: bytes, table: Table) -> dict[str, Tensor]:
    """The tensors of `to_bytes`, on the CPU, each in its memory layout; raises `BadFile` if they don't match."""
    try:
        stored = load(content)
        return {name: _tensor(stored[entry.get("same_as", name)], entry) for name, entry in table.items()}
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"its weights are damaged ({_first_line(error)})") from None


def restore(model: Any, state: Mapping[str, Tensor]) -> None:
    """Load a stored state into a model; raises `BadFile` if it belongs to another model."""
    if not state and not hasattr(model, "load_state_dict"):
        return
    if isinstance(model, nn.Module):
        for name, tensor in state.items():
            _make_room(model, name, tensor)
    try:
        model.load_state_dict(dict(state))
    except (RuntimeError, ValueError, KeyError) as error:
        lines = str(error).strip().splitlines()
        raise BadFile(f"its weights are not those of this model ({' '.join(lines[-1:]).strip()[:200]})") from None


@contextlib.contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """Build a model as its trial did, and leave the caller's random numbers as they were."""
    before = torch.get_rng_state()
    try:
        torch.random.default_generator.manual_seed(seed)
        yield
    finally:
        torch.set_rng_state(before)


def _make_room(model: nn.Module, name: str, tensor: Tensor) -> None:
    """Let a buffer take the shape, dtype and order of what is stored for it; a parameter its dtype and order."""
    path, _, last = name.rpartition(".")
    try:
        owner = model.get_submodule(path)
    except AttributeError:
        return  # load_state_dict will say so
    parameter, buffer = owner._parameters.get(last), owner._buffers.get(last)
    if last in owner._buffers and (buffer is None or _form(buffer) != _form(tensor)):
        owner._buffers[last] = torch.empty_like(tensor, device=None if buffer is None else buffer.device)
    elif parameter is not None and parameter.shape == tensor.shape and _form(parameter) != _form(tensor):
        parameter.data = torch.empty_like(tensor, device=parameter.device)


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, _order(tensor)


def _tensor(stored: Tensor, entry: Mapping[str, Any]) -> Tensor:
    values = torch.view_as_complex(stored) if entry["dtype"].startswith("complex") else stored
    order = entry.get("order", list(range(values.ndim)))
    if _name(values.dtype) != entry["dtype"] or list(values.shape) != entry["shape"]:
        raise ValueError(f"{_name(values.dtype)} of shape {list(values.shape)}, not what is listed")
    if sorted(order) != list(range(values.ndim)):
        raise ValueError(f"{order} is not an order of its axes")
    back = sorted(range(values.ndim), key=order.__getitem__)
    # Copied to memory that torch allocates, which is aligned: rounding can depend on that too.
    return values.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


def _order(tensor: Tensor) -> list[int]:
    """The axes from the slowest to the fastest. Ties, such as axes of length 1, are resolved in favour of C order."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return list(range(tensor.ndim))
    return sorted(range(tensor.ndim), key=lambda axis: -tensor.stride()[axis])


def _place(tensor: Tensor) -> Any:
    """The same for two names of one tensor, and for nothing else."""
    if tensor.numel() == 0:
        return id(tensor)
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
