"""A trial's device. Flags, memory and random numbers are left as they were found.

Every model computes in the same precision. By default torch allows TF32, 10 bits of mantissa instead of 23, in cuDNN
but not in matrix products, so convolutions would be less precise than the rest. Both are off unless ``--precision``
asks for TF32.

A CPU trial makes no CUDA call: any call would start CUDA on the GPU for nothing.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from ..base import devices, machine

CPU = torch.device("cpu")
DETERMINISTIC = ("cuda",)  # only there do atomics make sums depend on chance
UNREPEATABLE = "does not have a deterministic implementation"


def torch_device(kind: str, gpu: int = 0) -> torch.device:
    """With an index: without one, torch 2.4 does not report the free memory of ``cuda``."""
    return torch.device(kind, gpu) if kind == "cuda" else torch.device(kind)


def float64_device(device: torch.device) -> torch.device:
    """The device for float64 arrays: Apple's GPUs don't support them."""
    return CPU if device.type == "mps" else device


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    """Around a forward pass and its loss. Weights, gradients and the optimiser stay in float32."""
    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def synchronize(device: torch.device) -> None:
    """Wait for pending work before a clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def free_memory(device: torch.device) -> int | None:
    """Free bytes of a GPU; None where the device uses the host's memory."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


# --- random numbers --------------------------------------------------------------------------------------------------


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Random states of the host and of this device alone, by kind: the number of other devices must not matter."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_state(device: torch.device, states: Mapping[str, Tensor]) -> None:
    """Raises ValueError and changes nothing if the states belong to another kind of device."""
    if not isinstance(states, Mapping) or set(states) != {"cpu", device.type}:
        raise ValueError(f"no random state of {device.type}")
    try:
        if device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], device)
        elif device.type == "mps":
            torch.mps.set_rng_state(states["mps"])
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"a random state of another {device.type}: {error}") from None
    torch.set_rng_state(states["cpu"])


@contextlib.contextmanager
def kept_random_state(device: torch.device) -> Iterator[None]:
    before = random_state(device)
    try:
        yield
    finally:
        set_random_state(device, before)


# --- a trial ---------------------------------------------------------------------------------------------------------


class TrialDevice:
    """The device of one trial. Inside ``with`` the trial's flags are set; afterwards the process's own are restored."""

    def __init__(self, kind: str, gpu: int = 0, precision: str = devices.DEFAULT_PRECISION) -> None:
        self.device, self.precision = torch_device(kind, gpu), precision
        self.unrepeatable: list[str] = []  # operators that have no deterministic implementation
        self._facts: dict[str, Any] = {}
        self._gpus: tuple[str, ...] = ()
        self._held_on_host, self._held = machine.reset_peak_memory(), 0
        self._stack = contextlib.ExitStack()  # restores what was changed

    def __enter__(self) -> TrialDevice:
        _set_tf32(self._stack, self.precision == "tf32")
        self._facts = {"precision": self.precision, "tf32": _tf32()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self) -> torch.device:
        """Call it before the device is first used: CUDA starts here and not earlier."""
        if self.device.type == "cuda":
            self._start_cuda()
        if self.device.type in DETERMINISTIC:
            _be_deterministic(self._stack)
            self._watch_warnings()
        return self.device

    def use_host(self) -> torch.device:
        """Closed forms are fitted, and predict, where their arrays are."""
        self.device = CPU
        return self.device

    def note(self, **facts: Any) -> None:
        self._facts |= facts

    def peak_memory(self) -> int:
        """Bytes beyond what was held before the trial, on its own device."""
        if self.device.type == "cuda":
            return max(0, int(torch.cuda.max_memory_allocated(self.device)) - self._held) if self._gpus else 0
        return max(0, machine.peak_memory() - self._held_on_host)

    def facts(self) -> dict[str, Any]:
        """For the record: where it ran, in which precision, and whether it can be repeated bit for bit."""
        found = {"hardware": machine.hardware(self._gpus), "device": self.device.type, **self._facts}
        if self.device.type in DETERMINISTIC:
            found["deterministic"] = not self.unrepeatable
        if self.unrepeatable:
            found["unrepeatable"] = sorted(self.unrepeatable)
        return found

    def _start_cuda(self) -> None:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # otherwise cuBLAS may sum in any order
        torch.cuda.init()
        self._stack.callback(torch.cuda.set_device, torch.cuda.current_device())
        torch.cuda.set_device(self.device)  # nccl and Triton use the current device
        torch.cuda.reset_peak_memory_stats(self.device)
        self._held = int(torch.cuda.memory_allocated(self.device))
        self._gpus = (torch.cuda.get_device_name(self.device),)

    def _watch_warnings(self) -> None:
        """Note operators that torch can't make deterministic; other warnings are shown as usual."""
        self._stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("default", message=f".*{UNREPEATABLE}")
        show = warnings.showwarning

        def note(message: Warning | str, *rest: Any, **more: Any) -> None:
            name, found, _ = str(message).partition(f" {UNREPEATABLE}")
            if not found:
                show(message, *rest, **more)
            elif name not in self.unrepeatable:
                self.unrepeatable.append(name)

        warnings.showwarning = note


def _tf32() -> dict[str, bool]:
    return {"matmul": torch.get_float32_matmul_precision() != "highest", "cudnn": torch.backends.cudnn.allow_tf32}


def _set_tf32(stack: contextlib.ExitStack, allowed: bool) -> None:
    # Reading raises if the process has set torch's newer flags (fp32_precision): those can't be restored.
    with contextlib.suppress(RuntimeError):
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    with contextlib.suppress(RuntimeError):
        stack.callback(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed


def _be_deterministic(stack: contextlib.ExitStack) -> None:
    """Use deterministic algorithms where torch has them; elsewhere warn instead of failing."""
    asked = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    stack.callback(torch.use_deterministic_algorithms, asked, warn_only=warned)
    torch.use_deterministic_algorithms(True, warn_only=True)
    fills: Any = torch.utils.deterministic
    stack.callback(setattr, fills, "fill_uninitialized_memory", fills.fill_uninitialized_memory)
    fills.fill_uninitialized_memory = False  # it would fill every new array with NaN, which costs a pass over memory
