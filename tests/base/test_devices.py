"""Which device a trial gets: names are checked, GPUs are counted by a child, and nobody shares one by accident."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from fake_device import pretend_gpus

from pdebench_hss import ModelSpec
from pdebench_hss.base import devices, machine
from pdebench_hss.base.devices import Device
from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.runs import config
from pdebench_hss.runs.config import RunConfig, make_config
from pdebench_hss.runs.executors.process import ProcessExecutor
from pdebench_hss.workers import pool


@pytest.fixture
def many_cores(monkeypatch):
    monkeypatch.setattr(config, "available_cores", lambda: 64)


@pytest.mark.parametrize(
    ("device", "gpus", "jobs"),
    [("auto", 2, 2), ("cuda", 2, 2), ("cuda:1", 2, 1), ("auto", 0, 64), ("cpu", 2, 64)],
)
def test_there_is_a_job_per_gpu_and_not_per_core(monkeypatch, many_cores, device, gpus, jobs):
    pretend_gpus(monkeypatch, gpus)
    settings = RunConfig(tasks="a", device=device)
    assert settings.n_jobs == jobs
    assert settings.threads == 64 // jobs
    assert RunConfig(tasks="a", device=device, jobs=5).n_jobs == 5  # whoever says so may share


def test_auto_is_the_best_there_is(monkeypatch):
    pretend_gpus(monkeypatch, 0)
    assert devices.resolve_device("auto") == Device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.resolve_device("auto") == Device("mps")
    assert RunConfig(tasks="a").n_jobs == 1
    pretend_gpus(monkeypatch, 1)
    assert devices.resolve_device("auto") == Device("cuda")


@pytest.mark.parametrize(
    ("device", "complaint"),
    [
        ("tpu", "no device 'tpu'; devices: auto, cpu, cuda, mps, or cuda:N for one GPU of several"),
        ("cuda:x", "--device cuda:x: 'x' is not the number of a GPU; write cuda:0, cuda:1, …"),
        ("cuda:-1", "--device cuda:-1: '-1' is not the number of a GPU"),
        ("cuda:", "--device cuda:: '' is not the number of a GPU"),
        ("auto:3", "--device auto:3: only cuda takes a number; write auto, or cuda:N"),
        ("cpu:0", "--device cpu:0: only cuda takes a number; write cpu, or cuda:N"),
    ],
)
def test_a_name_that_is_no_device_is_refused_when_the_command_is_read(device, complaint):
    with pytest.raises(UsageError) as refusal:
        make_config({"tasks": "poisson_1d", "device": device})
    assert complaint in str(refusal.value)


def test_a_device_that_is_not_there_is_refused_before_anything_starts(monkeypatch):
    pretend_gpus(monkeypatch, 2)
    assert devices.resolve_device("cuda:1") == Device("cuda", 1)
    with pytest.raises(UsageError, match=r"--device cuda:7: not available here; this machine has 2 GPUs, cuda:0 to cu"):
        devices.resolve_device("cuda:7")
    pretend_gpus(monkeypatch, 0)
    with pytest.raises(UsageError, match=r"cuda: not available here \(torch finds no NVIDIA GPU\); use --device auto"):
        devices.resolve_device("cuda")
    with pytest.raises(UsageError, match="--device mps: not available here"):
        devices.resolve_device("mps")
    assert devices.resolve_device("cuda", elsewhere=True) == Device("cuda")  # a cluster may have what the driver hasn't


def test_on_ray_the_cluster_chooses_the_gpu():
    with pytest.raises(UsageError, match="--device cuda:1: with --executor ray, Ray chooses the GPU; write --device c"):
        RunConfig(tasks="a", device="cuda:1", executor="ray")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"precision": "half"}, "no precision 'half'; precisions: float32, tf32, bf16"),
        ({"precision": "tf32", "device": "cpu"}, "tf32 is a mode of NVIDIA GPUs: use --device cuda, not cpu"),
        ({"precision": "bf16", "device": "mps"}, "--precision bf16: not on mps"),
    ],
)
def test_a_precision_that_the_device_has_not_is_refused(options, complaint):
    with pytest.raises(UsageError) as refusal:
        RunConfig(tasks="a", **options)
    assert complaint in str(refusal.value)


# --- GPUs are looked at by a child ------------------------------------------------------------------------------------


def test_a_build_without_cuda_is_not_asked_and_says_why(monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was started for nothing"))
    devices.look.cache_clear()
    assert devices.look().gpus == ()
    assert "is built without CUDA" in devices.look().reason


def test_the_child_that_looks_answers_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "pdebench_hss.base.devices"], capture_output=True, text=True, timeout=120
    )
    found = devices.read_answer(done.returncode, done.stdout, done.stderr)
    assert (found.gpus == ()) == (not torch.cuda.is_available())
    assert bool(found.reason) == (not found.gpus)


def test_what_the_child_says_is_read_back_and_its_death_is_a_reason():
    line = '{"gpus": [{"name": "A", "memory": 8, "capability": [8, 0]}], "reason": ""}'
    assert devices.read_answer(0, f"noise\n{line}\n", "").gpus == (devices.Gpu("A", 8, (8, 0)),)
    died = devices.read_answer(-11, "", "Traceback\nRuntimeError: the driver is too old\n")
    assert died == devices.Found(reason="looking for GPUs failed: RuntimeError: the driver is too old")


ASKS = """
import torch
calls = []
def recorder(name):
    def call(*args):
        calls.append(name)
        return 1
    return call
for name in ("_cuda_getDeviceCount", "_cuda_init", "_cuda_getDevice", "_cuda_getCurrentRawStream"):
    setattr(torch._C, name, recorder(name))  # with the first, torch takes itself for a build with CUDA
torch.cuda._lazy_init = recorder("_lazy_init")
assert torch.cuda._is_compiled()
"""


def test_a_warm_worker_may_still_be_forked_because_it_has_asked_cuda_nothing():
    """To count GPUs is enough to spoil every fork, where nvidia-smi's library is missing or GPUs are MIG slices."""
    program = ASKS + "import pdebench_hss.trials.warm\nprint(calls)\ntorch.cuda.device_count()\nprint(calls)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    silent, control = done.stdout.strip().splitlines()
    assert silent == "[]"
    assert control == "['_cuda_getDeviceCount']"  # the recorders do record


# --- who gets which ---------------------------------------------------------------------------------------------------


def started_workers(monkeypatch, tmp_path, count: int, **options) -> list[dict[str, str]]:
    """The environments of the first ``count`` workers of a run, none of which is really started."""
    started: list[dict[str, str]] = []

    class Enough(Exception):
        pass

    def popen(command, pass_fds, env, **_):
        for number in pass_fds:
            os.dup(number)  # as a child would hold them, or the pool takes the worker for dead
        started.append(env)
        if len(started) == count:
            raise Enough
        return SimpleNamespace(wait=lambda timeout=None: 0, returncode=0)

    monkeypatch.setattr(pool.subprocess, "Popen", popen)
    settings = RunConfig(tasks="toy", out=str(tmp_path), **options)
    executor = ProcessExecutor(None, settings)
    executor.prepare([])
    trials = [SimpleNamespace(key=str(number), budget=Budget("steps", 4)) for number in range(count)]
    from pdebench_hss.runs.executors import Work
    from pdebench_hss.trials.context import Context

    with pytest.raises(Enough):
        list(executor.run([Work(trial, Context()) for trial in trials]))
    return started


@pytest.mark.parametrize("options", [{"jobs": 2}, {"ddp": 2}, {}])
def test_every_worker_has_a_gpu_of_its_own(monkeypatch, tmp_path, options):
    pretend_gpus(monkeypatch, 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    started = started_workers(monkeypatch, tmp_path, 2, device="cuda", **options)
    assert [env.get("CUDA_VISIBLE_DEVICES") for env in started] == ["0", "1"]


def test_gpus_that_were_chosen_outside_stay_chosen_and_cpu_workers_see_none(monkeypatch, tmp_path):
    pretend_gpus(monkeypatch, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-aa, GPU-bb")
    started = started_workers(monkeypatch, tmp_path, 3, device="cuda", jobs=3)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in started] == ["MIG-aa", "GPU-bb", "MIG-aa"]  # three jobs share two
    started = started_workers(monkeypatch, tmp_path, 2, device="cuda:1", jobs=2)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in started] == ["GPU-bb", "GPU-bb"]
    started = started_workers(monkeypatch, tmp_path, 2, device="cpu", jobs=2)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in started] == ["", ""]


def test_the_worker_that_replaces_a_dead_one_takes_its_gpu(monkeypatch):
    monkeypatch.setattr(pool, "_Worker", lambda threads, preload, own: SimpleNamespace(own=own, job=True, start=id))
    places = [{"CUDA_VISIBLE_DEVICES": name} for name in "01"]
    workers = pool.WorkerPool(2, environments=places)
    workers._workers = [SimpleNamespace(own=place) for place in places]
    del workers._workers[0]
    assert workers._least_used() == places[0]


@pytest.mark.parametrize(
    ("gpus", "device", "complaint"),
    [
        (1, "cuda", "--ddp 2 needs 2 GPUs, one for each process; this machine has 1"),
        (4, "cuda:3", "--ddp 2 needs 2 GPUs, one for each process; --device cuda:3 is one"),
    ],
)
def test_peers_that_would_meet_on_one_gpu_are_refused(monkeypatch, gpus, device, complaint):
    pretend_gpus(monkeypatch, gpus)
    with pytest.raises(UsageError, match=complaint):
        ProcessExecutor(None, RunConfig(tasks="toy", device=device, ddp=2)).prepare([])


def test_what_a_machine_is_called_does_not_depend_on_gpus_that_are_not_used(monkeypatch):
    here = machine.hardware()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"Fake {index}")
    machine.hardware.cache_clear()
    assert machine.hardware() == here
    used = machine.hardware(("Fake",))
    assert used["id"] != here["id"]
    assert used["gpus"] == ["Fake"]


def test_the_line_for_people_names_all_gpus(monkeypatch):
    pretend_gpus(monkeypatch, 2)
    assert "Fake, Fake" in machine.hardware_line()


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_closed_forms_reserve_no_gpu_on_a_cluster(monkeypatch, tmp_path):
    from pdebench_hss.runs.plan import Cell
    from pdebench_hss.runs.runner import Run

    options = {"models": "linear,mean,coarse_solver,hss_fit,resnet,fno", "tasks": "poisson_1d", "scale": "smoke"}
    settings = RunConfig(**options, device="cuda", executor="ray", out=str(tmp_path))
    plan = Run(settings, load_registry()).plan()

    def gpus(cell: Cell) -> float:
        return Run(settings, load_registry())._needs(cell).gpus

    assert {cell.trial.model: gpus(cell) for cell in plan.cells} == {
        **{"linear": 0, "mean": 0, "coarse_solver": 0, "hss_fit": 0},
        **{"resnet": 1, "fno": 1},
    }


def test_a_model_that_can_not_be_imported_is_taken_for_one_that_is_trained():
    assert ModelSpec("m", "m", "no_such_package:Model").is_trained()
    assert ModelSpec("m", "m", lambda task: None).is_trained()
    assert not ModelSpec("m", "m", lambda task: None, training_free=True).is_trained()


def test_a_trial_in_this_process_is_told_which_gpu(monkeypatch, tmp_path):
    from pdebench_hss.runs.executors import Work, inline
    from pdebench_hss.trials.context import Context

    pretend_gpus(monkeypatch, 2)
    monkeypatch.setattr(inline, "run_trial", lambda trial, context, registry: context.gpu)
    executor = inline.InlineExecutor(None, RunConfig(tasks="toy", device="cuda:1", executor="inline"))
    *_, finished = executor.run([Work(SimpleNamespace(key="k", budget=Budget("steps", 4)), Context())])
    assert finished.record == 1
