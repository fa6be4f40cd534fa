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
    help="A benchmark for neural PDE solvers that a sceptic can trust: same data, same budget, honest baselines.",
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
) -> None:
    """A benchmark for neural PDE solvers that a sceptic can trust: same data, same budget, honest baselines.

    Add --debug to any command to see where an error came from.
    """


app.command("run")(run.run)
app.command("tune")(tune.tune)
app.command("study")(study.study)
app.add_typer(listing.app, name="list")
app.command("show")(show.show)
app.command("params")(params.params)
app.command("check")(check.check)
app.add_typer(new.app, name="new")
app.command("cite")(cite.cite)
app.command("leaderboard")(board.leaderboard)
app.command("compare")(compare.compare)
app.command("recommend")(recommend.recommend)
app.command("rescore")(rescore.rescore)
app.command("evaluate")(evaluate.evaluate)
app.command("plot")(plot.plot)
app.command("report")(report.report)
app.command("serve")(report.serve)
app.command("pack")(pack.pack)
app.command("merge")(merge.merge)
app.command("verify")(verify.verify)
app.command("reproduce")(reproduce.reproduce)
app.command("submit")(submit.submit)
app.command("index")(index.index)
app.command("predict")(predict.predict)
app.command("export")(export.export)
app.command("bench")(bench.bench)
data.app.command("add")(arrays.add)
data.app.command("add-well")(well.add_well)
data.app.command("remove")(arrays.remove)
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.doctor)
