"""``doctor``: is this machine ready, and if not, what to do."""

from __future__ import annotations

import shutil

import typer

from .output import Format, FormatOption, print_rows


def doctor(form: FormatOption = Format.table) -> None:
    """Check versions, devices, cache and plugins; exit 1 if something needs attention."""
    import torch

    from .. import machine
    from ..config import available_cores
    from ..data import cache_dir, data_dir
    from ..errors import StoreError
    from ..files import check_writable, folder_size, human_bytes
    from ..plugins import load_registry

    rows: list[dict[str, str]] = []

    def report(what: str, value: object, problem: str = "") -> None:
        rows.append({"what": what, "value": str(value), "status": problem or "ok"})

    for package, version in machine.versions().items():
        report(package, version)
    report("hardware", machine.hardware_line())
    report("cores for trials", available_cores())
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    report("devices", ", ".join(devices))
    try:
        check_writable(data_dir())
        problem = ""
    except StoreError as error:
        problem = f"{error}".replace("Choose another --out.", "Set PDEBENCH_HSS_CACHE to a place that can be written.")
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
    print_rows(rows, ["what", "value", "status"], form)
    if any(row["status"] != "ok" for row in rows):
        raise typer.Exit(1)
