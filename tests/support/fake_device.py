"""A device that exists in tests only: tensors that say they are on ``cuda:0`` or ``mps`` and compute on the CPU.

    with FakeDevice("cuda:0") as fake:
        module.to("cuda:0")

Inside, a tensor moved to the device is a wrapper around a CPU tensor. Mixing it with a CPU tensor is refused as torch
refuses it, a dtype that the device has not is refused, and what a real device would make the host wait for is counted:
``fake.reads`` (a value asked for by the host), ``fake.uploads`` and ``fake.downloads`` (copies of tensors), besides
``fake.pinned`` (arrays in pinned memory) and ``fake.calls``, every operator that ran on the device.

`FakeCuda` stands in for the functions of ``torch.cuda`` that go with it, `pretend_gpus` for a machine that has some.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
# Indices may come from the host (and are copied), as may scalars.
MIXES = {aten.index.Tensor, aten.copy_.default, aten._to_copy.default, aten.index_put_.default}

# A wrapper can't pass on that its tensor is a lazy conjugate or negative.
PHYSICAL = {aten._conj.default: aten.conj_physical.default, aten._neg_view.default: aten.neg.default}


class OnDevice(Tensor):
    """A CPU tensor, ``elem``, that claims to be elsewhere."""

    elem: Tensor
    fake: FakeDevice

    @staticmethod
    def __new__(cls, elem: Tensor, fake: FakeDevice) -> OnDevice:
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            device=torch.device("cpu"), requires_grad=elem.requires_grad,
        )  # fmt: skip
        wrapper.elem, wrapper.fake = elem, fake
        return wrapper

    def __repr__(self, *_: Any, **__: Any) -> str:
        return f"OnDevice({self.elem!r})"

    def tolist(self) -> Any:  # torch reads the storage, which a wrapper has not
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:  # saved as what it wraps
        return self.elem.__reduce_ex__(protocol)

    def numpy(self, *_: Any) -> Any:
        raise TypeError(f"can't convert a tensor on {self.fake.device} to numpy; copy it to host memory first")

    # C++ takes it for a CPU tensor, so that autograd needs no such device; Python is told otherwise.
    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.fake.device

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return self.fake.device.type == "cuda"

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **{k: v for k, v in kwargs.items() if k != "copy"})
        if device is None or self.fake.is_here(device):
            wanted = dtype or self.dtype
            copy = kwargs.get("copy") or wanted != self.dtype
            return torch.ops.aten._to_copy(self, dtype=wanted) if copy else self
        return torch.ops.aten._to_copy(self, device=device, dtype=dtype)

    def new_tensor(self, values: Any, **options: Any) -> Tensor:
        return torch.tensor(values, dtype=options.get("dtype") or self.dtype).to(self.device)

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.to("cpu")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fake = next(x.fake for x in tree_flatten((args, kwargs or {}))[0] if isinstance(x, OnDevice))
        return fake.run(func, args, kwargs or {})


class FakeDevice(TorchDispatchMode):
    def __init__(self, device: str, refused: tuple[torch.dtype, ...] = ()) -> None:
        super().__init__()
        self.device, self.refused = torch.device(torch.device(device).type, 0), refused
        self.clear()

    def __enter__(self) -> FakeDevice:
        self._lazy_init, torch.cuda._lazy_init = torch.cuda._lazy_init, lambda: None  # torch calls it at a first use
        torch.__future__.set_overwrite_module_params_on_conversion(
            True
        )  # a wrapper can't be put into a plain parameter
        self._group = clip_grad._group_tensors_by_device_and_dtype
        clip_grad._group_tensors_by_device_and_dtype = self._grouped  # done in C++, which sees CPU tensors
        self._with_index = _WithIndex(self.device)
        self._with_index.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._with_index.__exit__(*error)
        torch.cuda._lazy_init = self._lazy_init
        torch.__future__.set_overwrite_module_params_on_conversion(False)
        clip_grad._group_tensors_by_device_and_dtype = self._group

    def _grouped(self, tensors: Any) -> Any:
        found = self._group(tensors)
        return {(group[0][0].device, dtype): (group, order) for (_, dtype), (group, order) in found.items()}

    def clear(self) -> None:
        self.reads = self.uploads = self.downloads = self.pinned = 0
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        flat = tree_flatten((args, kwargs))[0]
        if any(isinstance(x, OnDevice) for x in flat) or self.is_here(kwargs.get("device")):
            return self.run(func, args, kwargs)
        if kwargs.get("pin_memory"):  # there is nothing here to pin memory for
            self.pinned += 1
            kwargs = {**kwargs, "pin_memory": False}
        return func(*args, **kwargs)

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        flat = tree_flatten((args, kwargs))[0]
        mine = [x for x in flat if isinstance(x, OnDevice)]
        strangers = [x for x in flat if isinstance(x, Tensor) and not isinstance(x, OnDevice) and x.ndim]
        if strangers and mine and func not in MIXES:
            raise RuntimeError(f"{func}: expected all tensors on one device, found {self.device} and cpu")
        func = PHYSICAL.get(func, func)
        # Factories are told by C++ that they are on the CPU, and stay here; a copy to there is meant.
        target = kwargs.get("device") if func is aten._to_copy.default else None
        away = target is not None and not self.is_here(target)
        self._count(func, args, mine, strangers, away)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("cpu")}
            kwargs.pop("pin_memory", None)
        out = func(*tree_map(_unwrap, args), **tree_map(_unwrap, kwargs))
        into_host = away or (func is aten.copy_.default and not isinstance(args[0], OnDevice))
        if into_host or func is aten._local_scalar_dense.default:
            same = {id(_unwrap(x)): x for x in flat if isinstance(x, Tensor)}
            return same.get(id(out), out)
        known = {id(x.elem): x for x in mine}
        return tree_map(lambda y: self._wrap(y, known, func), out)

    def _count(self, func: Any, args: Any, mine: list[Any], strangers: list[Any], away: bool) -> None:
        self.calls[func.__name__.split(".")[0]] += 1
        if func is aten._local_scalar_dense.default:
            self.reads += 1
        elif away or (func is aten.copy_.default and not isinstance(args[0], OnDevice)):
            self.downloads += 1
        elif strangers:
            self.uploads += len(strangers)

    def _wrap(self, y: Any, known: dict[int, OnDevice], func: Any) -> Any:
        if not isinstance(y, Tensor):
            return y
        if id(y) in known:
            return known[id(y)]
        if y.dtype in self.refused:
            raise TypeError(f"{func}: cannot convert a {self.device} tensor to {y.dtype}, which the device has not")
        return OnDevice(y, self)

    def is_here(self, device: Any) -> bool:
        return device is not None and torch.device(device).type == self.device.type


class _WithIndex(TorchFunctionMode):
    """``.to("mps")`` means ``mps:0``; torch finds the index by asking the device, which a build without it can't."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*map(self._complete, args), **{k: self._complete(v) for k, v in (kwargs or {}).items()})

    def _complete(self, x: Any) -> Any:
        if isinstance(x, torch.device) and x == torch.device(self.device.type):
            return torch.device(self.device.type, 0)
        return x


def _unwrap(x: Any) -> Any:
    return x.elem if isinstance(x, OnDevice) else x


class FakeCuda:
    """``torch.cuda`` of a machine with some GPUs: one generator and one count of bytes each."""

    def __init__(self, monkeypatch: Any, count: int = 1, free: int = 8 << 30) -> None:
        self.generators = [torch.Generator().manual_seed(100 + index) for index in range(count)]
        self.free, self.asked = free, Counter[str]()
        self.allocated, self.peak = [0] * count, [0] * count
        for name in (
            *("init", "set_device", "current_device", "get_rng_state", "set_rng_state", "mem_get_info", "synchronize"),
            *("reset_peak_memory_stats", "memory_allocated", "max_memory_allocated", "get_device_name", "device_count"),
            *("get_rng_state_all", "set_rng_state_all"),
        ):
            monkeypatch.setattr(torch.cuda, name, self._counted(name))

    def _counted(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.asked[name] += 1
            return getattr(self, f"_{name}", lambda *_: None)(*args, **kwargs)

        return call

    def _at(self, device: Any = None) -> int:
        index = device if isinstance(device, int) else None if device is None else torch.device(device).index
        return 0 if index is None else index

    def _device_count(self) -> int:
        return len(self.generators)

    def _current_device(self) -> int:
        return 0

    def _get_rng_state(self, device: Any = None) -> Tensor:
        return self.generators[self._at(device)].get_state()

    def _set_rng_state(self, state: Tensor, device: Any = None) -> None:
        self.generators[self._at(device)].set_state(state)

    def _get_rng_state_all(self) -> list[Tensor]:
        return [g.get_state() for g in self.generators]

    def _set_rng_state_all(self, states: Any) -> None:
        for index, state in enumerate(states):
            self.generators[index].set_state(state)

    def _mem_get_info(self, device: Any = None) -> tuple[int, int]:
        if isinstance(device, torch.device) and device.index is None:  # as torch 2.4 has it
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
        return self.free, 16 << 30

    def _reset_peak_memory_stats(self, device: Any = None) -> None:
        self.peak[self._at(device)] = self.allocated[self._at(device)]

    def _memory_allocated(self, device: Any = None) -> int:
        return self.allocated[self._at(device)]

    def _max_memory_allocated(self, device: Any = None) -> int:
        return self.peak[self._at(device)]

    def _get_device_name(self, device: Any = None) -> str:
        return f"Fake {self._at(device)}"


def pretend_gpus(monkeypatch: Any, count: int) -> None:
    """As the driver sees them: it never asks by itself."""
    from pdebench_hss.base import devices

    gpu = devices.Gpu("Fake", 16 << 30, (9, 0))
    found = devices.Found((gpu,) * count, "" if count else "torch finds no NVIDIA GPU")
    monkeypatch.setattr(devices, "look", lambda: found)
