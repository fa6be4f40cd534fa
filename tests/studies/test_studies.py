"""Studies: declared in a few lines, planned as one, run by the engine of `run`, and ending in a CSV and a figure."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pdebench_hss.base.errors import UsageError
from pdebench_hss.cli import main
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.study import Sweep, make_study
from pdebench_hss.runs.estimates import RATE, STEP, TRIAL, estimate, step_flops
from pdebench_hss.runs.plan import make_plan
from pdebench_hss.studies.study_run import StudyRun, experiments, with_models, write_study
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.trial import Trial

REGISTRY = load_registry()
BUILT_IN = [
    *("ablation_gray_scott", "burgers_beta", "data_efficiency_1d", "data_efficiency_3d", "exact_recovery"),
    *("table_1d", "table_2d", "timing"),
]
TOY = {
    "name": "toy_study",
    "title": "A toy",
    "models": "toy_conv,mean,toy_raise,toy_rollout_only",
    "tasks": "toy_params",
    "task_options": {"factor": [1.0, 2.0]},
    "train_size": [4, 8],
    "seeds": 2,
    "columns": {"factor": "task.factor", "width": "model.width"},
    "figure": {"kind": "curves", "x": "n_train", "line": "model", "panel": "factor"},
    "scales": {"smoke": {}},
}


# ---------------------------------------------------------------- declared


def test_a_sweep_is_the_product_of_everything_that_is_a_list():
    sweep = Sweep("net,mean", "pde", model_options={"rank": [2, 4]}, train_size=[5, 10], data_seed=[0, 1])
    runs = list(sweep.experiments())
    assert [(run["train_size"], run["data_seed"]) for run in runs] == [(5, 0), (5, 1), (10, 0), (10, 1)]
    assert runs[0]["models"] == ["net[rank=2]", "net[rank=4]", "mean[rank=2]", "mean[rank=4]"]
    assert runs[0]["tasks"] == ["pde"]


def test_what_stands_below_a_scale_overrides_what_stands_above():
    study = make_study({**TOY, "scales": {"smoke": {"train_size": 3}, "small": [{"models": "mean"}, {}]}})
    assert study.sweeps("smoke")[0].train_size == 3
    assert [sweep.models for sweep in study.sweeps("small")] == ["mean", TOY["models"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modles": "net"}, "unknown key 'modles'. Did you mean 'models'"),
        ({"scales": {"smoke": {"train_sizes": 3}}}, "smoke: unknown key 'train_sizes'. Did you mean 'train_size'"),
        ({"scales": {"large": {}}}, "unknown scale 'large'; scales are smoke, small, medium, paper"),
        ({"columns": {"beta": "beta"}}, "column 'beta' must be task.NAME or model.NAME, not 'beta'"),
        ({"name": "Toy"}, "lower-case"),
        ({"figure": {"x": "n_train"}}, "figure needs a kind"),
    ],
)
def test_mistakes_in_a_declaration_are_named(change, message):
    with pytest.raises(ValueError, match="study") as caught:
        make_study({**TOY, **change})
    assert message in str(caught.value)


def test_a_scale_a_study_does_not_have_is_refused():
    with pytest.raises(UsageError, match="has no scale 'paper'; it has smoke"):
        make_study(TOY).sweeps("paper")


# ---------------------------------------------------------------- the built-in ones


def test_the_built_in_studies_come_in_by_the_hook_like_everybody_elses():
    ours = [name for name, found in REGISTRY.studies.items() if found.origin.entry_point == "studies"]
    assert sorted(ours) == BUILT_IN


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_study_can_be_planned_at_every_scale(name, scale, tmp_path):
    study = REGISTRY.study(name).spec
    engine = StudyRun(study, scale, {"out": str(tmp_path)}, REGISTRY)
    cells = engine.plan().cells
    assert len({cell.trial.key for cell in cells}) == len(cells) > 5
    assert {cell.action for cell in cells} <= {"run", "skip"}
    free = {cell.trial.model for cell in cells if cell.trial.training_free}
    assert free, "a study without a baseline says nothing"
    assert all(
        column in study.columns_of(cells[0].trial.task_params, cells[0].trial.hparams) for column in study.columns
    )


def planned(name: str, scale: str, tmp_path: Path) -> list[Trial]:
    engine = StudyRun(REGISTRY.study(name).spec, scale, {"out": str(tmp_path)}, REGISTRY)
    return [cell.trial for cell in engine.plan().cells]


def test_at_scale_paper_they_span_what_the_paper_spans(tmp_path):
    sizes = {trial.n_train for trial in planned("data_efficiency_1d", "paper", tmp_path)}
    assert (min(sizes), max(sizes)) == (10, 1000)
    sizes = {trial.n_train for trial in planned("data_efficiency_3d", "paper", tmp_path)}
    assert (min(sizes), max(sizes)) == (16, 256)
    betas = {trial.task_params["beta"] for trial in planned("burgers_beta", "paper", tmp_path)}
    assert betas == {1.0, 1e-2, 1e-4}
    grid = {
        tuple(trial.hparams[name] for name in ("rank", "outer_rank", "levels"))
        for trial in planned("ablation_gray_scott", "paper", tmp_path)
        if trial.model == "neural_hss"
    }
    assert grid == {
        (rank, outer, levels) for rank in (2, 4, 8, 12, 16) for outer in (2, 4, 8, 16, 24, 32) for levels in (1, 2, 3)
    }


def test_in_the_recovery_study_models_have_the_operators_own_rank_and_depth(tmp_path):
    for trial in planned("exact_recovery", "small", tmp_path):
        if trial.model != "linear":
            for name in ("rank", "levels"):
                assert trial.hparams[name] == trial.task_params[name]
    draws = {trial.data_seed for trial in planned("exact_recovery", "small", tmp_path)}
    assert len(draws) == 3  # the theorem speaks of Gaussian samples, so they are what is drawn again


# ---------------------------------------------------------------- run


@pytest.fixture
def registry(toys):
    return load_registry([toys])


def run_toy(registry, toys: str, out: Path, **settings):
    study = make_study(TOY)
    given = {"out": str(out), "executor": "inline", "plugins": (toys,), **settings}
    engine = StudyRun(study, "smoke", given, registry)
    outcome = engine.execute()
    table, paths = write_study(study, outcome.records, registry, out, ["png"])
    return outcome, table, paths


def test_a_study_runs_resumes_and_always_writes_the_same(registry, toys, tmp_path):
    outcome, table, paths = run_toy(registry, toys, tmp_path / "out")
    assert [path.name for path in paths] == ["toy_study.csv", "toy_study.png"]
    # factors, train sizes, seeds, models that can do the task; no seed changes `mean`
    assert len(outcome.plan.todo) == 2 * 2 * (2 * 2 + 1)
    contents = [path.read_bytes() for path in paths]

    again, _, paths = run_toy(registry, toys, tmp_path / "out")
    assert {cell.trial.model for cell in again.plan.todo} == {"toy_raise"}  # only what failed is tried again
    assert [path.read_bytes() for path in paths] == contents

    # Means and deviations are those of the trials, pooled over seeds and nothing else.
    trials = pd.read_csv(tmp_path / "out" / "results.csv")
    row = table[(table["model"] == "toy_conv") & (table["n_train"] == 8) & (table["factor"] == 1.0)].iloc[0]
    trials = trials[(trials["task"] == "toy_params[factor=1.0]") & (trials["n_train"] == 8)]
    mine = trials[trials["model"] == "toy_conv"]
    errors = list(mine["test_err"])
    assert len(errors) == 2
    assert row["test_err_mean"] == pytest.approx(statistics.fmean(errors), rel=1e-12)
    assert row["test_err_std"] == pytest.approx(statistics.stdev(errors), rel=1e-9)
    assert row["width"] == 4

    # What failed and what can't be done are rows with their reasons.
    raised = table[table["model"] == "toy_raise"]
    assert set(raised["status"]) == {"failed"}
    assert raised["reason"].str.len().gt(5).all()
    assert raised["test_err_mean"].isna().all()
    assert set(table[table["model"] == "toy_rollout_only"]["reason"]) == {"rollout tasks only"}


def test_draws_of_the_data_are_pooled_like_seeds(registry, toys, tmp_path):
    one = {"models": "mean", "task_options": {}, "train_size": 4, "seeds": 1}
    study = make_study({**TOY, **one, "data_seed": [0, 1]})
    settings = {"out": str(tmp_path), "executor": "inline", "plugins": (toys,)}
    records = StudyRun(study, "smoke", settings, registry).execute().records
    table, _ = write_study(study, records, registry, tmp_path, [])
    assert len(records) == 2
    assert list(table["n_seeds"]) == [2]
    errors = [record.metrics["test_err"] for record in records]
    assert len(set(errors)) == 2
    assert table["test_err_mean"].iloc[0] == pytest.approx(statistics.fmean(errors))


def test_a_trial_asked_for_by_two_sweeps_is_one_trial(registry, toys, tmp_path):
    study = make_study({**TOY, "scales": {"smoke": [{"models": "mean"}, {"models": "mean,toy_conv"}]}})
    plan = StudyRun(study, "smoke", {"out": str(tmp_path), "plugins": (toys,)}, registry).plan()
    assert len(plan.cells) == 2 * 2 * (1 + 2)  # factors, train sizes, seeds
    assert plan.cells[0].trial.model == "mean"  # in the order of the declaration


def test_other_models_can_take_the_place_of_a_studys_own(registry, toys, tmp_path):
    study = with_models(make_study(TOY), "toy_conv[width=2]")
    configs = experiments(study, "smoke", {"out": str(tmp_path), "plugins": (toys,)})
    models = {cell.trial.model_label for c in configs for cell in make_plan(c, registry, Store(tmp_path)).cells}
    assert models == {"toy_conv[width=2]"}


def test_the_board_says_which_study_made_it(registry, toys, tmp_path):
    settings = {"out": str(tmp_path), "executor": "inline", "plugins": (toys,), "seeds": "0,4"}
    StudyRun(make_study({**TOY, "task_options": {}}), "smoke", settings, registry, models="mean").execute()
    commands = json.loads((tmp_path / "plan.json").read_text())["commands"]
    assert commands == [f"pdebench-hss study toy_study --scale smoke --seeds 0,4 --models mean --plugin {toys}"]


# ---------------------------------------------------------------- how long


def test_the_estimate_comes_from_flops_and_then_from_records(registry, toys, tmp_path):
    study = make_study({**TOY, "models": "toy_conv", "task_options": {}, "train_size": 8, "seeds": 1})
    settings = {"out": str(tmp_path), "executor": "inline", "plugins": (toys,), "jobs": 1}
    engine = StudyRun(study, "smoke", settings, registry)
    flops = 3 * 2 * 4 * (4 * 16 * 3 + 4 * 16)  # upper bound of forward and backward: batch 4, width 4, 16 points
    guess = estimate(engine.plan(), [toys])
    assert (guess.from_records, guess.from_flops) == (0, 1)
    assert 6 * STEP + TRIAL < guess.seconds < 6 * (STEP + flops / RATE) + TRIAL
    record = engine.execute().records[0]
    plan = StudyRun(study, "smoke", {**settings, "force": True}, registry).plan()
    known = estimate(plan, [toys])
    assert (known.from_records, known.from_flops) == (1, 0)
    assert known.seconds == pytest.approx(record.seconds["total"], rel=1e-6)


def test_flops_on_the_meta_device_are_those_of_a_real_step(tmp_path):
    """`run_trial` counts a real batch; the estimate counts without computing."""
    import pdebench_hss as pb

    board = pb.run("deeponet,fno,linear", "poisson_1d", scale="smoke", executor="inline", out=str(tmp_path)).results
    info = REGISTRY.task("poisson_1d").spec.info("smoke")
    for model, measured in zip(board["model"], board["flops_step"]):
        spec = REGISTRY.model(model).spec
        counted = step_flops(spec, info, spec.hparams_for(info), info.size.recipe.batch)
        assert counted == (0.0 if model == "linear" else measured)


# ---------------------------------------------------------------- typed


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """``typed("study timing --dry-run")`` in an empty directory: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(line.split())
        return int(end.value.code or 0), *capsys.readouterr()

    return call


def test_a_dry_run_estimates_and_writes_nothing(typed, tmp_path):
    code, out, err = typed("study data_efficiency_1d --scale smoke --seeds 1 --dry-run")
    assert code == 0, err
    assert "27 from FLOPs" in out
    assert not (tmp_path / "leaderboards").exists()


def test_the_command_ends_in_a_csv_and_a_figure(typed, tmp_path):
    code, out, err = typed(
        "study data_efficiency_1d --scale smoke --seeds 2 --models deeponet,mean --figure png,svg --executor inline"
    )
    assert code == 0, err
    folder = tmp_path / "leaderboards" / "studies" / "data_efficiency_1d-smoke"
    table = pd.read_csv(folder / "figures" / "data_efficiency_1d.csv")
    assert list(zip(table["n_train"], table["n_seeds"]))[::2] == [(2, 2), (4, 2), (8, 2)]
    assert (folder / "figures" / "data_efficiency_1d.png").read_bytes().startswith(b"\x89PNG")
    assert "DeepONet" in (folder / "figures" / "data_efficiency_1d.svg").read_text()
    assert "data_efficiency_1d.svg" in out
    assert (folder / "leaderboard.csv").exists()  # a board like any other


def test_a_study_with_a_failed_trial_is_drawn_and_ends_with_one(typed, tmp_path, toys):
    study = {**TOY, "models": "toy_conv,toy_raise", "figure": {"kind": "curves", "x": "n_train"}}
    study["task_options"] = {"factor": [1.0]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study))
    (tmp_path / "mine.py").write_text(MINE)
    code, _, err = typed(
        f"study toy_study --scale smoke --plugin {toys} --plugin mine.py --executor inline --out board"
    )
    assert code == 1, err
    assert (tmp_path / "board" / "figures" / "toy_study.png").exists()
    assert "toy_raise" in (tmp_path / "board" / "figures" / "toy_study.csv").read_text()


MINE = """
from pathlib import Path
from pdebench_hss import hookimpl, read_study

@hookimpl
def pdebench_hss_studies():
    return [read_study(Path(__file__).parent / "mine.yaml")]
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("timming", "no study 'timming'. Did you mean 'timing'?  See: pdebench-hss list studies"),
        ("timing --scale tiny", "study 'timing' has no scale 'tiny'; it has smoke, small, paper"),
        ("timing --figure jpg", "--figure jpg: not a format."),
        ("timing --models fnoo --dry-run", "no model 'fnoo'. Did you mean 'fno'?"),
    ],
)
def test_mistakes_on_the_command_line_are_named(typed, line, message):
    code, _, err = typed(f"study {line}")
    assert code == 2
    assert message in err


def test_without_matplotlib_it_says_so_before_training_and_can_do_without(typed, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = "study data_efficiency_1d --scale smoke --seeds 1 --models mean --executor inline"
    code, _, err = typed(line)
    assert code == 2
    assert "pip install 'pdebench-hss[plot]'" in err
    assert not (tmp_path / "leaderboards").exists()
    code, _, err = typed(f"{line} --figure none")
    assert code == 0, err
    assert (tmp_path / "leaderboards/studies/data_efficiency_1d-smoke/figures/data_efficiency_1d.csv").exists()


def test_studies_are_listed_and_shown(typed):
    rows = json.loads(typed("list studies --format json")[1])
    assert {row["study"] for row in rows} >= set(BUILT_IN)
    shown = typed("show exact_recovery")[1]
    assert "Theorem 2.3" in shown
    assert "hss_recovery[rank=8,levels=3]" in shown
