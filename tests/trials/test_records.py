"""Records: one per trial, whole or not there, never lost, and one that can't be read is reported."""

from __future__ import annotations

import dataclasses
import json
import os

import numpy as np
import pytest

from pdebench_hss.base import files
from pdebench_hss.base.errors import StoreError
from pdebench_hss.base.hashing import digest
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import STORED, Status
from pdebench_hss.trials.store import RecordWarning, Store
from pdebench_hss.trials.trial import Trial, trial_key
from pdebench_hss.trials.validation import Invalid, check_trial

TRIAL = Trial(
    model="net", model_label="net", model_version="1", hparams={"width": 8},
    optimizer=Optimizer(4, 1e-3, 1e-5, 0.0), task="toy", task_label="toy",
    task_params={}, data_id="d", data_seed=0, scale="smoke", budget=Budget("steps", 4), n_train=8,
    seed=0, device="cpu",
)  # fmt: skip


def make_trial(**changes) -> Trial:
    return dataclasses.replace(TRIAL, **changes)


def make_record(trial: Trial | None = None, status="ok", **fields) -> Record:
    """One that ended well has an error, and the errors of three test samples behind it."""
    trial = trial or TRIAL
    if status == "ok":
        error = fields.setdefault("metrics", {"test_err": 0.5})["test_err"]
        fields = {"data": {"n_test": 3}, "samples": {"error_test_err": np.full(3, error)}, **fields}
    return Record(trial.key, trial, Status(status), **fields)


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "board")
    store.prepare()
    return store


def files_below(store: Store) -> set[str]:
    return {path.name for path in store.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("status", STORED)
def test_what_was_put_is_what_is_got(store, status):
    record = make_record(
        status=status,
        reason="said so",
        metrics={"test_err": 3.1e-8, "rmse": 0.1 + 0.2},
        parameters={"real": 166_033, "numel": 166_033, "target": None},
        spent={"steps": 4, "samples": 16, "seconds": 0.5, "flops": 1e9},
        flops_step=2.5e8,
        seconds={"fit": 0.5},
        predict_ms=0.25,
        peak_memory=1 << 30,
        data={"sha256": "abc", "n_test": 3},
        provenance={"versions": {"torch": "2"}},
    )
    store.put(record)
    assert store.get(record.key) == record
    assert store.all() == [record]


def test_floats_come_back_bit_for_bit(store):
    values = [3.1e-8, 0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]
    record = make_record(spent={str(i): value for i, value in enumerate(values)})
    store.put(record)
    assert [v.hex() for v in store.get(record.key).spent.values()] == [v.hex() for v in values]


def test_samples_lie_beside_the_record_and_keep_their_precision(store):
    errors = np.random.default_rng(0).random(7)
    curve = {"curve_steps": np.arange(3), "curve_losses": np.ones(3)}
    metrics, data = {"test_err": float(errors.mean())}, {"n_test": 7}
    record = make_record(metrics=metrics, data=data, samples={"error_test_err": errors, **curve})
    store.put(record)
    np.testing.assert_array_equal(store.samples(record.key)["error_test_err"], errors)
    assert files_below(store) == {f"{record.key}.json", f"{record.key}.npz"}
    assert "samples" not in json.loads((store.records_dir / f"{record.key}.json").read_text())
    with pytest.warns(RecordWarning, match="its name is not a key"):
        assert store.samples("nobody") == {}


def test_a_new_record_takes_the_place_of_the_old_one_whole(store):
    curve = {"curve_steps": np.arange(3), "curve_losses": np.ones(3)}
    store.put(make_record(status="timeout", reason="8 s", samples=curve))
    again = make_record(status="failed", reason="MemoryError")
    assert store.put(again) is None
    assert store.all() == [again]
    assert store.samples(again.key) == {}


def test_not_a_number_becomes_missing_and_the_file_stays_json(store):
    record = make_record(
        status="diverged", metrics={"test_err": float("nan")}, spent={"seconds": float("inf")}, samples={}
    )
    store.put(record)

    def refuse(name: str):
        raise AssertionError(f"{name} is not JSON")

    text = (store.records_dir / f"{record.key}.json").read_text()
    json.loads(text, parse_constant=refuse)
    back = store.get(record.key)
    assert back.status == "diverged"
    assert (back.metrics["test_err"], back.spent["seconds"]) == (None, None)


def test_a_record_takes_its_place_whole_or_not_at_all(store, monkeypatch):
    """At the one moment a file changes, its replacement is complete and on disk."""
    old = make_record(metrics={"test_err": 1.0})
    new = make_record(metrics={"test_err": 2.0})
    store.put(old)
    seen = []
    rename = os.replace

    def watched(source, target):
        if target.suffix == ".json":
            seen.append(Record.from_json(source.read_text(encoding="utf-8")))
        assert store.get(old.key) == (new if seen and target.suffix == ".npz" else old)
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", watched)
    store.put(new)
    assert seen == [new]
    assert store.get(old.key) == new


def test_a_write_that_fails_leaves_the_old_record_and_no_rubbish(store, monkeypatch):
    old = make_record(metrics={"test_err": 1.0})
    store.put(old)
    before = files_below(store)

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.put(make_record(metrics={"test_err": 2.0}))
    assert store.get(old.key) == old
    assert files_below(store) == before


def test_arrays_are_there_before_the_record_that_speaks_of_them(store, monkeypatch):
    """Killed between the two writes, a trial counts as not run; it never counts as done without its samples."""
    rename = os.replace

    def killed_at_json(source, target):
        if str(target).endswith(".json"):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", killed_at_json)
    record = make_record()
    with pytest.raises(KeyboardInterrupt):
        store.put(record)
    assert store.get(record.key) is None
    assert store.all() == []


def test_a_finished_trial_leaves_no_checkpoint(store):
    record = make_record()
    store.checkpoint(record.key).write_bytes(b"work in progress")
    store.put(record)
    assert not store.checkpoint(record.key).exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        '{"schema": 1, "key": "k", "trial"',
        "{}",
        "[]",
        '{"schema": 1}',
        '{"schema": 99, "key": "k", "trial": {}, "status": "ok"}',
        '{"schema": 1, "key": "k", "trial": {}, "status": "ok", "surprise": 1}',
        "\x00\x00\x00",
        "null",
        "3",
        '"ok"',
    ],
)
def test_a_record_that_can_not_be_read_is_reported_and_counts_as_missing(store, content):
    good = make_record()
    store.put(good)
    (store.records_dir / "broken.json").write_text(content)
    with pytest.warns(RecordWarning, match=r"record broken.json in .* can't be used .*; it counts as missing"):
        assert store.get("broken") is None
    with pytest.warns(RecordWarning, match="broken.json"):
        assert store.all() == [good]


def test_bytes_that_are_no_text_are_reported_too(store):
    (store.records_dir / "broken.json").write_bytes(b"\xff\xfe\x00")
    with pytest.warns(RecordWarning, match="broken.json"):
        assert store.get("broken") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": "soon"}, "budget is 'soon'"),
        ({"budget": "steps=4.0"}, "budget is 'steps=4.0'"),  # never written so: another spelling is another key
        ({"optimizer": {}}, "optimizer is a dict of another kind"),
        ({"optimizer": {"batch": 4, "lr": "fast", "lr_min": 0.1, "weight_decay": 0}}, "optimizer is a dict"),
        ({"mood": "good"}, "it has an unknown field 'mood'"),
        ({"protocol": "1"}, "protocol is '1'"),
    ],
)
def test_a_trial_that_is_not_one_is_named_with_what_is_wrong(change, words):
    content = {**make_trial().to_dict(), **change}
    with pytest.raises(Invalid, match=words):
        check_trial(content, trial_key(content))


def test_missing_is_not_a_status_that_a_record_may_have(store):
    text = make_record(status="failed").to_json().replace('"failed"', '"missing"')
    with pytest.raises(Invalid, match="missing"):
        Record.from_json(resealed(text))


def resealed(text: str) -> str:
    content = json.loads(text)
    return json.dumps({**content, "sha256": digest({k: v for k, v in content.items() if k != "sha256"})})


def test_a_record_from_before_schema_3_keeps_its_key_when_it_is_written_again():
    """Its key held the releases of its plugins."""
    old = {**make_trial().to_dict(), "model_origin": "here 1", "task_origin": "here 1"}
    record = Record(trial_key(old), Trial.from_dict(old), Status.FAILED, "no")
    assert record.key != make_trial().key
    again = Record.from_json(record.to_json())
    assert again == record
    assert again.trial.key == record.key


def test_planned_cells_without_a_record_are_missing_not_absent(store):
    done, todo = make_trial(seed=0), make_trial(seed=1)
    store.add_to_plan([done, todo])
    store.put(make_record(done))
    found = {record.key: record.status for record in store.current()}
    assert found == {done.key: "ok", todo.key: "missing"}


def test_a_planned_record_that_can_not_be_read_is_missing(store):
    trial = make_trial()
    store.add_to_plan([trial])
    (store.records_dir / f"{trial.key}.json").write_text("{")
    with pytest.warns(RecordWarning):
        (record,) = store.current()
    assert (record.status, record.trial) == ("missing", trial)


def test_a_cell_asked_for_again_is_represented_by_its_new_trial(store):
    """A newer version of a model fills the same place of the table; the old record stays on disk."""
    old, new = make_trial(model_version="1"), make_trial(model_version="2")
    assert old.cell == new.cell
    assert old.key != new.key
    store.add_to_plan([old])
    store.put(make_record(old))
    store.add_to_plan([new])
    assert [(r.key, r.status) for r in store.current()] == [(new.key, "missing")]
    store.put(make_record(new))
    assert [(r.key, r.status) for r in store.current()] == [(new.key, "ok")]
    assert {r.key for r in store.all()} == {old.key, new.key}


def test_plans_add_up(store):
    store.add_to_plan([make_trial(seed=0)])
    store.add_to_plan([make_trial(seed=1), make_trial(model_label="net[width=16]", hparams={"width": 16})])
    assert len(store.current()) == 3


@pytest.mark.parametrize("content", ["{", "[]", "null", '{"cells": 3}'])
def test_a_plan_that_can_not_be_read_is_reported_and_the_records_still_show(store, content):
    record = make_record()
    store.put(record)
    (store.path / "plan.json").write_text(content)
    with pytest.warns(RecordWarning, match=r"plan.json .* can't be used"):
        assert store.current() == [record]


def test_a_directory_that_is_not_there_is_an_error_not_an_empty_board(tmp_path):
    with pytest.raises(StoreError, match="no such directory"):
        Store(tmp_path / "nowhere").all()


def test_an_output_directory_that_can_not_be_written_is_found_at_once(tmp_path):
    (tmp_path / "board").write_text("a file is in the way")
    with pytest.raises(StoreError, match=r"can't write to .*board.*Choose another --out"):
        Store(tmp_path / "board").prepare()


def test_what_a_killed_writer_left_is_cleared_away(store):
    (store.records_dir / ".abc.json.x1.tmp").write_text("half a rec")
    store.prepare()
    assert files_below(store) == set()


# --- what replaces what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["ok", "diverged", "skipped", "failed"])
@pytest.mark.parametrize("new", STORED)
def test_a_record_is_replaced_only_by_one_that_ended_as_well(store, kept, new):
    worth = {"ok": 2, "diverged": 1, "skipped": 1, "over_budget": 1}
    first, second = make_record(status=kept, reason="first"), make_record(status=new, reason="second")
    store.put(first)
    stays = worth.get(new, 0) < worth.get(kept, 0)
    assert store.put(second) == (first if stays else None)
    assert store.get(first.key) == (first if stays else second)
    assert (store.attempts_dir / f"{first.key}.json").exists() == stays


@pytest.mark.parametrize("step", [1, 2, 3])
def test_killed_between_the_steps_of_a_write_one_of_the_two_records_is_whole(store, monkeypatch, step):
    """Arrays and record are two files: whichever of them is in place, they belong together."""
    old = make_record(metrics={"test_err": 1.0})
    new = make_record(metrics={"test_err": 2.0})
    store.put(old)
    rename, renames = os.replace, []

    def killed(source, target):
        renames.append(target)
        if len(renames) == step:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.put(new)
    monkeypatch.undo()
    expected = old if step < 3 else new
    for _ in range(2):
        assert Store(store.path).get(old.key) == expected
        np.testing.assert_array_equal(
            store.samples(old.key)["error_test_err"], np.full(3, expected.metrics["test_err"])
        )
        store.prepare()  # what the next run does first
    assert files_below(store) == {f"{old.key}.json", f"{old.key}.npz"}


def test_without_a_plan_a_place_in_the_tables_has_the_last_of_its_records(store):
    for version, ended in (("1", 2e9), ("2", 1e9)):
        store.put(make_record(make_trial(model_version=version), provenance={"started": 0.0, "ended": ended}))
    assert [record.trial.model_version for record in store.current()] == ["1"]
