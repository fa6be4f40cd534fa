"""Checks 1 to 3: what is installed, whether a fork can use the device, and in which precision a trial computes."""

from __future__ import annotations

import shutil
from typing import Any

import torch

from ..base import machine
from ..workers.starting import FORK, SPAWN, start_method
from . import accelerator
from .cases import run, trained_trials
from .outcome import failed, passed, warned


def versions(emit: Any, device: str) -> dict[str, Any]:
    """torch, CUDA, driver, capability, Triton and the compiler that its launcher needs."""
    found = accelerator.describe(device)
    packages = machine.versions(("triton",))
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    line = f"{found['name']}, torch {packages['torch']}, Triton {packages.get('triton', 'not installed')}"
    if not accelerator.is_gpu(device):
        return passed(f"{line} (rehearsal)", **found, versions=packages, compiler=compiler)
    line += f", CUDA {found['cuda']}, driver {found['driver']}, capability {found['capability']}"
    if "triton" in packages and compiler is None:
        return warned(f"{line}; no C compiler, which Triton needs", **found, versions=packages, compiler=compiler)
    return passed(f"{line}, compiler {compiler}", **found, versions=packages, compiler=compiler)


_PROCESS = {FORK: "a fork of a warm worker", SPAWN: "a new process of a worker"}


def fork(emit: Any, device: str) -> dict[str, Any]:
    """This very process may be a fork: it must be able to start CUDA, which it could not if its parent had."""
    if accelerator.is_initialized(device):
        return failed("CUDA was initialised before the fork: the parent process used it")
    x = torch.full((64, 64), 2.0, device=device)
    total = (x @ x).sum().item()
    expected = 64**3 * 4.0
    if total != expected:
        return failed(f"a product of 64 x 64 matrices sums to {total}, expected {expected}")
    return passed(f"{_PROCESS[start_method()]} allocates and multiplies")


def flags(emit: Any, device: str) -> dict[str, Any]:
    """As they are while a trial computes."""
    seen: dict[str, Any] = {}
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: seen.update(read_flags()))
    try:
        trial = next(trained_trials(device, budget="steps=2"))
        run(trial)
    finally:
        hook.remove()
    return judge_flags(seen, accelerator.is_gpu(device))


def read_flags() -> dict[str, Any]:
    return {
        "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }


def judge_flags(seen: dict[str, Any], is_gpu: bool) -> dict[str, Any]:
    """All models must compute alike: TF32 has 10 bits of mantissa, and cuDNN allows it by default."""
    if not seen:
        return failed("no model ran")
    line = ", ".join(
        f"{name} {'on' if value is True else 'off' if value is False else value}" for name, value in seen.items()
    )
    if is_gpu and (seen["matmul_tf32"] or seen["cudnn_tf32"]):
        return failed(f"TF32 is on in a float32 trial: {line}", flags=seen)
    return passed(line, flags=seen)
