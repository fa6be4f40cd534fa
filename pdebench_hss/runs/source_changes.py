"""Records whose plugin has changed since without a new version: the key is the same, the result may differ."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..contract.identity import source_hash
from ..contract.registry import Origin, Registered, Registry
from ..trials.record import Record
from .plan import Action, Plan

# The version to raise, for models and for tasks.
VERSIONS = {"model": "ModelSpec.version", "task": "TaskSpec.data_version"}


def plugins_of(record: Record, registry: Registry) -> dict[str, Any]:
    """Where a record's model and task come from, in the form of the record: distribution, version, source."""
    found: dict[str, Registered[Any]] = {
        "model": registry.model(record.trial.model),
        "task": registry.task(record.trial.task),
    }
    return {what: {**_named(spec.origin), "sha256": source_hash(spec)} for what, spec in found.items()}


def _named(origin: Origin) -> dict[str, str]:
    return {"distribution": origin.distribution, "version": origin.version}


def changed_sources(plan: Plan, registry: Registry) -> list[str]:
    """A line for each model and task whose source differs from the one that cached records were made with."""
    now: dict[tuple[str, str], str] = {}
    changed: Counter[tuple[str, str]] = Counter()
    for cell in plan.having(Action.CACHED):
        assert cell.record is not None
        for what, name in (("model", cell.trial.model), ("task", cell.trial.task)):
            before = cell.record.provenance.get("plugins", {}).get(what, {}).get("sha256")
            if (what, name) not in now:
                now[what, name] = source_hash(_registered(registry, what, name))
            if before and now[what, name] and before != now[what, name]:
                changed[what, name] += 1
    return [_line(what, name, count, _registered(registry, what, name)) for (what, name), count in changed.items()]


def _registered(registry: Registry, what: str, name: str) -> Registered[Any]:
    return registry.model(name) if what == "model" else registry.task(name)


def _line(what: str, name: str, count: int, found: Registered[Any]) -> str:
    version = found.spec.version if what == "model" else found.spec.data_version
    records = "1 cached record was" if count == 1 else f"{count} cached records were"
    return (
        f"the source of {what} {name!r} ({found.origin}) changed since {records} made, but its version {version!r} did "
        f"not; if results can differ, raise {VERSIONS[what]} or add --force"
    )
