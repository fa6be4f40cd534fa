"""An experiment as plain values: what flags, a YAML file and the Python API all become.

Precedence: flags win over the file, the file over the defaults. A key that is not a field is refused with the nearest
known one.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ..base import devices, machine
from ..base.errors import UsageError, did_you_mean
from ..contract.budget import Budget, parse_budgets, parse_count
from ..contract.resources import parse_resources
from ..contract.selection import split
from ..contract.task import SCALES
from ..data.holdout import parse_share
from .shards import Shard, parse_shard

TEXTS = (
    *("scale", "budget", "executor", "device", "precision", "out", "data_dir", "ray_address", "storage", "resources"),
    *("tuned", "keep_models_up_to", "shard"),
)
# Where a run stores things and what it runs on don't change which trials it asks for.
PLACES = (
    *("out", "force", "plugins", "ray_address", "storage", "cuda_graphs", "shard"),
    *("keep_models", "keep_models_up_to", "keep_predictions", "max_resident"),
)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_choice(value: Any) -> bool:
    return isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(map(_is_text, value)))


# What a YAML file may hold under each key. Signs and ranges are checked afterwards.
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("models", "tasks", "plugins"), (_is_names, "a name or a list of names")),
    **dict.fromkeys(TEXTS, (_is_text, "text")),
    **dict.fromkeys(("jobs", "train_size", "data_seed", "ddp"), (_is_whole, "a whole number")),
    **dict.fromkeys(
        ("force", "strict_plugins", "cuda_graphs", "keep_models", "keep_predictions"), (_is_choice, "true or false")
    ),
    "timeout": (_is_number, "a number of seconds"),
    **dict.fromkeys(
        ("max_memory", "max_resident"), (lambda value: _is_text(value) or _is_number(value), "a size such as 4G")
    ),
    "match_params": (lambda value: _is_text(value) or _is_number(value), "a count such as 300k"),
    "val": (lambda value: _is_text(value) or _is_whole(value), "a share (10%) or a number of training samples"),
    "seeds": (
        lambda value: _is_text(value) or all(map(_is_whole, value if isinstance(value, (list, tuple)) else [value])),
        "a count (3) or a list of whole numbers (0,7)",
    ),
}


@dataclass(frozen=True)
class RunConfig:
    models: str | Sequence[str] = "all"
    tasks: str | Sequence[str] = ""
    scale: str = "small"
    seeds: str | int | Sequence[int] = 1
    budget: str | None = None
    match_params: str | int | None = None
    train_size: int | None = None
    val: str | int | None = None
    tuned: str | None = None
    executor: str = "process"
    jobs: int | None = None
    timeout: float | None = None
    device: str = "auto"
    precision: str = devices.DEFAULT_PRECISION
    cuda_graphs: bool = False
    max_memory: str | float | None = None
    max_resident: str | float | None = None
    out: str = "leaderboards/latest"
    data_dir: str | None = None
    data_seed: int = 0
    force: bool = False
    plugins: Sequence[str] = ()
    strict_plugins: bool = False
    ddp: int = 1
    resources: str | None = None
    ray_address: str | None = None
    storage: str | None = None
    keep_models: bool = True
    keep_models_up_to: str = "50M"
    keep_predictions: bool = False
    shard: str | None = None

    def __post_init__(self) -> None:
        for name, (fits, expected) in _TYPES.items():
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise UsageError(f"--{name.replace('_', '-')} must be {expected}, not {value!r}")
        if not self.tasks:
            raise UsageError("no task was named; write --tasks NAME, or see: pdebench-hss list tasks")
        if self.scale not in SCALES:
            hint = did_you_mean(str(self.scale), SCALES)
            raise UsageError(f"no scale {self.scale!r}.{hint}  Scales: {', '.join(SCALES)}")
        devices.check_precision(self.precision, devices.parse_device(self.device))
        if self.executor == "ray" and ":" in self.device:
            raise UsageError(f"--device {self.device}: with --executor ray, Ray chooses the GPU; write --device cuda")
        for name in ("jobs", "timeout", "train_size", "ddp"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                raise UsageError(f"--{name.replace('_', '-')} must be positive, not {value!r}")
        if self.val is not None:
            parse_share(self.val)
        # Bad ones are refused before anything starts.
        _ = self.seed_list, self.budgets, self.params_target, self.model_bytes
        _ = self.memory_limit, self.resident_limit, self.part
        parse_resources(self.resources or "")
        if self.ray_address is not None and self.executor != "ray":
            raise UsageError(f"--ray-address belongs to --executor ray, not {self.executor}")
        if self.ray_address is not None and self.keep_predictions:
            raise UsageError(
                "--keep-predictions writes to this machine's disk, and not from the nodes of --ray-address"
            )

    @property
    def seed_list(self) -> list[int]:
        return parse_seeds(self.seeds)

    @property
    def budgets(self) -> list[Budget]:
        """The rungs of a ladder, the smallest first; empty: each task's own budget."""
        return parse_budgets(self.budget) if self.budget is not None else []

    @property
    def params_target(self) -> int | None:
        if self.match_params is None:
            return None
        target = int(parse_count(self.match_params, "--match-params"))
        if target < 1:
            raise UsageError(f"--match-params must be at least 1, not {self.match_params}")
        return target

    @property
    def part(self) -> Shard | None:
        """The shard of the plan to run; None if it is all of it."""
        return parse_shard(self.shard) if self.shard is not None else None

    @property
    def memory_limit(self) -> int:
        """Bytes that a trial may take; 0 where there is no limit."""
        return 0 if self.max_memory is None else int(parse_count(self.max_memory, "--max-memory"))

    @property
    def resident_limit(self) -> int:
        """Bytes of training samples that a trial may hold; 0 where free memory decides."""
        return 0 if self.max_resident is None else int(parse_count(self.max_resident, "--max-resident"))

    @property
    def model_bytes(self) -> int:
        """How large a model may be to be kept; 0 if none is."""
        limit = int(parse_count(self.keep_models_up_to, "--keep-models-up-to"))
        return limit if self.keep_models else 0

    @cached_property
    def resolved_device(self) -> devices.Device:
        """``auto`` is resolved once, before anything that depends on it."""
        device = devices.resolve_device(self.device, elsewhere=self.executor == "ray")
        devices.check_precision(self.precision, device)
        return device

    @property
    def n_jobs(self) -> int:
        """Trials in parallel. It never depends on how many are left: threads, and so rounding, follow from it."""
        return self.jobs or devices.default_jobs(self.resolved_device, available_cores())

    @property
    def threads(self) -> int:
        return max(1, available_cores() // self.n_jobs)

    @property
    def command(self) -> str:
        """The command line that asks for the same trials, whether this came from flags, a file or Python.

        Where results are written and whether trials run again is left out: it does not change results.
        """
        words = ["pdebench-hss", "run"]
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.name in PLACES or value in (f.default, None):
                continue
            words.append(f"--{f.name.replace('_', '-')}")
            if value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
        for file in [self.plugins] if isinstance(self.plugins, str) else self.plugins:
            words += ["--plugin", str(file)]
        return shlex.join(words)


def available_cores() -> int:
    return machine.cores()


def parse_seeds(value: str | int | Sequence[int]) -> list[int]:
    """``3`` means seeds 0, 1, 2; ``0,7`` means those two."""
    listed = not isinstance(value, (int, str)) or (isinstance(value, str) and "," in value)
    try:
        words: list[Any] = (
            [value] if isinstance(value, int) else split(value) if isinstance(value, str) else list(value)
        )
        numbers = [int(word) for word in words]
    except (ValueError, TypeError):
        raise UsageError(f"seeds {value!r}: write a count (3) or a list (0,7)") from None
    if listed and numbers and min(numbers) >= 0:
        return list(dict.fromkeys(numbers))
    if len(numbers) == 1 and numbers[0] > 0 and not listed:
        return list(range(numbers[0]))
    raise UsageError(f"seeds {value!r}: a count must be at least 1 and seeds must not be negative")


def load_config(path: str | Path | None, flags: Mapping[str, Any]) -> RunConfig:
    """A config from a YAML file (or none), overridden by the flags that were given."""
    content = read_yaml(Path(path)) if path else {}
    given = {key: value for key, value in flags.items() if value is not None}
    return make_config({**content, **given})


def make_config(content: Mapping[str, Any], where: str = "run()") -> RunConfig:
    check_keys(content, where)
    return RunConfig(**content)


def read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"--config {path}{line}: not valid YAML ({getattr(error, 'problem', error)})") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}: expected keys and values, found a {type(content).__name__}")
    content = {str(key).replace("-", "_"): value for key, value in content.items()}
    check_keys(content, f"--config {path}")
    return content


def check_keys(content: Mapping[str, Any], where: str) -> None:
    known = [f.name for f in dataclasses.fields(RunConfig)]
    for key in content:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}  Keys: {', '.join(known)}")
