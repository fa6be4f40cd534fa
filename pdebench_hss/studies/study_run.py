"""Running a study: its sweeps become one plan, the run engine does the work, and a CSV and a figure come out.

    Study -> [RunConfig] -> one Plan -> records -> table (one row per point) -> figures/NAME.csv, figures/NAME.png

A study is a run in every other respect: same command again runs only what is missing, failures are rows with a reason,
and the directory is a board like any other.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.devices import DEFAULT_PRECISION
from ..base.files import replacing
from ..base.plain_text import write_csv
from ..boards.frames import YES, is_deterministic, results
from ..contract.reference_table import ReferenceTable, printed
from ..contract.registry import Registry
from ..contract.selection import split
from ..contract.study import Study
from ..runs.config import RunConfig, make_config
from ..runs.plan import Plan, make_plan
from ..runs.reporter import Reporter
from ..runs.runner import Run
from ..trials.record import Record
from ..trials.status import Status

# What identifies a point of the figure, besides the study's own columns. Seeds and draws of the data are averaged over.
POINT = ["task", "model", "scale", "budget", "n_train", "device"]
MEASURED = [
    *("metric", "test_err_mean", "test_err_std", "n_seeds", "n_expected", "paper_err", "params_real", "fit_seconds"),
    *("step_ms", "predict_ms", "flops_step", "status", "reason", "data_hash", "hardware", "training_free"),
]


@dataclass(frozen=True)
class StudyConfig(RunConfig):
    """The settings that all experiments of a study share; ``models`` and ``tasks`` are the union of theirs."""

    study: str = ""
    replaced: str = ""  # the models that stand in for the study's own

    @property
    def command(self) -> str:
        words = ["pdebench-hss", "study", self.study, "--scale", self.scale, "--seeds", _spell_seeds(self.seed_list)]
        words += ["--models", self.replaced] if self.replaced else []
        for name in ("device", "precision", "data_dir"):
            value = getattr(self, name)
            if value not in (None, "auto", DEFAULT_PRECISION):
                words += [f"--{name.replace('_', '-')}", str(value)]
        for file in self.plugins:
            words += ["--plugin", str(file)]
        return shlex.join(words)


def _spell_seeds(seeds: list[int]) -> str:
    if seeds == list(range(len(seeds))):
        return str(len(seeds))
    return ",".join(map(str, seeds)) + ("," if len(seeds) == 1 else "")  # 7 would be seven seeds, 7, is that one


def experiments(study: Study, scale: str, settings: Mapping[str, Any]) -> list[RunConfig]:
    """The runs a study is made of at one scale. ``settings``: what they share (out, seeds, jobs, ...)."""
    shared = {"seeds": study.seeds, "jobs": study.jobs, **settings, "scale": scale}
    return [
        make_config({**shared, **{key: value for key, value in experiment.items() if value is not None}})
        for sweep in study.sweeps(scale)
        for experiment in sweep.experiments()
    ]


class StudyRun(Run):
    """A run whose plan is the union of several; ``models`` stand in for the study's own."""

    def __init__(
        self,
        study: Study,
        scale: str,
        settings: Mapping[str, Any],
        registry: Registry | None = None,
        reporter: Reporter | None = None,
        models: str | None = None,
    ) -> None:
        self.study = with_models(study, models) if models else study
        self.experiments = experiments(self.study, scale, settings)
        super().__init__(_shared(study.name, models or "", self.experiments), registry, reporter)

    def _make_plan(self) -> Plan:
        hashing = self.reporter.source_progress
        plans = [make_plan(experiment, self.registry, self.store, hashing) for experiment in self.experiments]
        cells = {cell.trial.key: cell for plan in reversed(plans) for cell in reversed(plan.cells)}
        return dataclasses.replace(plans[0], cells=list(reversed(cells.values())))


def _shared(study: str, models: str, configs: Sequence[RunConfig]) -> StudyConfig:
    common = {f.name: getattr(configs[0], f.name) for f in dataclasses.fields(RunConfig)}
    budgets = {config.budget for config in configs}
    common |= {
        "models": _union(config.models for config in configs),
        "tasks": _union(config.tasks for config in configs),
        "budget": budgets.pop() if len(budgets) == 1 else None,
        "train_size": None,
        "data_seed": 0,
    }
    return StudyConfig(**common, study=study, replaced=models)


def _union(lists: Iterable[str | Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in split(names)))


def study_table(study: Study, records: Sequence[Record], references: Sequence[ReferenceTable] = ()) -> pd.DataFrame:
    """One row per point, in the order of the plan: mean and standard deviation (n - 1) over seeds that ended well."""
    trials = results(records)
    trials["step_ms"] = 1e3 * trials["fit_seconds"] / trials["steps"].where(trials["steps"] > 0)
    settings = [(record.trial.task_params, record.trial.hparams) for record in records]
    own = pd.DataFrame([study.columns_of(*setting) for setting in settings], columns=list(study.columns))
    for column in own:
        trials[column] = own[column].astype(object)
    key = [*POINT, *study.columns]
    rows = [
        {**dict(zip(key, names, strict=True)), **_point(group), "paper_err": _printed(references, *map(str, names[:2]))}
        for names, group in trials.groupby(key, sort=False, dropna=False)
    ]
    said = ["deterministic"] if is_deterministic(trials).any() else []  # tables of earlier versions don't say
    return pd.DataFrame(rows, columns=[*POINT, *study.columns, *MEASURED, *said])


def _printed(references: Sequence[ReferenceTable], task: str, model: str) -> float | None:
    cell = printed(references, task, model)
    return cell.test_err if cell else None


def _point(trials: pd.DataFrame) -> dict[str, Any]:
    good, bad = trials[trials["status"] == Status.OK], trials[trials["status"] != Status.OK]
    errors = good["test_err"].astype(float)
    return {
        "metric": trials["metric"].iloc[0],
        "test_err_mean": errors.mean() if len(good) else np.nan,
        "test_err_std": errors.std(ddof=1) if len(good) > 1 else np.nan,
        "n_seeds": len(good),
        "n_expected": len(trials),
        "params_real": trials["params_real"].max(),
        **{name: good[name].astype(float).median() for name in ("fit_seconds", "step_ms", "predict_ms", "flops_step")},
        "status": Status.OK.value if bad.empty else bad["status"].iloc[0],
        "reason": "" if bad.empty else bad["reason"].iloc[0],
        **{name: "|".join(sorted(set(good[name].dropna()))) for name in ("data_hash", "hardware")},
        "training_free": bool(trials["training_free"].any()),
        "deterministic": YES if is_deterministic(trials).all() else "",
    }


def write_study(
    study: Study, records: Sequence[Record], registry: Registry, out: Path, formats: Sequence[str] = ("png",)
) -> tuple[pd.DataFrame, list[Path]]:
    """``figures/NAME.csv`` and ``figures/NAME.<format>`` in ``out``; the same records give the same bytes."""
    table = study_table(study, records, registry.reference_tables())
    folder = out / "figures"
    paths = [folder / f"{study.name}.csv"]
    with replacing(paths[0]) as temporary:
        write_csv(table, temporary)
    if formats:
        from ..plots import draw_study

        paths += draw_study(study, table, registry.titles(), [folder / f"{study.name}.{kind}" for kind in formats])
    return table, paths


def with_models(study: Study, models: str) -> Study:
    """The study with other models in place of its own."""
    scales = {
        scale: tuple(dataclasses.replace(sweep, models=models) for sweep in sweeps)
        for scale, sweeps in study.scales.items()
    }
    return dataclasses.replace(study, scales=scales)
