"""Checks 5 and 9 to 12: whole trials. Repeated, interrupted, within their time, with their memory, on several GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from ..base.errors import Interrupted
from ..contract.budget import Budget
from ..training.loop import fit
from ..trials.status import Status
from . import accelerator
from .cases import NUMBERS, Case, each_model, run, trained_trials
from .outcome import failed, passed, skipped, warned

BALLAST = 2**28  # bytes that are allocated and freed before a trial: its peak must not contain them
SECONDS, TOLERANCE = 5.0, 0.1


def twice(emit: Any, device: str) -> dict[str, Any]:
    """The same trial again: the same error to the last bit, or how far off."""
    found: dict[str, Any] = {}
    for cell in trained_trials(device, budget="steps=10"):
        first, second = run(cell), run(cell)
        if first.status != Status.OK or second.status != Status.OK:
            bad = first if first.status != Status.OK else second
            return failed(f"{cell.trial.cell}: {bad.status}, {bad.reason}", trials=found)
        found[cell.trial.model] = [first.metrics["test_err"], second.metrics["test_err"]]
    different = {name: abs(a - b) / abs(a) for name, (a, b) in found.items() if a != b}
    if different:
        worst = max(different, key=lambda name: different[name])
        line = f"{len(different)} of {len(found)} models differ between two runs, {worst} most ({different[worst]:.1e})"
        return warned(line, trials=found)
    return passed(f"{len(found)} models repeat bit for bit", trials=found)


def resume(emit: Any, device: str) -> dict[str, Any]:
    """Stopped after some steps and continued from the file, training ends with the weights of an uninterrupted run."""
    off: dict[str, float] = {}
    for case in each_model():
        whole = weights(case, device)
        with tempfile.TemporaryDirectory() as folder:
            halves = weights(case, device, Path(folder) / "checkpoint")
        off[case.name] = ((whole - halves).norm() / whole.norm()).item()
    worst = max(off, key=lambda name: off[name])
    if not off[worst] <= 1e-5:
        return failed(f"{worst} resumes to other weights, off by {off[worst]:.1e}", differences=off)
    exact = sum(value == 0 for value in off.values())
    return passed(f"{len(off)} models resume where they stopped, {exact} of them bit for bit", differences=off)


def weights(
    case: Case, device: str, checkpoint: Path | None = None, steps: int = 12, stop_after: int = 5
) -> torch.Tensor:
    """After training; with a checkpoint, after stopping and starting again from new weights."""
    torch.manual_seed(2)
    if checkpoint is not None:
        asked = iter([False] * (stop_after - 1) + [True])
        try:
            train_case(case, device, steps, checkpoint=checkpoint, should_stop=lambda: next(asked, True))
        except Interrupted:
            pass
        torch.manual_seed(77)  # restored from the file
    module = train_case(case, device, steps, checkpoint=checkpoint)
    reals = [torch.view_as_real(p) if p.is_complex() else p for p in module.parameters()]
    return torch.cat([p.detach().flatten().cpu() for p in reals])


def train_case(case: Case, device: str, steps: int, **options: Any) -> torch.nn.Module:
    state = torch.random.get_rng_state()
    module = case.build().to(device)
    torch.random.set_rng_state(state)
    where = torch.device(device)
    fit(module, case.train_set(), Budget("steps", steps), NUMBERS, seed=0, device=where, flops_step=1.0, **options)
    return module


def seconds(emit: Any, device: str) -> dict[str, Any]:
    """A budget of five seconds, measured by a clock outside the training loop."""
    case = next(each_model())
    module, train, where = case.build().to(device), case.train_set(), torch.device(device)
    fit(module, train, Budget("steps", 3), NUMBERS, seed=0, device=where, flops_step=1.0)  # what is done once
    started = time.perf_counter()
    state = fit(module, train, Budget("seconds", SECONDS), NUMBERS, seed=0, device=where, flops_step=1.0)
    accelerator.synchronize(device)
    return judge_seconds(time.perf_counter() - started, state.spent.seconds, state.spent.steps)


def judge_seconds(elapsed: float, booked: float, steps: int) -> dict[str, Any]:
    line = f"a budget of {SECONDS:g} s took {elapsed:.2f} s, booked {booked:.2f} s, {steps} steps"
    within = all(abs(value - SECONDS) <= TOLERANCE * SECONDS for value in (elapsed, booked))
    return (passed if within else failed)(line, elapsed=elapsed, booked=booked, steps=steps)


def memory(emit: Any, device: str) -> dict[str, Any]:
    """A trial's peak is its own: not 0, and nothing of what the process had before."""
    ballast = torch.ones(BALLAST // 4, device=device)
    accelerator.synchronize(device)
    del ballast
    record = run(next(trained_trials(device, budget="steps=5")))
    if record.status != Status.OK:
        return failed(f"the trial ended as {record.status}: {record.reason}")
    return judge_memory(record.peak_memory or 0, accelerator.is_gpu(device))


def judge_memory(peak: int, is_gpu: bool) -> dict[str, Any]:
    line = f"peak of a small trial: {peak / 2**20:.0f} MB"
    if peak <= 0 and is_gpu:  # on a CPU it is the growth of the process, which may have had enough memory already
        return failed(f"{line}: nothing was measured", peak=peak)
    if peak >= BALLAST:
        return failed(f"{line}: contains the {BALLAST // 2**20} MB that were freed before it", peak=peak)
    return passed(line, peak=peak)


def several(emit: Any, device: str) -> dict[str, Any]:
    """With two GPUs: one model on both, and two trials side by side."""
    if not accelerator.is_gpu(device):
        return skipped("--ddp 2 and --jobs 2: needs two GPUs")
    count = torch.cuda.device_count()
    if count < 2:
        return skipped(f"--ddp 2 and --jobs 2: needs two GPUs, there is {count}")
    case = next(each_model())
    results = {}
    for option in ("--ddp", "--jobs"):
        with tempfile.TemporaryDirectory() as folder:
            results[f"{option} 2"] = run_command(case, option, folder)
    broken = [f"{name}: {end}" for name, end in results.items() if end != "ok"]
    return failed(broken[0], **results) if broken else passed("--ddp 2 and --jobs 2 end well on two GPUs", **results)


def run_command(case: Case, option: str, folder: str) -> str:
    command = [
        *(sys.executable, "-m", "pdebench_hss", "run", "--models", case.model.name, "--tasks", case.task.name),
        *("--scale", "smoke", "--budget", "steps=10", "--seeds", "2", "--device", "cuda", option, "2", "--out", folder),
    ]
    environment = {k: v for k, v in os.environ.items() if k != "PDEBENCH_HSS_DEBUG"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or [""]
    return "ok" if done.returncode == 0 else f"exit code {done.returncode}: {last[0][:300]}"
