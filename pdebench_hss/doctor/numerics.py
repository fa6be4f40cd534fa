"""Checks 4 and 8: every model against the CPU, a step without waiting for the device, and the same FLOPs on both."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ..training.loop import count_step_flops
from . import accelerator
from .cases import Case, cases, each_model
from .outcome import failed, first_line, passed

ALLOWED = (
    1e-3  # relative difference of outputs and gradients in float32: sums in another order, not in another precision
)


def models(emit: Any, device: str) -> dict[str, Any]:
    """Forward and backward of every model against the CPU, then a training step that may not wait."""
    found: dict[str, dict[str, Any]] = {}
    for case in cases():
        try:
            found[case.name] = dict(compare(case, device))
            step_without_waiting(case, device)
        except Exception as error:
            found[case.name] = {**found.get(case.name, {}), "error": first_line(error)}
    return judge_models(found)


def compare(case: Case, device: str) -> dict[str, float]:
    """Relative differences of the output and of all gradients."""
    here = case.build().eval()
    there = copy.deepcopy(here).to(device)
    train = case.train_set(8)
    results = [
        output_and_gradients(model, train.inputs, train.outputs, where)
        for model, where in ((here, "cpu"), (there, device))
    ]
    (y, g), (y_there, g_there) = results
    return {"output": relative(y_there, y), "gradient": relative(g_there, g)}


def output_and_gradients(model: nn.Module, x: Tensor, y: Tensor, device: str) -> tuple[Tensor, Tensor]:
    prediction = model(x.to(device))
    nn.functional.mse_loss(prediction, y.to(device)).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return prediction.detach().cpu(), torch.cat([_real(g).flatten().cpu() for g in gradients])


def _real(g: Tensor) -> Tensor:
    return torch.view_as_real(g) if g.is_complex() else g


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).double().norm() / b.double().norm().clamp_min(1e-30)).item()


def step_without_waiting(case: Case, device: str) -> None:
    """Forward, backward, clipping and AdamW, as training does them. Raises where the host would have to wait."""
    model = case.build().to(device).train()
    train = case.train_set(8)
    x, y = train.inputs.to(device), train.outputs.to(device)
    is_real = all(p.is_floating_point() for p in model.parameters())
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=is_real)

    def step() -> None:
        adamw.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()

    step()  # what is made once, states and compiled kernels, may wait
    with accelerator.refusing_waits(device):
        step()
    accelerator.synchronize(device)


def judge_models(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    broken = [f"{name}: {entry['error']}" for name, entry in found.items() if "error" in entry]
    off = {n: max(e["output"], e["gradient"]) for n, e in found.items() if "error" not in e}
    broken += [f"{name}: off by {value:.1e}" for name, value in off.items() if not value <= ALLOWED]
    if broken:
        return failed(f"{len(broken)} of {len(found)} models: {broken[0]}", models=found, broken=broken)
    worst = max(off, key=lambda name: off[name])
    line = f"{len(found)} pairs of model and task agree with the CPU, {worst} least ({off[worst]:.1e}); no step waits"
    return passed(line, models=found)


def flops(emit: Any, device: str) -> dict[str, Any]:
    """A step costs the same on both devices, or a budget of FLOPs would not be one."""
    counts = {}
    for case in each_model():
        train = case.train_set()
        counts[case.name] = [count_step_flops(case.build().to(where), train, 8) for where in ("cpu", device)]
    different = [f"{name}: {here:.4g} and {there:.4g}" for name, (here, there) in counts.items() if here != there]
    if different:
        return failed(f"FLOPs differ between CPU and device: {different[0]}", flops=counts)
    return passed(f"{len(counts)} models cost the same FLOPs on both", flops=counts)
