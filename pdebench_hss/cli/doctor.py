"""``doctor``: is this machine ready, and if not, what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from .output import Format, FormatOption, print_rows


def doctor(
    form: FormatOption = Format.table,
    device: Annotated[
        str, typer.Option(metavar="cuda|cuda:N|cpu", help="Try everything that a trial needs on this device.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="With --device: the report to send in.  [default: doctor-DEVICE.json]")
    ] = None,
) -> None:
    """Check versions, devices, cache and plugins; exit 1 if something needs attention.

    With --device, twelve checks run on that device instead, as trials would: docs/gpu.md. Minutes on a GPU.
    """
    if device:
        examine_device(device, out or Path(f"doctor-{device.replace(':', '')}.json"))
        return
    from ..base import machine
    from ..base.errors import StoreError
    from ..base.files import check_writable, folder_size, human_bytes
    from ..contract.registry import load_registry
    from ..data.cache import cache_dir, data_dir
    from ..runs.config import available_cores

    rows: list[dict[str, str]] = []

    def report(what: str, value: object, problem: str = "") -> None:
        rows.append({"what": what, "value": str(value), "status": problem or "ok"})

    for package, version in machine.versions().items():
        report(package, version)
    report("hardware", machine.hardware_line())
    report("cores for trials", available_cores())
    report("GPU", _gpus())
    try:
        check_writable(data_dir())
        problem = ""
    except StoreError as error:
        problem = f"{error}".replace("Choose another --out.", "Set PDEBENCH_HSS_CACHE to a writable directory.")
    report("cache", f"{cache_dir()} ({human_bytes(folder_size(cache_dir()))})", problem)
    if not problem:
        free = shutil.disk_usage(data_dir()).free
        report("free disk for data", human_bytes(free), "" if free > 2e9 else "less than 2 GB: small tasks only")
    registry = load_registry()
    report("models", len(registry.models), "" if registry.models else "no model is installed: reinstall pdebench-hss")
    report("tasks", len(registry.tasks), "" if registry.tasks else "no task is installed: reinstall pdebench-hss")
    for broken in registry.broken:
        fix = f"{broken.reason}; upgrade or uninstall {broken.origin.distribution}"
        report(f"plugin {broken.origin.entry_point}", str(broken.origin), fix)
    problems = any(row["status"] != "ok" for row in rows)
    missing = []
    for extra, use in EXTRAS.items():
        found = machine.versions(use.packages)
        complete = all(package in found for package in use.packages)
        missing += [] if complete else [extra]
        value = ", ".join(f"{package} {found.get(package, 'missing')}" for package in use.packages)
        report(f"{extra}: {use.purpose}", value, "" if complete else "optional")
    print_rows(rows, ["what", "value", "status"], form)
    if missing and form is Format.table:
        print("\nto add what is optional:")
        for extra in missing:  # below the table, where a command is in one piece
            print(f"pip install 'pdebench-hss[{extra}]'")
    if problems:
        raise typer.Exit(1)


class Extra(NamedTuple):
    purpose: str
    packages: tuple[str, ...]


# What users may add with pip install 'pdebench-hss[NAME]'; nothing is wrong without it.
EXTRAS = {
    "plot": Extra("figures", ("matplotlib",)),
    "tune": Extra("tuning", ("optuna",)),
    "export": Extra("ONNX", ("onnx", "onnxscript", "onnxruntime")),
    "ray": Extra("clusters", ("ray", "fsspec")),
    "kernels": Extra("Triton on GPUs", ("triton",)),
    "zarr": Extra(".zarr arrays", ("zarr",)),
    "zoo": Extra("other libraries", ("neuraloperator", "the_well", "exponax")),
}


def _gpus() -> str:
    """Their names, or why there is none."""
    import torch

    from ..base.devices import look
    from ..doctor.accelerator import why_not

    if names := [gpu.name for gpu in look().gpus]:
        return f"{', '.join(names)} (CUDA {torch.version.cuda})"
    return "Apple's, by MPS" if torch.backends.mps.is_available() else f"none: {why_not('cuda')}"


def examine_device(device: str, out: Path) -> None:
    """The checks of `pdebench_hss.doctor`, a line each, and one JSON."""
    from ..base.errors import UsageError
    from ..base.files import check_writable
    from ..contract.registry import load_registry
    from ..data.cache import data_dir
    from ..doctor import accelerator, report
    from ..runs.config import available_cores

    if reason := accelerator.why_not(device):
        raise UsageError(f"--device {device}: {reason}")
    check_writable(out.absolute().parent)
    check_writable(data_dir())
    found = report.examine(report.all_checks(load_registry()), device, threads=available_cores())
    report.write(found, out)
    if found["failed"]:
        print(f"{len(found['failed'])} of {len(found['checks'])} checks failed: {', '.join(found['failed'])}")
    print(f"Report: {out}. docs/gpu.md says what is in it and where to send it.")
    if found["failed"]:
        raise typer.Exit(1)
