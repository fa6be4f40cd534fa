"""What a store remembers of records: never what is on disk no longer, and never much."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import warnings

import numpy as np
import pytest
from factories.records import bare_record, make_record, make_trial

from pdebench_hss.boards.packing import pack
from pdebench_hss.boards.writing import read_records
from pdebench_hss.trials import alike
from pdebench_hss.trials import store as stores
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.store import RecordWarning, Store
from pdebench_hss.trials.trial import Trial, trial_key
from pdebench_hss.trials.validation import Invalid, check_trial

RECORD = make_record(error=0.5)


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "board")
    store.prepare()
    store.add_to_plan([RECORD.trial])
    store.put(RECORD)
    return store


def with_samples(count: int, error: float, **more: np.ndarray) -> Record:
    record = make_record(error=error)
    samples = {"error_test_err": np.full(count, error), **more}
    return dataclasses.replace(record, data={**record.data, "n_test": count}, samples=samples)


def errors(store: Store) -> list[float]:
    """What the tables are made of: the mean that is stated, and the errors behind it."""
    (record,), samples = read_records(store)
    return [record.metrics.get("test_err"), *samples.get(record.key, ())]


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """Keys of records that were read from disk."""
    seen: list[str] = []
    read = stores.read_from
    monkeypatch.setattr(stores, "read_from", lambda files, key, names=None: seen.append(key) or read(files, key, names))
    return seen


def test_what_has_not_changed_is_read_once_for_the_plan_and_the_tables(store, reads):
    store.look()
    assert errors(store) == errors(store) == [0.5] * 5
    assert reads == [RECORD.key]


@pytest.mark.parametrize("size", [4, 100_000], ids=["small", "large"])
def test_a_record_that_another_process_replaced_is_read_again(store, size):
    store.look()
    Store(store.path).put(with_samples(size, 0.25))
    assert errors(store) == [0.25] * (1 + size)
    assert store.look().by_key[RECORD.key].metrics["test_err"] == 0.25


def test_a_record_that_was_edited_in_place_is_not_believed_any_more(store):
    assert store.look().by_key[RECORD.key] == store.get(RECORD.key)
    path = store.records_dir / f"{RECORD.key}.json"
    path.write_text(path.read_text().replace("0.5", "0.1"))
    with pytest.warns(RecordWarning, match="sha256 differs"):
        assert errors(store) == [None]
    with pytest.warns(RecordWarning, match="sha256 differs"):
        assert isinstance(store.look().by_key[RECORD.key], Invalid)


def test_arrays_that_were_exchanged_are_not_believed_any_more(store):
    errors(store)
    np.savez_compressed(store.records_dir / f"{RECORD.key}.npz", error_test_err=np.full(4, 0.1))
    with pytest.warns(RecordWarning, match="its arrays are not those that were written"):
        assert errors(store) == [None]


def test_a_record_that_is_gone_is_missing(store):
    errors(store)
    Store(store.path).live.remove(RECORD.key)
    assert errors(store) == [None]
    assert store.look().get(RECORD.key) is None


def test_a_record_that_another_process_packed_is_found_in_the_pack(store):
    before = errors(store)
    pack(Store(store.path))
    assert not store.live.has(RECORD.key)
    assert errors(store) == before
    store.put(make_record(error=0.125))  # beside the pack, as a later run does
    assert errors(store) == [0.125] * 5


def test_errors_of_many_samples_are_not_kept_in_memory(store):
    many = stores.SMALL // 8 + 1
    store.put(with_samples(many, 0.5))
    assert len(errors(store)) == 1 + many
    ((_, _, scores),) = store._known.values()
    assert scores is None


def test_what_is_kept_holds_no_file_in_memory(store):
    """An array may be a view of all that was read with it."""
    pictures = np.random.default_rng(0).normal(size=(3, 64, 64))
    store.put(with_samples(4, 0.5, picture_errors=pictures))
    errors(store)
    ((_, _, scores),) = store._known.values()
    held = scores["error_test_err"]
    while getattr(held, "base", None) is not None:
        held = held.base
    assert len(memoryview(held).cast("B")) <= 1000


def test_errors_that_are_kept_can_not_be_changed_by_who_reads_them(store):
    ((_, arrays),) = store.scored()
    with pytest.raises(ValueError, match="read-only"):
        arrays["error_test_err"][0] = 1.0


def test_a_record_that_can_not_be_believed_leaves_nothing_of_what_was_read(store):
    (store.records_dir / f"{RECORD.key}.json").write_text("{")
    with pytest.warns(RecordWarning, match="not JSON"):
        found = store.look().by_key[RECORD.key]
    assert isinstance(found, Invalid)
    assert (found.__traceback__, found.__context__) == (None, None)  # these hold the content of the file


def test_the_collector_is_on_again_when_a_warning_ends_the_reading(store):
    (store.records_dir / f"{RECORD.key}.json").write_text("{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RecordWarning):
            store.look()
        with pytest.raises(RecordWarning):
            read_records(store)
    assert gc.isenabled()


def test_entries_that_nobody_reads_to_the_end_leave_the_collector_on(store):
    next(store.scored())
    assert gc.isenabled()


# --- trials that are spelt alike -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": True}, "seed is True"),
        ({"seed": 1.0}, "seed is 1.0"),
        ({"n_train": True}, "n_train is True"),
        ({"n_train": 8.0}, "n_train is 8.0"),
        ({"training_free": 0}, "training_free is 0"),
    ],
)
def test_a_trial_that_equals_a_good_one_is_still_looked_at(change, words):
    """In Python True, 1 and 1.0 are equal; in a record they are not."""
    good = make_trial(n_train=8).to_dict()
    check_trial(good, make_trial(n_train=8).key)
    with pytest.raises(Invalid, match=words):
        check_trial({**good, **change}, "0" * 24)


def test_a_trial_without_a_seed_is_none():
    trial = make_trial().to_dict()
    check_trial(trial, make_trial().key)
    del trial["seed"]
    for _ in range(2):
        with pytest.raises(Invalid, match="seed is missing"):
            check_trial(trial, "0" * 24)


def test_trials_of_any_size_and_number_do_not_fill_the_memory():
    for width in range(alike.LIMIT + 50):
        trial = make_trial(hparams={"width": width, "text": "x" * (alike.LONGEST if width % 2 else 1)})
        check_trial(trial.to_dict(), trial.key)
    assert len(alike.TRIALS.by_spelling) <= alike.LIMIT
    assert max(map(len, alike.TRIALS.by_spelling)) <= alike.LONGEST


def test_trials_share_what_is_spelt_alike_and_nothing_else():
    trials = [make_trial(hparams={"width": width}, seed=seed) for seed, width in enumerate((1, 1.0, 1))]
    whole, real, again = (check_trial(trial.to_dict(), trial.key) for trial in trials)
    assert whole.hparams is again.hparams
    assert [type(trial.hparams["width"]) for trial in (whole, real)] == [int, float]
    assert [whole, real, again] == trials
    assert [trial.key for trial in (whole, real, again)] == [trial_key(trial.to_dict()) for trial in trials]


def test_a_key_that_was_asked_for_does_not_stay_with_another_trial():
    trial = make_trial()
    before = trial.key
    for other in (pickle.loads(pickle.dumps(trial)), copy.deepcopy(trial), dataclasses.replace(trial)):
        assert (other, other.key) == (trial, before)
    assert dataclasses.replace(trial, seed=1).key == make_trial(seed=1).key != before


# --- plan.json -------------------------------------------------------------------------------------------------------


def plan_of(store: Store) -> dict[str, tuple[str, Trial]]:
    return {cell: (planned.key, planned.trial) for cell, planned in Store(store.path).plan().items()}


def test_a_plan_has_a_line_per_cell_and_one_with_a_line_per_value_reads_the_same(store):
    store.add_to_plan([make_trial(seed=seed) for seed in range(1, 4)], "the command")
    path = store.path / "plan.json"
    written, before = path.read_text(), plan_of(store)
    assert sum(line.startswith('  "toy net smoke') for line in written.splitlines()) == len(before) == 4
    path.write_text(json.dumps(json.loads(written), indent=1))
    assert plan_of(store) == before
    store.add_to_plan([make_trial(seed=9)])  # by the store that remembers the other one
    assert set(plan_of(store)) == {*before, make_trial(seed=9).cell}
    assert Store(store.path).commands() == ["the command"]


def test_a_plan_that_another_process_has_changed_is_read_again(store):
    assert len(store.plan()) == 1
    Store(store.path).add_to_plan([make_trial(seed=1)])
    assert len(store.plan()) == 2
    store.add_to_plan([make_trial(seed=2)])
    assert len(plan_of(store)) == 3


def test_a_plan_is_written_whole_or_not_at_all(store):
    before = (store.path / "plan.json").read_bytes()
    bad = dataclasses.replace(make_trial(seed=2), hparams={"width": object()})
    object.__setattr__(bad, "_key", "0" * 24)
    with pytest.raises(TypeError, match="not JSON serializable"):
        store.add_to_plan([make_trial(seed=1), bad])
    assert (store.path / "plan.json").read_bytes() == before
    assert len(store.plan()) == 1
    assert not list(store.path.glob(".*.tmp"))


@pytest.mark.parametrize("share", [0.3, 0.9], ids=["most is lost", "the end is lost"])
def test_a_plan_that_was_cut_short_is_set_aside_and_its_records_are_kept(store, share):
    path = store.path / "plan.json"
    store.add_to_plan([make_trial(seed=seed) for seed in range(1, 4)])
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    fresh = Store(store.path)
    with pytest.warns(RecordWarning, match=r"plan.json .* can't be used: not JSON"):
        assert fresh.current() == [fresh.get(RECORD.key)]
    (line,) = fresh.set_aside()
    assert "set aside as records/set_aside/plan.json" in line
    fresh.add_to_plan([RECORD.trial])
    assert set(plan_of(fresh)) == {RECORD.trial.cell}
    assert (store.records_dir / "set_aside" / "plan.json").read_text() == text[: int(share * len(text))]


def test_a_cell_that_can_not_be_believed_does_not_take_others_along(store):
    store.add_to_plan([make_trial(seed=1)])
    path = store.path / "plan.json"
    content = json.loads(path.read_text())
    content["cells"][make_trial(seed=1).cell]["trial"]["seed"] = 5
    path.write_text(json.dumps(content))
    with pytest.warns(RecordWarning, match="its key is not that of its trial"):
        assert set(Store(store.path).plan()) == {RECORD.trial.cell}


def test_tables_are_the_same_from_memory_and_from_disk(store):
    for seed, status in enumerate(("diverged", "failed", "skipped", "over_budget"), start=1):
        record = bare_record(make_trial(seed=seed), status, "so", samples={"curve_losses": np.ones(3)})
        store.add_to_plan([record.trial])
        store.put(record)
    store.look()

    def plain(records: list[Record]) -> list:
        return [record.to_plain() | {"samples": None} for record in records]

    warm, cold = read_records(store), read_records(Store(store.path))
    assert plain(warm[0]) == plain(cold[0])
    assert {key: list(values) for key, values in warm[1].items()} == {RECORD.key: [0.5] * 4}
    assert warm[1].keys() == cold[1].keys()
