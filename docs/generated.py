"""Pages that the program writes itself when the site is built: its commands, and a gallery of its figures.

* commands.md: the help of every command, as `pdebench-hss COMMAND --help` prints it.
* gallery.md: figures that `pdebench-hss plot` draws of a committed board, each with its command, and those of studies.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
from mkdocs.structure.files import File, Files

from pdebench_hss.boards.chosen_rows import choose_rows
from pdebench_hss.boards.ladders import ladder_groups
from pdebench_hss.boards.reading import read_board
from pdebench_hss.cli.app import app
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.plots import board_looks, draw_board

ROOT = Path(__file__).parents[1]
WIDTH = 78
BOARDS = ("medium-cpu", "small-cpu")  # the first that is there is drawn
PARETO_TASKS = ("poisson_2d", "heat_1d", "gray_scott_inverse")


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "commands.md", content=commands_page()))
    page, images = gallery()
    files.append(File.generated(config, "gallery.md", content=page))
    for name, content in images.items():
        files.append(File.generated(config, f"images/gallery/{name}", content=content))
    return files


# ---------------------------------------------------------------- commands


def commands_page() -> str:
    parts = [
        "# Commands\n",
        "What `pdebench-hss COMMAND --help` prints, for every command. `--debug`, added to any of them, shows where an "
        "error came from.\n",
    ]
    for words, text in helps():
        parts.append(f"## {' '.join(words)}\n\n```text\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


def helps() -> Iterator[tuple[list[str], str]]:
    """The words of each command and its help, in the order of `pdebench-hss --help`."""
    root = typer.main.get_command(app)
    yield from _helps(
        root, root.context_class(root, info_name="pdebench-hss", **root.context_settings, **_widths()), []
    )


def _helps(command: Any, context: Any, words: list[str]) -> Iterator[tuple[list[str], str]]:
    inner = getattr(command, "commands", {})
    if not words or not inner:
        yield words or ["pdebench-hss"], command.get_help(context)
    for name, child in inner.items():
        under = child.context_class(child, info_name=name, parent=context, **_widths())
        yield from _helps(child, under, [*words, name])


def _widths() -> dict[str, int]:
    return {"terminal_width": WIDTH, "max_content_width": WIDTH}


# ---------------------------------------------------------------- the gallery


class Picture(NamedTuple):
    title: str
    text: str
    command: str
    options: dict[str, str]


def pictures(board: Any) -> list[Picture]:
    """What is drawn of a board, as far as it has the rows."""
    tasks = ",".join(task for task in PARETO_TASKS if task in set(board["task"]))
    found = [
        Picture(
            "Average ranks",
            "Who is better over all tasks, and who can't be told apart. Variants of one equation have one vote.",
            "--kind ranks",
            {"kinds": "ranks"},
        ),
        Picture(
            "Error against what it costs",
            "Training time here; prediction time, parameters and FLOPs are drawn, too. What is on the grey line is not "
            "beaten in both.",
            f"--kind pareto --tasks {tasks}",
            {"kinds": "pareto", "tasks": tasks, "only": "pareto_fit_seconds"},
        ),
    ]
    ladder = next(iter(ladder_groups(board)), None)
    if ladder is not None:
        task = str(ladder["task"].iloc[0])
        text = "Every model along a ladder of budgets; numbers where one overtakes another."
        options = {"kinds": "compute", "tasks": task}
        found.append(Picture("Error against compute", text, f"--kind compute --tasks {task}", options))
    return found


def gallery() -> tuple[str, dict[str, bytes]]:
    """The page and its images."""
    name = next(name for name in BOARDS if (ROOT / "leaderboards" / name / "records").is_dir())
    board, registry = read_board(ROOT / "leaderboards" / name), load_registry()
    titles = registry.titles()
    look = board_looks(board.summary, titles, board.levels)
    parts = [
        "# Gallery\n",
        f"Figures that the program drew when this site was built, from the committed board `leaderboards/{name}`. A "
        "model has one colour, marker and line in all of them and on the board's page; models that are not trained "
        "are grey.\n",
    ]
    images: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for picture in pictures(board.summary):
            rows = choose_rows(board.summary, picture.options.get("tasks", ""))
            drawn, _ = draw_board(
                rows, titles, Path(folder), ["png"], None, [picture.options["kinds"]], board.levels,
                registry.families(), look,
            )  # fmt: skip
            shown = [path for path in drawn if path.stem == picture.options.get("only", path.stem)][:1]
            for path in shown:
                images[path.name] = path.read_bytes()
                words = picture.command.replace(" --tasks", " \\\n    --tasks")
                command = f"```text\npdebench-hss plot leaderboards/{name} {words}\n```\n"
                link = f"![{picture.title}](images/gallery/{path.name})\n"
                parts += [f"## {picture.title}\n", f"{picture.text}\n", command, link]
    studies, more = _studies()
    return "\n".join([*parts, *studies]), images | more


def _studies() -> tuple[list[str], dict[str, bytes]]:
    """Figures of studies, as they were committed with their boards."""
    parts, images = ["## Studies\n", "Each is one command; [Studies and figures](studies.md) has the list.\n"], {}
    for path in sorted((ROOT / "leaderboards" / "studies").glob("*/figures/*.png")):
        name, _, scale = path.parents[1].name.rpartition("-")
        images[f"study_{path.name}"] = path.read_bytes()
        parts.append(f"```text\npdebench-hss study {name} --scale {scale}\n```\n")
        parts.append(f"![The study {name}](images/gallery/study_{path.name})\n")
    return parts, images
