"""`auto` on a GPU goes by what was measured there, and without the kernels where nothing was."""

from __future__ import annotations

import json
import random
import warnings
from dataclasses import replace

import pytest
import torch
from pdebench_hss_models.neural_hss import device_checks
from pdebench_hss_models.neural_hss.apply import measured, ways
from pdebench_hss_models.neural_hss.apply.cost import CPU, GPU, Axis, best_cut, price, triton_seconds
from pdebench_hss_models.neural_hss.apply.measured import Measured, Timing, fit
from pdebench_hss_models.neural_hss.triton import layer as triton_layer

CUDA = torch.device("cuda", 0)
SMALL, LARGE = Axis(64, 64, 1, 2, terms=1, rows=256), Axis(1024, 1024, 3, 32, terms=1, rows=8192)
SLOW_START = replace(GPU, start=1e-4)


@pytest.fixture(autouse=True)
def gpu(tmp_path, monkeypatch):
    """A GPU by name, a cache of its own, kernels that would run."""
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Fake 100")
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    ways.gpu_name.cache_clear()
    ways.warn_once.cache_clear()
    yield
    ways.gpu_name.cache_clear()
    measured._read.cache_clear()


def takes_triton(axis: Axis, way: str = "auto", device: torch.device = CUDA) -> bool:
    return ways.pick_triton(way, [axis], device, torch.float32)


def test_without_measurements_the_kernels_are_taken_only_if_asked_for():
    assert not takes_triton(SMALL)
    assert not takes_triton(LARGE)
    assert takes_triton(SMALL, way="triton")
    assert ways.machine_of(CUDA) == GPU


def test_with_measurements_auto_takes_what_is_faster():
    measured.write("Fake 100", Measured(SLOW_START, replace(GPU, start=1e-6, peak=1e12)))
    assert takes_triton(SMALL), "few launches count for most"
    assert not takes_triton(LARGE), "and speed of products there"
    assert ways.machine_of(CUDA) == SLOW_START
    assert not takes_triton(SMALL, device=torch.device("cpu")), "a CPU never asks"
    assert not takes_triton(SMALL, way="tree")


@pytest.mark.parametrize("change", ["another GPU", "another torch", "no kernels", "a tree without levels"])
def test_measurements_that_do_not_hold_here_are_not_used(change, monkeypatch):
    fast = replace(GPU, start=1e-9)
    measured.write(
        "Other 7" if change == "another GPU" else "Fake 100",
        Measured(SLOW_START, None if change == "no kernels" else fast),
    )
    if change == "another torch":
        monkeypatch.setattr(measured, "versions", lambda: {"torch": "9.9", "triton": "9.9"})
    assert not takes_triton(replace(SMALL, levels=0) if change == "a tree without levels" else SMALL)


@pytest.mark.parametrize(
    "content", ["", "[1]", '{"format": 1}', '{"format": 1, "gpus": {"Fake 100": {"versions": {}}}}', "nan"]
)
def test_a_file_that_can_not_be_read_is_named_and_ignored(content):
    measured.constants_file().write_text(content)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert not takes_triton(SMALL)
        assert not takes_triton(LARGE)
    named = [str(w.message) for w in seen]
    assert all("neural_hss_gpus.json can't be used" in text for text in named)
    assert len(named) <= 1


def test_constants_that_are_no_numbers_are_refused():
    path = measured.write("Fake 100", Measured(SLOW_START, GPU))
    content = json.loads(path.read_text())
    content["gpus"]["Fake 100"]["triton"]["peak"] = -1.0
    path.write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="must be positive"):
        assert not takes_triton(SMALL)


def test_kernels_that_fail_today_are_not_taken_and_that_is_told_once(monkeypatch):
    measured.write("Fake 100", Measured(SLOW_START, replace(GPU, start=1e-9)))
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: "the driver is too old")
    with pytest.warns(UserWarning, match="goes without the Triton kernels.*the driver is too old"):
        assert not takes_triton(SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not takes_triton(SMALL)


def test_gpus_are_kept_side_by_side():
    measured.write("Fake 100", Measured(SLOW_START))
    measured.write("Other 7", Measured(GPU, GPU))
    assert measured.of("Fake 100") == Measured(SLOW_START)
    assert measured.of("Other 7") == Measured(GPU, GPU)


def test_constants_are_found_from_timings():
    """Times made by known constants, with 5 % of noise, give constants that choose alike."""
    torchs = replace(GPU, start=2e-5, peak=4e12, near=6e11, far=6e11)
    kernels = replace(GPU, start=5e-6, peak=2e12, near=9e11, far=9e11)
    noise = random.Random(0)
    trees = ((64, 2, 2), (256, 3, 2), (1024, 3, 32), (4096, 6, 8))
    axes = [Axis(n, n, levels, rank, 1, rows) for n, levels, rank in trees for rows in (64, 8192)]
    timings = []
    for axis in axes:
        for way, cut in (("tree", axis.levels), ("collapsed", 1), ("dense", 0)):
            timings.append(Timing(axis, way, price(axis, cut, torchs).seconds * noise.uniform(0.95, 1.05)))
        timings.append(Timing(axis, "triton", triton_seconds(axis, torchs, kernels) * noise.uniform(0.95, 1.05)))
    found, exact = fit(timings), Measured(torchs, kernels)
    assert found.triton is not None
    for axis in axes:
        assert price(axis, 1, found.torch).seconds == pytest.approx(price(axis, 1, torchs).seconds, rel=0.15)
        ratio = triton_seconds(axis, found.torch, found.triton) / triton_seconds(axis, torchs, kernels)
        assert ratio == pytest.approx(1, rel=0.15)
    assert [found.prefers_triton([a]) for a in axes] == [exact.prefers_triton([a]) for a in axes]


def test_the_cpu_chooses_as_it_did():
    """Its constants are never measured: the same result on every machine."""
    measured.write("Fake 100", Measured(SLOW_START, GPU))
    assert ways.machine_of(torch.device("cpu")) is CPU
    assert ways.cuts("auto", [LARGE], ways.machine_of(torch.device("cpu"))) == [best_cut(LARGE, CPU)]


def test_doctor_keeps_what_it_measured_and_auto_goes_by_it():
    """Its conclusion from made-up timings of a GPU, as far as the choice of a layer."""
    kernels = replace(GPU, start=1e-6)
    timings, table = [], []
    for points, levels, rank, rows in device_checks.SIZES["cuda"]:
        axis = Axis(points, points, levels, rank, terms=1, rows=rows)
        times = {
            way: price(axis, cut, SLOW_START).seconds for way, cut in (("tree", levels), ("collapsed", 1), ("dense", 0))
        }
        times["triton"] = triton_seconds(axis, SLOW_START, kernels)
        timings += [Timing(axis, way, seconds) for way, seconds in times.items()]
        milliseconds = {way: 1e3 * seconds for way, seconds in times.items()}
        table.append({"points": points, "levels": levels, "rank": rank, "rows": rows, "ms": milliseconds})
    assert not takes_triton(SMALL)
    found = device_checks.conclude(timings, table, CUDA)
    assert found["status"] == "ok"
    assert found["data"]["worst"] < 1.1
    assert "64x256: triton" in found["line"]
    assert takes_triton(SMALL)


def test_a_rehearsal_measures_and_keeps_nothing(monkeypatch):
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: "no GPU")
    monkeypatch.setattr(device_checks, "available", lambda device, dtype: "no GPU")
    monkeypatch.setitem(device_checks.SIZES, "cpu", [(16, 1, 1, 4), (32, 2, 2, 8)])
    found = device_checks.timing(None, "cpu")
    assert set(found["data"]["table"][0]["ms"]) == {"tree", "collapsed", "dense"}
    assert not measured.constants_file().exists()
