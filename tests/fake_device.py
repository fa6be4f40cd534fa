"""A device that exists in tests only: tensors that say they are on ``cuda:0`` or ``mps`` and compute on the CPU.

    with FakeDevice("cuda:0") as fake:
        module.to("cuda:0")

Inside, a tensor moved to the device is a wrapper around a CPU tensor. Mixing it with a CPU tensor is refused as torch
refuses it, a dtype that the device has not is refused, and what a real device would make the host wait for is counted:
``fake.reads`` (a value asked for by the host), ``fake.uploads`` and ``fake.downloads`` (copies of tensors), besides
``fake.calls``, every operator that ran on the device.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
# Indices may come from the host (and are copied), as may scalars.
MIXES = {aten.index.Tensor, aten.copy_.default, aten._to_copy.default, aten.index_put_.default}


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

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.to("cpu")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fake = next(x.fake for x in tree_flatten((args, kwargs or {}))[0] if isinstance(x, OnDevice))
        return fake.run(func, args, kwargs or {})


class FakeDevice(TorchDispatchMode):
    def __init__(self, device: str, refused: tuple[torch.dtype, ...] = ()) -> None:
        super().__init__()
        self.device, self.refused = torch.device(device), refused
        self.clear()

    def __enter__(self) -> FakeDevice:
        self._lazy_init, torch.cuda._lazy_init = torch.cuda._lazy_init, lambda: None  # torch calls it at a first use
        torch.__future__.set_overwrite_module_params_on_conversion(
            True
        )  # a wrapper can't be put into a plain parameter
        self._group = clip_grad._group_tensors_by_device_and_dtype
        clip_grad._group_tensors_by_device_and_dtype = self._grouped  # done in C++, which sees CPU tensors
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.cuda._lazy_init = self._lazy_init
        torch.__future__.set_overwrite_module_params_on_conversion(False)
        clip_grad._group_tensors_by_device_and_dtype = self._group

    def _grouped(self, tensors: Any) -> Any:
        found = self._group(tensors)
        return {(group[0][0].device, dtype): (group, order) for (_, dtype), (group, order) in found.items()}

    def clear(self) -> None:
        self.reads = self.uploads = self.downloads = 0
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        flat = tree_flatten((args, kwargs))[0]
        if any(isinstance(x, OnDevice) for x in flat) or self.is_here(kwargs.get("device")):
            return self.run(func, args, kwargs)
        return func(*args, **kwargs)

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        flat = tree_flatten((args, kwargs))[0]
        mine = [x for x in flat if isinstance(x, OnDevice)]
        strangers = [x for x in flat if isinstance(x, Tensor) and not isinstance(x, OnDevice) and x.ndim]
        if strangers and mine and func not in MIXES:
            raise RuntimeError(f"{func}: expected all tensors on one device, found {self.device} and cpu")
        away = "device" in kwargs and kwargs["device"] is not None and not self.is_here(kwargs["device"])
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


def _unwrap(x: Any) -> Any:
    return x.elem if isinstance(x, OnDevice) else x
