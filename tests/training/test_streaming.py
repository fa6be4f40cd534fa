"""Streaming: training pairs read when they are needed are those that would be in memory, to the bit."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pdebench_hss
from pdebench_hss.base import machine
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import blind, cache, hdf5, spilling
from pdebench_hss.data.hdf5 import CorruptData
from pdebench_hss.training import metrics
from pdebench_hss.training.streaming import StreamedSet, bytes_in_memory, why_not_streamed
from pdebench_hss.training.windows import prepare
from pdebench_hss.trials.context import Context
from pdebench_hss.trials.scoring import read_test
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.training_pairs import at_once_in_test, limit_of, stay_stored

MEMORIES: dict[str, dict[str, str]] = {"plain": {}, "bound": {"max_resident": "30k"}}
TOYS = str(Path(__file__).parents[1] / "toys" / "toy_plugin.py")
KB = 1000
# Steady and rollout, one and several channels, float64 and float32, with and without a view.
TASKS = ["poisson_1d", "burgers_1d", "gray_scott_forward", "gray_scott_inverse", "navier_stokes_inverse", "darcy_2d"]


def dataset_of(name, **changes):
    task = load_registry().task(name)
    dataset = cache.Dataset(replace(task, spec=replace(task.spec, **changes)), "smoke")
    cache.ensure(dataset)
    return dataset


def both(dataset, unroll=1, limit=None, batch=4, held_out=None):
    """The pairs in memory and those from the file, of which a few can be resident."""
    whole = blind.load(dataset, apart=None, held_out=held_out)
    parts = blind.load(dataset, apart=None, held_out=held_out, stored=True)
    there = prepare(whole, torch.float32, unroll)
    if limit is None:
        limit = int(1.5 * least(parts.train, unroll, batch))
    return there, StreamedSet(parts.train, torch.float32, unroll, batch, limit)


def least(split, unroll, batch):
    low, high = 0, 1 << 30
    while high - low > 1:
        middle = (low + high) // 2
        try:
            StreamedSet(split, torch.float32, unroll, batch, middle)
            high = middle
        except MemoryError:
            low = middle
    return high


def assert_same(there, streamed):
    assert len(there) == len(streamed)
    for side in ("inputs", "outputs"):
        ours, expected = getattr(streamed.normalizer, side), getattr(there.normalizer, side)
        np.testing.assert_array_equal(ours.shift, expected.shift, strict=True)
        np.testing.assert_array_equal(ours.scale, expected.scale, strict=True)
    for seed in range(3):  # the first time from the file, later some from memory
        order = torch.randperm(len(there), generator=torch.Generator().manual_seed(seed))
        for index in order.split(4):
            streamed.soon(index)
            for found, expected in zip(streamed.pairs(index), there.pairs(index), strict=True):
                assert found.dtype == expected.dtype
                assert found.is_contiguous()
                assert torch.equal(found, expected)


@pytest.mark.parametrize("name", TASKS)
def test_pairs_of_every_kind_of_task(name):
    assert_same(*both(dataset_of(name)))


@pytest.mark.parametrize("kind", ["std", "zscore", "none"])
@pytest.mark.parametrize("name", ["burgers_1d", "gray_scott_inverse", "navier_stokes_inverse"])
def test_every_normalisation(name, kind):
    assert_same(*both(dataset_of(name, normalization=kind)))


@pytest.mark.parametrize(("history", "unroll"), [(1, 2), (3, 1), (2, 2)])
def test_windows_of_several_frames(history, unroll):
    assert_same(*both(dataset_of("burgers_1d", history=history), unroll))


def test_rollouts_behind_a_view():
    dataset = dataset_of("burgers_1d", view=lambda inputs, outputs: (2 * inputs, 2 * outputs))
    assert_same(*both(dataset))


def test_samples_that_are_held_out_are_not_among_them():
    held = np.isin(np.arange(dataset_of("darcy_2d").size.train), [0, 3])
    assert_same(*both(dataset_of("darcy_2d"), held_out=held))


def test_all_some_or_none_are_resident():
    dataset = dataset_of("poisson_1d")
    parts = blind.load(dataset, apart=None, stored=True).train
    few = least(parts, 1, 4)
    for limit, resident in ((few, range(3)), (1 << 30, [len(parts)])):
        there, streamed = both(dataset, limit=limit)
        assert streamed.facts()["resident"] in resident
        assert_same(there, streamed)
    with pytest.raises(
        MemoryError, match=r"a batch of 4 and the work on it take .* and --max-resident is .*: raise it"
    ):
        both(dataset, limit=few - 1)


def test_a_cache_that_can_not_be_written_to_is_streamed_by_hdf5(monkeypatch):
    dataset = dataset_of("burgers_1d")
    monkeypatch.setattr(hdf5, "_remembered", lambda path, file: {})
    assert_same(*both(dataset))


def test_a_bit_that_flips_after_the_file_was_opened_is_noticed():
    dataset = dataset_of("poisson_1d")
    copy = dataset.path.with_name("flipped.h5")
    copy.write_bytes(dataset.path.read_bytes())
    cache.verify(copy)
    stamp = copy.stat()
    split = blind.load(dataset, path=copy, apart=None, stored=True).train
    chunk = split._file._arrays["outputs"].chunks[-1]
    content = bytearray(copy.read_bytes())
    content[chunk[0] + chunk[2] - 1] ^= 1
    with copy.open("r+b") as file:
        file.write(content)
    os.utime(copy, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(CorruptData, match=r"flipped.h5 in the data cache .*a chunk of train/outputs does not match"):
        StreamedSet(split, torch.float32, 1, 4, 1 << 20)


def test_a_view_that_cuts_out_one_channel_stays_in_memory_where_sums_depend_on_it():
    def view(inputs, outputs):
        return inputs[:, :1], outputs

    spec = {"view": view, "in_channels": 1}
    for kind, streams in (("max", True), ("zscore", False)):
        split = blind.load(dataset_of("gray_scott_forward", normalization=kind, **spec), apart=None, stored=True).train
        assert (why_not_streamed(split) is None) == streams


# --- whole trials ---


def record_of(tmp_path, name, **options):
    out = tmp_path / name
    settings = {"scale": "smoke", "seeds": 1, "budget": "steps=7", "plugins": [TOYS], "jobs": 1, **options}
    pdebench_hss.run(out=str(out), **settings)
    store = Store(out)
    return {record.trial.model: (record, store) for record in store.all()}


@pytest.mark.parametrize(("task", "limit", "tested"), [("toy", "6k", None), ("toy_rollout[history=2]", "15k", 2)])
def test_a_trial_has_the_same_record_with_little_memory(tmp_path, task, limit, tested):
    settings = {"models": "toy_conv", "tasks": task, "val": "25%", "keep_predictions": True}
    (plain, plain_store), (bound, bound_store) = (
        record_of(tmp_path, name, **settings, **more)["toy_conv"]
        for name, more in (("plain", {}), ("bound", {"max_resident": limit}))
    )
    assert plain.status == bound.status == "ok", bound.reason
    assert plain.key == bound.key  # nothing of a result depends on it
    assert not {"streamed", "streamed_test"} & set(plain.provenance)
    assert bound.provenance.get("streamed_test") == (tested and {"samples": 4, "at_once": tested})
    assert 0 < bound.provenance["streamed"]["resident"] < bound.provenance["streamed"]["pairs"]
    assert plain.metrics == bound.metrics
    names = ("curve_losses", "val_errors", "error_test_err", "error_val_err")
    expected, found = (store.samples(plain.key, *names) for store in (plain_store, bound_store))
    for name in names:
        np.testing.assert_array_equal(found[name], expected[name])
    assert plain.artefacts["predictions"]["sha256"] == bound.artefacts["predictions"]["sha256"]
    assert plain.artefacts["model"]["sha256"] == bound.artefacts["model"]["sha256"]
    assert plain_store.samples(plain.key).keys() == bound_store.samples(bound.key).keys()  # pictures too


@pytest.mark.parametrize("name", [*TASKS, "poisson_2d_lshape"])
def test_a_test_split_in_parts_is_the_whole_one(name, monkeypatch):
    dataset = dataset_of(name)
    monkeypatch.setattr(machine, "free_memory", lambda: 2 * bytes_in_memory(dataset, 2))  # two samples, one trial
    context = Context(threads=machine.cores())
    assert at_once_in_test(dataset, limit_of(context)) == 2 < dataset.size.test
    whole = cache.read_split(dataset, dataset.path, "test")
    parts = read_test(dataset, dataset.path, limit_of(context))
    given = blind.load(dataset, apart=(), test_at_once=2).test_inputs
    for found, expected in ((parts.inputs, whole.inputs), (parts.outputs, whole.outputs), (given, whole.inputs)):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("shape", [(9, 1, 16, 12), (9, 3, 2, 16, 12)])
def test_errors_do_not_depend_on_how_many_samples_are_processed_at_once(shape, monkeypatch):
    rng = np.random.default_rng(0)
    prediction, target = rng.standard_normal((2, *shape)).astype(np.float32)
    prediction[3] *= 1e30  # squares of some overflow in single precision
    for mask in (None, rng.random(shape[-2:]) > 0.3):
        whole = metrics.sample_errors(prediction, target, "relative_l2", mask)
        for values in (1, 3 * target[0].size, 4 * target[0].size):
            with monkeypatch.context() as patch:
                patch.setattr(metrics, "CHUNK", values)
                parts = metrics.sample_errors(prediction, target, "relative_l2", mask)
            for name, expected in whole.items():
                np.testing.assert_array_equal(parts[name], expected, strict=True)


def test_a_prediction_that_is_not_finite_is_found_in_any_part(monkeypatch):
    monkeypatch.setattr(metrics, "CHUNK", 1)
    fields = np.zeros((5, 1, 8))
    assert metrics.all_finite(fields)
    fields[4, 0, 7] = np.nan
    assert not metrics.all_finite(fields)


def test_models_that_fit_themselves_say_what_they_need(tmp_path):
    found = record_of(tmp_path, "few", models="linear,mean,persistence", tasks="toy_rollout", max_resident="15k")
    linear, persistence = found["linear"][0], found["persistence"][0]
    assert linear.status == "out_of_memory"
    assert "the model fits itself to the whole training set: up to" in linear.reason
    assert linear.reason.endswith("and --max-resident is 15.0 kB; raise it or leave the model out")
    assert persistence.status == "ok"  # it learns nothing


def test_a_solver_answers_in_parts_with_the_same_errors(tmp_path):
    settings = {"models": "coarse_solver,persistence", "tasks": "burgers_1d"}
    plain, bound = (record_of(tmp_path, name, **settings, **more) for name, more in MEMORIES.items())
    for model, (record, _) in bound.items():
        assert record.provenance["streamed_test"] == {"samples": 4, "at_once": 2}
        assert record.metrics == plain[model][0].metrics


def test_parts_of_one_array_are_alike():
    good = np.zeros((2, 3))
    for other in (np.zeros((2, 4)), np.zeros((2, 3), np.float32)):
        with pytest.raises(ValueError, match="of a sample follows float64"):
            spilling.spilled([good, other], 4)


def test_by_default_a_set_is_streamed_that_takes_more_than_its_share_of_free_memory(monkeypatch):
    dataset, context = dataset_of("poisson_1d"), Context(threads=1)
    needed = bytes_in_memory(dataset, dataset.size.train)
    monkeypatch.setattr(machine, "cores", lambda: 2)  # two trials at once
    for free, stays in ((4 * needed, False), (4 * needed - 4, True)):
        monkeypatch.setattr(machine, "free_memory", lambda free=free: free)
        assert stay_stored(dataset, dataset.size.train, context) == stays


@pytest.mark.parametrize(("limit", "message"), [("x", "'x' is not a number"), ("0", "must be positive, not 0")])
def test_a_limit_that_is_none(cli, limit, message):
    done = cli("run", "--models", "mean", "--tasks", "poisson_1d", "--max-resident", limit)
    assert (done.code, f"error: --max-resident: {message}" in done.err) == (2, True), done.err
