"""The checks that a record or a plan must pass. All reading of them goes through here.

A record is valid if

* its name is a key, its key is the hash of its trial, and the trial's labels belong to its model and task;
* every field has the right type and range, and no field is unknown;
* it is as it was written: from schema 2 on a record holds the hash of its own content and of its arrays' file;
* if it ended well, it has the errors of every test sample, and their means are the errors it states.

A hash is a guard against accidents and edits, not a signature: an editor can hash a record again, but not make its
errors agree with other samples. An invalid record has a reason (`Invalid`), to be shown after the record's name. A
record of a newer schema is not damaged and must be kept (`Newer`).
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..base.errors import UsageError
from ..base.hashing import canonical_around, digest, digest_of_text
from ..contract.budget import parse_budget
from .alike import PROVENANCES, TRIALS, Alike, AlikeTrials, K, Known
from .array_checks import ERRORS
from .array_checks import check_drawn as check_drawn
from .array_checks import check_errors as check_errors
from .array_checks import means_behind as means_behind
from .array_checks import with_partners as with_partners
from .invalid import Invalid as Invalid
from .invalid import Newer as Newer
from .invalid import RecordWarning as RecordWarning
from .status import STORED, Status
from .trial import FIELDS as TRIAL_FIELDS
from .trial import JUDGES, Trial

SCHEMA = 4  # 1 had no hashes; in 1 and 2 the keys of trials held the versions of distributions; 3 had no artefacts
KEY = re.compile(r"[0-9a-f]{24}")
LARGEST_RECORD = 4 << 20  # bytes; a record has about 2,000
LARGEST_PLAN = 256 << 20  # bytes; a cell has about 1,000
TEXT = 10_000  # characters
LATEST = 1e11  # seconds since 1970: the year 5138


def parse_json(content: bytes) -> dict[str, Any]:
    """A JSON object; anything else is `Invalid`."""
    if not content:
        raise Invalid("the file is empty")
    try:
        found = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise Invalid("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise Invalid("not UTF-8 text") from None
    except ValueError as error:
        raise Invalid(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Invalid(f"expected an object, found {type(found).__name__}")
    return found


# --- kinds of values -------------------------------------------------------------------------------------------------

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT


def _name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1000


def _whole(value: Any) -> bool:
    return type(value) is int and -(2**63) < value < 2**63


def _count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**63


def _natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _amount(value: Any) -> bool:
    """A number that is not negative; null if it is unknown, or was too large for JSON."""
    return value is None or (type(value) in (int, float) and 0 <= value <= sys.float_info.max)


def _measure(value: Any) -> bool:
    """Like an amount, but in old records it may be infinite or NaN: then the trial has diverged (`not_finite`)."""
    return _amount(value) or (type(value) is float and not value < 0)


def _metrics(value: Any) -> bool:
    """Errors are not negative. Further metrics may be; where one is stated it is a number."""
    if not isinstance(value, dict):
        return False
    return all((_measure if name in ERRORS else _number)(entry) for name, entry in value.items())


def _moment(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < LATEST


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _yes_or_no(value: Any) -> bool:
    return isinstance(value, bool)


def _budget(value: Any) -> bool:
    try:
        return _name(value) and str(parse_budget(value)) == value
    except UsageError:
        return False


def _optimizer(value: Any) -> bool:
    numbers = dict.fromkeys(("lr", "lr_min", "weight_decay"), _number)
    return (
        isinstance(value, dict) and set(value) == {"batch", *numbers} and _fields({"batch": _count, **numbers})(value)
    )


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _values(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _fields(needed: Mapping[str, Check], **more: Check) -> Check:
    """An object with the required fields, and optional ones, each of its kind."""

    def check(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return _first_wrong(value, needed, more) is None

    return check


def _first_wrong(content: Mapping[str, Any], needed: Mapping[str, Check], more: Mapping[str, Check]) -> str | None:
    for name, check in needed.items():
        if name not in content:
            return f"{name} is missing"
        if not check(content[name]):
            return f"{name} is {_shown(content[name])}"
    for name, check in more.items():
        if name in content and not check(content[name]):
            return f"{name} is {_shown(content[name])}"
    return None


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, (dict, list)) else f"a {type(value).__name__} of another kind"
    return text if len(text) <= 60 else f"{text[:57]}..."


TRIAL: dict[str, Check] = {
    **dict.fromkeys(("model", "model_label", "task", "task_label", "scale", "device"), _name),
    **dict.fromkeys(("model_version", "data_id", "equation", "metric"), _text),
    **dict.fromkeys(("hparams", "task_params"), _object),
    **{"budget": _budget, "optimizer": _optimizer},
    **{"n_train": _count, "seed": _whole, "data_seed": _whole},
    **{"params_target": _or_null(_count), "training_free": _yes_or_no},
}
TRIAL_MORE: dict[str, Check] = {
    **dict.fromkeys(("task_digest", "precision", "model_maker", "model_origin", "task_origin", "training"), _text),
    **dict.fromkeys(("protocol", "flops_rule", "val"), _natural),
    **dict.fromkeys(("detach", "deterministic"), _yes_or_no),
    **{"unroll": _count, "history": _count, "judge": lambda value: value in JUDGES},
    "tuned": _fields({}, tries=_count, seconds=_amount, options=_object),
}
HARDWARE = _fields(
    {}, id=_name, cpu=_text, cores=_or_null(_whole), memory_gb=_amount, system=_text, gpus=_list_of(_text)
)
SOURCE = _or_null(_fields({}, commit=_text, modified=_yes_or_no))
PLUGIN = _fields({}, **dict.fromkeys(("distribution", "version", "sha256"), _text))
MOMENTS = {"started": _moment, "ended": _moment}
PROVENANCE = _fields(
    {},
    **MOMENTS,
    **{"versions": _values(_text), "source": SOURCE, "hardware": HARDWARE},
    **{"metrics": _values(_text), "unmeasured": _values(_text)},
    **{"device": _text, "threads": _or_null(_whole), "plugins": _fields({}, model=PLUGIN, task=PLUGIN)},
)
DATA = _fields({}, sha256=_name, n_train=_count, n_test=_count, n_val=_count, seconds_per_sample=_amount)
NEEDED: dict[str, Check] = {
    "key": lambda value: isinstance(value, str) and KEY.fullmatch(value) is not None,
    "trial": _object,
    "status": lambda value: isinstance(value, str) and value in STORED,
}
MORE: dict[str, Check] = {
    "reason": _text,
    "metrics": _metrics,
    "parameters": _fields({}, **dict.fromkeys(("real", "numel", "target"), _or_null(_natural))),
    **dict.fromkeys(("spent", "seconds", "serving"), _values(_amount)),
    **dict.fromkeys(("flops_step", "predict_ms", "peak_memory"), _amount),
    "levels": _list_of(_fields({"level": _natural, "test_err": _measure, "predict_ms": _amount}, latency_ms=_amount)),
    "data": DATA,
    "provenance": _object,  # and `PROVENANCE`
    "artefacts": _values(_fields({}, sha256=_name, bytes=_natural, reason=_text)),
}


# --- records ---------------------------------------------------------------------------------------------------------


def _schema(content: Mapping[str, Any]) -> int:
    schema = content.get("schema")
    if not isinstance(schema, int) or not _count(schema):
        raise Invalid("it has no schema")
    if schema > SCHEMA:
        raise Newer(f"written by a newer pdebench-hss (schema {schema}, this one reads up to {SCHEMA})")
    return schema


def sealed(content: Mapping[str, Any], arrays: str) -> dict[str, Any]:
    """A record as it is written: with the hash of its arrays' file, and of its own content."""
    whole = {"schema": SCHEMA, **content, "arrays": arrays}
    return {**whole, "sha256": digest(whole)}


def check_record(content: Mapping[str, Any], key: str, known: Collection[str]) -> tuple[dict[str, Any], str | None]:
    """The fields of the record found under a key, its trial as a `Trial`, and the expected hash of its arrays' file:
    empty if there is no such file, None if it is not known."""
    schema = _schema(content)
    trials, provenances = _kind(TRIALS, content.get("trial")), _kind(PROVENANCES, content.get("provenance"))
    arrays = None
    if schema > 1:
        arrays = content.get("arrays")
        _check_seal(content, {"trial": trials, "provenance": provenances})
    envelope = ("schema", "arrays", "sha256") if schema > 1 else ("schema",)
    fields = {name: value for name, value in content.items() if name not in envelope}
    unknown = next((name for name in fields if name not in known), None)
    if unknown is not None:
        raise Invalid(f"it has an unknown field {unknown[:60]!r}")
    if wrong := _first_wrong(fields, NEEDED, MORE):
        raise Invalid(wrong)
    if provenances:
        _check_provenance(fields["provenance"], provenances)
    trial = check_trial(fields["trial"], fields["key"], trials)
    if fields["key"] != key:
        raise Invalid(f"it is the record of trial {fields['key']}")
    _check_ending(fields)
    fields["trial"] = trial
    if provenances:
        fields["provenance"] = provenances.sharing(fields["provenance"])
    return fields, arrays


def _kind(kinds: Known[K], part: Any) -> K | None:
    """Of a part of a record that is much the same in others."""
    try:
        return kinds.kind_of(part) if isinstance(part, dict) else None
    except (ValueError, RecursionError):
        raise Invalid("it is nested too deeply") from None


def _check_provenance(provenance: Mapping[str, Any], alike: Alike) -> None:
    if not (alike.passed and _first_wrong(provenance, {}, MOMENTS) is None):
        if not PROVENANCE(provenance):
            raise Invalid(f"provenance is {_shown(provenance)}")
        alike.passed = True


def _check_seal(content: Mapping[str, Any], alike: Mapping[str, Alike | None]) -> None:
    if not _text(content.get("arrays")):
        raise Invalid("the hash of its arrays is damaged")
    try:
        texts = {name: kind.text.of(content[name]) for name, kind in alike.items() if kind}
        found = digest_of_text(canonical_around({n: v for n, v in content.items() if n != "sha256"}, texts))
    except (ValueError, RecursionError):  # NaN, which we never write
        found = ""
    if found != content.get("sha256"):
        raise Invalid("its content is not what was written (sha256 differs)")


def check_trial(trial: Mapping[str, Any], key: Any, alike: AlikeTrials | None = None) -> Trial:
    """A trial from how it is stored in a record or a plan, and the key that it should have. ``alike`` are those that it
    is like, if that is known."""
    unknown = next((name for name in trial if name not in TRIAL_FIELDS), None)
    if unknown is not None:
        raise Invalid(f"trial: it has an unknown field {unknown[:60]!r}")
    try:
        alike = alike or TRIALS.kind_of(trial)
        if not (alike.passed and _whole(trial["seed"])):
            _check_fields_of_trial(trial)
            alike.passed = True
        expected = alike.key(trial)
    except Invalid:
        raise
    except (ValueError, RecursionError):
        raise Invalid("trial: a number is not finite") from None
    if key != expected:
        raise Invalid(f"its key is not that of its trial ({expected})")
    return alike.trial(trial, key)


def _check_fields_of_trial(trial: Mapping[str, Any]) -> None:
    if wrong := _first_wrong(trial, TRIAL, TRIAL_MORE):
        raise Invalid(f"trial: {wrong}")
    for what in ("model", "task"):
        name, label = trial[what], trial[f"{what}_label"]
        if label != name and not label.startswith(f"{name}["):
            raise Invalid(f"trial: {what}_label {label[:60]!r} is not of {what} {name[:60]!r}")


def _check_ending(fields: Mapping[str, Any]) -> None:
    """A trial that ended well must state its errors, among them its task's own metric."""
    if fields["status"] != Status.OK:
        return
    metrics, metric = fields.get("metrics", {}), fields["trial"]["metric"]
    judge = fields["trial"].get("judge", "test")
    if fields["trial"].get("val"):
        if "val_err" not in metrics:
            raise Invalid("status ok without val_err")
        if "n_val" not in fields.get("data", {}):
            raise Invalid("data: n_val is missing")
    if judge == "val":
        return
    for name in ("test_err", *([metric] if metric else [])):
        if name not in metrics:
            raise Invalid(f"status ok without {name}")
    if metric and metrics[metric] != metrics["test_err"] and not _neither_finite(metrics[metric], metrics["test_err"]):
        raise Invalid(f"test_err is not its metric, {metric}")
    if "n_test" not in fields.get("data", {}):
        raise Invalid("data: n_test is missing")


def _neither_finite(a: float | None, b: float | None) -> bool:
    return not any(value is not None and math.isfinite(value) for value in (a, b))


# --- plans -----------------------------------------------------------------------------------------------------------


def check_plan(content: dict[str, Any]) -> tuple[dict[str, Trial], list[str], list[str]]:
    """The valid cells of a plan, the commands that asked for them, and what is wrong with the rest.

    Cells are taken out of ``content`` one by one: a large plan is not held twice.
    """
    _schema(content)
    found, commands = content.get("cells"), content.get("commands", [])
    if not isinstance(found, dict):
        raise Invalid("it has no cells")
    if not _list_of(_text)(commands):
        raise Invalid("its commands are not text")
    cells: dict[str, Trial] = {}
    seen: dict[Any, str] = {}
    complaints = []
    for cell in list(found):
        try:
            trial = _check_cell(found.pop(cell))
            if (earlier := seen.setdefault(trial.place, cell)) is not cell:
                raise Invalid(f"it is the same as {earlier[:200]!r}")
        except Invalid as error:
            complaints.append(f"cell {cell[:200]!r}: {error}")
        else:
            cells[cell] = trial
    return cells, list(commands), complaints


SHARDS = re.compile(r"[0-9a-f]{24}/([1-9]\d{0,5})")


def check_shards(content: Mapping[str, Any]) -> dict[str, list[int]]:
    """Which shards of which plans a plan file says it holds."""
    found = content.get("shards", {})
    if not isinstance(found, dict):
        raise Invalid("its shards are not a table")
    for name, numbers in found.items():
        of = SHARDS.fullmatch(name)
        if of is None or not _list_of(_count)(numbers) or any(number > int(of[1]) for number in numbers):
            raise Invalid(f"its shards {name[:60]!r} are not numbers of shards")
    return {name: list(numbers) for name, numbers in found.items()}


def _check_cell(entry: Any) -> Trial:
    if not (isinstance(entry, dict) and set(entry) == {"key", "trial"} and isinstance(entry["trial"], dict)):
        raise Invalid("it is not a key and a trial")
    return check_trial(entry["trial"], entry["key"])
