"""What a study is: a named set of trials that reproduces one table or figure of a paper. Light: no torch.

A study is declared in YAML (or by the same keys in Python) and brought in by the hook ``pdebench_hss_studies``:

    name: wave_beta
    title: Waves that are damped more and more
    models: net,other_net,linear
    tasks: wave_1d
    task_options: {beta: [1.0, 0.01, 0.0001]}
    seeds: 3
    columns: {beta: task.beta}
    figure: {kind: curves, x: beta}
    scales: {smoke: {}, small: {}, paper: {}}

Keys at the top level hold for every scale; keys below a scale override them there. A scale may also be a list
of such overrides: several sweeps whose trials together make the study. In a sweep

    models, tasks                   as on the command line
    model_options, task_options     option -> values: every combination is a trial
    train_size, budget, data_seed   a value, or a list of values

``columns`` names what distinguishes trials besides model, task and train size, so that the CSV and the figure can speak
of it: ``task.NAME`` is a parameter of the task, ``model.NAME`` a hyper-parameter.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..base.errors import UsageError, did_you_mean
from .selection import Choice, split
from .task import NAME, SCALES


@dataclass(frozen=True)
class Sweep:
    """One block of trials: the product of everything that is a list."""

    models: str | list[str]
    tasks: str | list[str]
    model_options: Mapping[str, list[Any]] = field(default_factory=dict)
    task_options: Mapping[str, list[Any]] = field(default_factory=dict)
    train_size: int | list[int] | None = None
    budget: str | list[str] | None = None
    data_seed: int | list[int] = 0

    def experiments(self) -> Iterator[dict[str, Any]]:
        """The settings of each `RunConfig` this takes; models, tasks and their options are lists within one."""
        chosen = {
            "models": _with_options(self.models, self.model_options),
            "tasks": _with_options(self.tasks, self.task_options),
        }
        varied = (self.train_size, self.budget, self.data_seed)
        for train_size, budget, data_seed in itertools.product(*map(_listed, varied)):
            yield {**chosen, "train_size": train_size, "budget": budget, "data_seed": data_seed}


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast; every command reads studies
SWEEP_KEYS = tuple(f.name for f in dataclasses.fields(Sweep))


@dataclass(frozen=True, eq=False)
class Study:
    """A study. ``paper`` says which table or figure it reproduces, ``figure`` how its own is drawn (see `plots`)."""

    name: str
    title: str
    scales: Mapping[str, tuple[Sweep, ...]]
    figure: Mapping[str, Any]
    columns: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 1
    jobs: int | None = None  # trials side by side; 1 where times are what is studied
    paper: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        who = f"study {self.name!r}"
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{who}: a name is lower-case letters, digits and _, starting with a letter")
        for scale in self.scales:
            if scale not in SCALES:
                raise ValueError(f"{who}: unknown scale {scale!r}; scales are {', '.join(SCALES)}")
        for column, source in self.columns.items():
            if source.partition(".")[0] not in ("task", "model") or not source.partition(".")[2]:
                raise ValueError(f"{who}: column {column!r} must be task.NAME or model.NAME, not {source!r}")
        if "kind" not in self.figure:
            raise ValueError(f"{who}: figure needs a kind")

    def sweeps(self, scale: str) -> tuple[Sweep, ...]:
        if scale not in self.scales:
            raise UsageError(f"study {self.name!r} has no scale {scale!r}; it has {', '.join(self.scales)}")
        return self.scales[scale]

    def columns_of(self, task_params: Mapping[str, Any], hparams: Mapping[str, Any]) -> dict[str, Any]:
        """The study's own columns of one trial; None where the model has no such hyper-parameter."""
        places = {"task": task_params, "model": hparams}
        values = {}
        for column, source in self.columns.items():
            place, _, name = source.partition(".")
            values[column] = places[place].get(name)
        return values


def read_study(path: Path) -> Study:
    """A study from a YAML file."""
    return make_study(yaml.load(path.read_text(encoding="utf-8"), LOADER), path.name)


def make_study(content: Mapping[str, Any], where: str = "study") -> Study:
    """A study from plain values, every key known."""
    known = [*(f.name for f in dataclasses.fields(Study)), *SWEEP_KEYS]
    _check_keys(content, known, where)
    common = {key: content[key] for key in SWEEP_KEYS if key in content}
    own = {key: value for key, value in content.items() if key not in SWEEP_KEYS}
    scales = {}
    for scale, blocks in own.pop("scales").items():
        blocks = blocks if isinstance(blocks, list) else [blocks or {}]
        for block in blocks:
            _check_keys(block, SWEEP_KEYS, f"{where}, scale {scale}")
        scales[scale] = tuple(Sweep(**{**common, **block}) for block in blocks)
    return Study(scales=scales, **own)


def _check_keys(content: Mapping[str, Any], known: Any, where: str) -> None:
    for key in content:
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}.{did_you_mean(str(key), known)}  Keys: {', '.join(known)}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _with_options(names: str | list[str], options: Mapping[str, list[Any]]) -> list[str]:
    """``net`` and ``{rank: [2, 4]}`` -> ``net[rank=2], net[rank=4]``."""
    combinations = [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]
    return [Choice(name, chosen).label for name in split(names) for chosen in combinations]
