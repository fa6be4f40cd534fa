"""``new``: a plugin package to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..contract.registry import load_registry

app = typer.Typer(
    help="Start a model or a task of your own: a complete package with tests.",
    short_help="Start a model or a task of your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and _.")]
IntoOption = Annotated[Path, typer.Option(help="The folder that gets the new package.")]


@app.command()
def model(name: NameArgument, into: IntoOption = Path()) -> None:
    """Write a package with a small network that works, its entry point and the contract as its tests.

    Example:  pdebench-hss new model my_solver
    """
    _create("model", name, into)
    print(
        f"next:  cd {into / name} && pip install -e '.[test]' && pytest\n"
        f"       pdebench-hss check {name}\n"
        f"       pdebench-hss run --models {name},resnet,linear,mean --tasks poisson_1d"
    )


@app.command()
def task(name: NameArgument, into: IntoOption = Path()) -> None:
    """Write a package with a PDE that is solved exactly, its entry point and the contract as its tests.

    Example:  pdebench-hss new task my_pde
    """
    _create("task", name, into)
    print(
        f"next:  cd {into / name} && pip install -e '.[test]' && pytest\n"
        f"       pdebench-hss check {name}\n"
        f"       pdebench-hss run --models all --tasks {name}"
    )


def _create(kind: str, name: str, into: Path) -> None:
    from ..contract.scaffold import create

    for path in create(kind, name, into, load_registry()):
        print(f"wrote  {path}")
