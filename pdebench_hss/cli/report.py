"""``report``: boards as one page to send around. ``serve``: the same, live, while a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import PluginOption, installed


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories that `run` wrote.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    plugin: PluginOption = None,
) -> None:
    """Write one self-contained HTML page about one or several boards: tables, charts and pictures, no network needed.

    Example:  pdebench-hss report leaderboards/latest --out report.html
    """
    from ..base.files import human_bytes
    from ..report import write_report

    registry = installed(plugin)
    made = write_report(directories, out, registry.reference_tables(), registry.metric_specs())
    print(
        f"wrote {out}: {made['rows']} rows, {made['trials']} trials, pictures of {made['pictures']}, "
        f"{human_bytes(made['bytes'])}"
    )


def serve(
    directory: Annotated[Path, typer.Argument(help="A directory that `run` writes.")] = Path("leaderboards/latest"),
    port: Annotated[int, typer.Option(help="0 takes any free one.")] = 8765,
    host: Annotated[str, typer.Option(help="Who may connect: the default is this machine only.")] = "127.0.0.1",
    plugin: PluginOption = None,
) -> None:
    """Show a board in the browser while a run goes on; new records appear by themselves. Ctrl-C ends it.

    Example:  pdebench-hss serve leaderboards/latest
    """
    from ..base.errors import UsageError
    from ..report.server import Server

    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory; `pdebench-hss run --out {directory}` makes it")
    registry = installed(plugin)
    try:
        server = Server(directory, host, port, registry.reference_tables(), registry.metric_specs())
    except OSError as error:
        raise UsageError(f"can't listen on {host}:{port}: {error.strerror}. Choose another --port.") from None
    with server:
        print(f"serving {directory} at {server.address}   (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped.")
