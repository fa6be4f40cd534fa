"""Runs the checks one by one in forked workers, prints what they found, and writes it as one JSON file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..base import machine
from ..base.files import replacing
from ..workers.events import Crashed, Done, Failed, TimedOut
from ..workers.jobs import Job
from ..workers.pool import WorkerPool
from .outcome import FAIL, Outcome

FORMAT = 1
TIMEOUT = 600.0  # seconds for one check
FIRST = {
    "versions": "pdebench_hss.doctor.environment:versions",
    "fork": "pdebench_hss.doctor.environment:fork",
    "flags": "pdebench_hss.doctor.environment:flags",
    "models": "pdebench_hss.doctor.numerics:models",
    "same trial twice": "pdebench_hss.doctor.trials:twice",
}
# Between these: what plugins bring (hook `pdebench_hss_device_checks`); of the built-in ones kernels and timing.
LAST = {
    "flops": "pdebench_hss.doctor.numerics:flops",
    "save and resume": "pdebench_hss.doctor.trials:resume",
    "seconds": "pdebench_hss.doctor.trials:seconds",
    "peak memory": "pdebench_hss.doctor.trials:memory",
    "two GPUs": "pdebench_hss.doctor.trials:several",
}


def all_checks(registry: Any) -> dict[str, str]:
    return {**FIRST, **{name: check.spec for name, check in registry.device_checks.items()}, **LAST}


def examine(
    checks: Mapping[str, str],
    device: str,
    tell: Callable[[str], None] = print,
    threads: int = 1,
    timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """Run the checks and return the report. One that crashes, hangs or raises fails, and the others go on."""
    found, width = [], max(map(len, checks), default=0)
    with WorkerPool(1, threads, preload=("pdebench_hss.trials.warm",)) as pool:
        for name, target in checks.items():
            started = time.perf_counter()
            outcome = run_check(pool, name, target, device, timeout)
            tell(f"{outcome.status:<5} {name:<{width}}  {outcome.line}")
            found.append({"check": name, "seconds": round(time.perf_counter() - started, 1), **outcome.to_dict()})
    failed = [entry["check"] for entry in found if entry["status"] == FAIL]
    return {
        "format": FORMAT,
        "device": device,
        "versions": machine.versions(("triton",)),
        "source": machine.source_state(),
        "failed": failed,
        "checks": found,
    }


def run_check(pool: WorkerPool, name: str, target: str, device: str, timeout: float) -> Outcome:
    for event in pool.run([Job(name, target, {"device": device})], timeout):
        if isinstance(event, Done):
            return Outcome(**event.value)
        if isinstance(event, Failed):
            failure = event.failure
            return Outcome(FAIL, f"{failure.kind}: {failure.message}", {"trace": failure.trace})
        if isinstance(event, Crashed):
            return Outcome(FAIL, f"its process ended: {event.reason}")
        if isinstance(event, TimedOut):
            return Outcome(FAIL, f"did not end within {timeout:.0f} s")
    return Outcome(FAIL, "its worker ended without a result")


def write(report: Mapping[str, Any], path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
