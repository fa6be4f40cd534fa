"""What is asked of `tune`: an experiment like any other, whose trials are tries."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..base.errors import UsageError, did_you_mean
from ..contract.budget import parse_count
from ..runs.config import PLACES, RunConfig, check_keys

SAMPLERS = ("tpe", "qmc", "random")
VAL = "20%"
OWN = ("tries", "only", "seed", "sampler", "max_params", "file")


@dataclass(frozen=True)
class TuneConfig(RunConfig):
    """``out``, where records of tries go, follows from ``file``; ``seeds`` is the one ``seed``."""

    tries: int = 12
    only: str | None = None
    seed: int = 0
    sampler: str = "tpe"
    max_params: str | int | None = None
    file: str = "tuned.yaml"

    def __post_init__(self) -> None:
        for name, least in (("tries", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise UsageError(f"--{name} must be a whole number from {least} on, not {value!r}")
        super().__post_init__()
        if self.sampler not in SAMPLERS:
            hint = did_you_mean(self.sampler, SAMPLERS)
            raise UsageError(f"--sampler {self.sampler}: no such sampler.{hint}  Samplers: {', '.join(SAMPLERS)}")
        if len(self.budgets) > 1:
            raise UsageError(f"--budget {self.budget}: every try has the same budget; name one")
        _ = self.largest

    @property
    def largest(self) -> int | None:
        """The number of parameters that no try may exceed; None: in proportion to each model's default."""
        return None if self.max_params is None else int(parse_count(self.max_params, "--max-params"))

    @property
    def options(self) -> list[str] | None:
        """The options to tune, where the others keep their defaults; None: all that a model's space has."""
        return None if self.only is None else [name.strip() for name in self.only.split(",") if name.strip()]

    @property
    def command(self) -> str:
        words = ["pdebench-hss", "tune"]
        for f in fields(self):
            value = getattr(self, f.name)
            asked = f.name not in (*PLACES, "seeds") and value not in (f.default, None)
            if asked or f.name == "tries":
                name = "out" if f.name == "file" else f.name.replace("_", "-")
                words += [f"--{name}"]
                if value is not True:
                    words += [",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]
        for plugin in [self.plugins] if isinstance(self.plugins, str) else self.plugins:
            words += ["--plugin", str(plugin)]
        return shlex.join(words)


def make_tune_config(given: dict[str, Any]) -> TuneConfig:
    """From flags that were really given; ``out`` is the file to write."""
    given = {name: value for name, value in given.items() if value is not None}
    file = str(given.pop("out", TuneConfig.file))
    if Path(file).suffix not in (".yaml", ".yml"):
        raise UsageError(f"--out {file}: the chosen options go to a YAML file; write {file}.yaml")
    check_keys({name: value for name, value in given.items() if name not in OWN}, "tune()")
    settings = {"val": VAL, **given, "file": file, "out": str(Path(file).with_suffix(".tries"))}
    return TuneConfig(**settings, seeds=[given.get("seed", 0)])
