"""The commands by name. Each module below holds one family and imports what is heavy inside its functions."""

from __future__ import annotations

from typing import Annotated

import typer

from ..base.version import __version__
from . import (
    arrays,
    bench,
    board,
    check,
    cite,
    compare,
    data,
    doctor,
    evaluate,
    export,
    index,
    listing,
    merge,
    new,
    pack,
    params,
    plot,
    predict,
    recommend,
    report,
    reproduce,
    rescore,
    run,
    show,
    study,
    submit,
    tune,
    verify,
    well,
)

app = typer.Typer(
    name="pdebench-hss",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"pdebench-hss {__version__}")
        raise typer.Exit


@app.callback(epilog="Start with:  pdebench-hss run --models all --tasks poisson_1d")
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[  # `main` takes it from wherever it stands
        bool, typer.Option("--debug", help="With any command: show where an error came from.")
    ] = False,
) -> None:
    """A benchmark for neural PDE solvers that a sceptic can trust: same data, same budget, honest baselines."""


app.command("run")(run.run)
app.command("tune", short_help="Choose options on held-out samples: the same tries for all.")(tune.tune)
app.command("study", short_help="Run and draw one table or figure of the paper.")(study.study)
app.add_typer(listing.app, name="list")
app.command("show", short_help="Everything about one model, task, metric or study.")(show.show)
app.command("params", short_help="Count the parameters of models on tasks.")(params.params)
app.command("check", short_help="Check that a model or a task keeps its promises.")(check.check)
app.add_typer(new.app, name="new")
app.command("cite", short_help="Print BibTeX for what a run used.")(cite.cite)
app.command("leaderboard", short_help="Rebuild and print the tables of a board.")(board.leaderboard)
app.command("compare", short_help="Compare boards cell by cell, with intervals.")(compare.compare)
app.command("recommend", short_help="Which models are fast and accurate enough?")(recommend.recommend)
app.command("rescore", short_help="Compute every metric of a board again.")(rescore.rescore)
app.command("evaluate", short_help="Try trained models on other grids, parameters or samples.")(evaluate.evaluate)
app.command("plot", short_help="Draw a board: ranks, error against cost and compute.")(plot.plot)
app.command("report", short_help="Write a board as one HTML page to send around.")(report.report)
app.command("serve", short_help="Show a board in the browser while a run goes on.")(report.serve)
app.command("pack", short_help="Pack the records of a finished board into few files.")(pack.pack)
app.command("merge", short_help="Join boards; conflicts are named.")(merge.merge)
app.command("verify", short_help="Check a board that somebody else made.")(verify.verify)
app.command("reproduce", short_help="Make one cell of a board again.")(reproduce.reproduce)
app.command("submit", short_help="Pack a board and its plugins, to be published.")(submit.submit)
app.command("index", short_help="Write an index of every cell of every board.")(index.index)
app.command("predict")(predict.predict)
app.command("export", short_help="Write a trained model for other programs (ONNX, torch.export).")(export.export)
app.command("bench", short_help="Measure time, memory and FLOPs side by side.")(bench.bench)
data.app.command("add")(arrays.add)
data.app.command("add-well")(well.add_well)
data.app.command("remove")(arrays.remove)
app.add_typer(data.app, name="data")
app.command("doctor", short_help="Is this machine ready, and what could be installed?")(doctor.doctor)
