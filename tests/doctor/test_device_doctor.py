"""`doctor --device`: its logic, with a CPU in place of the GPU and small fakes for what only a GPU can answer."""

from __future__ import annotations

import contextlib
import json
import time
from types import SimpleNamespace

import pytest
import torch

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.doctor import accelerator, cases, environment, numerics, report, trials
from pdebench_hss.doctor.outcome import FAIL, OK, SKIP, WARN

CHECKS = [
    *(
        "versions",
        "fork",
        "flags",
        "models",
        "same trial twice",
        "triton_kernels",
        "timing",
        "flops",
        "save and resume",
    ),
    *("seconds", "peak memory", "two GPUs"),
]


# --- the command


def test_without_a_gpu_there_is_one_line_and_exit_code_2(cli):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = cli("doctor", "--device", "cuda")
    assert done.code == 2
    assert done.err.startswith("error: --device cuda: torch ")
    assert len(done.err.strip().splitlines()) == 1
    assert done.out == ""


def test_there_are_twelve_checks_in_this_order():
    assert list(report.all_checks(load_registry())) == CHECKS


@pytest.mark.parametrize(
    ("device", "built", "gpus", "says"),
    [
        ("cuda", False, 0, "built without CUDA"),
        ("cuda", True, 0, "finds no GPU: see nvidia-smi"),
        ("cuda", True, 1, None),
        ("cuda:3", True, 2, "there are 2 GPUs, cuda:0 to cuda:1"),
        ("mps", True, 1, "NVIDIA GPUs"),
        ("cuda:x", True, 1, "not a device"),
        ("cpu", False, 0, None),
    ],
)
def test_a_device_that_can_not_be_examined_is_refused(monkeypatch, device, built, gpus, says):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: built)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    reason = accelerator.why_not(device)
    assert reason is None if says is None else says in str(reason)


# --- running checks


def fine(emit, device):
    return {"status": OK, "line": f"on {device}", "data": {"answer": 42}}


def raises(emit, device):
    raise ValueError("no such thing\nsecond line")


def crashes(emit, device):
    import os
    import signal

    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(emit, device):
    time.sleep(60)


def test_a_check_that_raises_crashes_or_hangs_fails_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", __file__.rsplit("/", 1)[0])
    lines: list[str] = []
    checks = {name: f"test_device_doctor:{name}" for name in ("raises", "crashes", "hangs", "fine")}
    found = report.examine(checks, "cpu", lines.append, timeout=3.0)
    assert [line.split()[0] for line in lines] == [FAIL, FAIL, FAIL, OK]
    assert "ValueError: no such thing" in lines[0]
    assert "SIGSEGV" in lines[1]
    assert "did not end within 3 s" in lines[2]
    assert found["failed"] == ["raises", "crashes", "hangs"]
    path = tmp_path / "report.json"
    report.write(found, path)
    content = json.loads(path.read_text())
    assert content["checks"][3]["data"] == {"answer": 42}
    assert content["versions"]["torch"] == found["versions"]["torch"]


# --- single checks, a CPU in place of the GPU


@pytest.fixture
def one_case(monkeypatch):
    """One small model in place of all."""
    case = next(case for case in cases.cases() if case.model.name == "resnet")
    for module in (numerics, trials):
        monkeypatch.setattr(module, "each_model", lambda: iter([case]))
    monkeypatch.setattr(numerics, "cases", lambda: iter([case]))
    monkeypatch.setattr(cases, "each_model", lambda: iter([case]))
    return case


def test_every_trained_model_is_tried_in_every_dimension_that_it_can_do():
    found = {(case.model.name, case.task.dim) for case in cases.cases()}
    assert {("neural_hss", 1), ("neural_hss", 2), ("neural_hss", 3), ("green_learning", 2)} <= found
    assert ("green_learning", 3) not in found
    assert {case.model.name for case in cases.each_model()} == {name for name, _ in found}


def test_models_against_the_cpu(one_case):
    found = numerics.models(None, "cpu")
    assert found["status"] == OK
    assert found["data"]["models"][one_case.name] == {"output": 0.0, "gradient": 0.0}


def test_a_model_that_computes_something_else_there_is_named(one_case, monkeypatch):
    plain = numerics.output_and_gradients
    calls = iter([0.0, 0.5])

    def off(*arguments):
        y, g = plain(*arguments)
        return y + next(calls), g

    monkeypatch.setattr(numerics, "output_and_gradients", off)
    found = numerics.models(None, "cpu")
    assert found["status"] == FAIL
    assert f"1 of 1 models: {one_case.name}: off by " in found["line"]


def test_a_step_that_waits_is_named(one_case, monkeypatch):
    """As torch does in its mode `error`: whatever needs a value from the device raises."""

    @contextlib.contextmanager
    def refusing(device):
        def item(self):
            raise RuntimeError("called a synchronizing CUDA operation")

        monkeypatch.setattr(torch.Tensor, "item", item)
        yield
        monkeypatch.undo()

    monkeypatch.setattr(accelerator, "refusing_waits", refusing)
    case = SimpleNamespace(build=lambda: Waits(), train_set=one_case.train_set)
    with pytest.raises(RuntimeError, match="synchronizing"):
        numerics.step_without_waiting(case, "cpu")


class Waits(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.scale + self.scale.detach().item()


def test_flops_that_differ_are_named(one_case, monkeypatch):
    assert numerics.flops(None, "cpu")["status"] == OK
    counts = iter([100.0, 570.0])
    monkeypatch.setattr(numerics, "count_step_flops", lambda *_: next(counts))
    found = numerics.flops(None, "cpu")
    assert found["status"] == FAIL
    assert found["line"].endswith(f"{one_case.name}: 100 and 570")


def test_save_and_resume(one_case, monkeypatch):
    found = trials.resume(None, "cpu")
    assert found["status"] == OK
    assert "1 of them bit for bit" in found["line"]
    whole = trials.weights(one_case, "cpu")
    answers = iter([whole, whole + 1])
    monkeypatch.setattr(trials, "weights", lambda *_: next(answers))
    assert trials.resume(None, "cpu")["status"] == FAIL


def test_the_same_trial_twice_and_flags_and_memory(one_case, monkeypatch):
    """Real trials: data are made in this session's cache."""
    assert trials.twice(None, "cpu")["status"] == OK
    assert environment.flags(None, "cpu")["data"]["flags"]["matmul_tf32"] is False
    assert trials.memory(None, "cpu")["status"] == OK
    errors = iter([1.0, 1.0 + 1e-6])
    record = SimpleNamespace(status="ok", metrics={})
    monkeypatch.setattr(
        trials, "run", lambda cell: SimpleNamespace(**{**vars(record), "metrics": {"test_err": next(errors)}})
    )
    found = trials.twice(None, "cpu")
    assert found["status"] == WARN
    assert "1 of 1 models differ between two runs" in found["line"]


@pytest.mark.parametrize(
    ("flags", "is_gpu", "status"),
    [
        ({"matmul_tf32": False, "cudnn_tf32": False}, True, OK),
        ({"matmul_tf32": False, "cudnn_tf32": True}, True, FAIL),
        ({"matmul_tf32": False, "cudnn_tf32": True}, False, OK),
        ({}, True, FAIL),
    ],
)
def test_tf32_in_a_float32_trial_is_a_failure(flags, is_gpu, status):
    assert environment.judge_flags(flags, is_gpu)["status"] == status


@pytest.mark.parametrize(("elapsed", "booked", "status"), [(5.1, 5.0, OK), (7.0, 5.0, FAIL), (5.1, 4.0, FAIL)])
def test_a_budget_of_seconds_is_kept_by_both_clocks(elapsed, booked, status):
    assert trials.judge_seconds(elapsed, booked, 10)["status"] == status


@pytest.mark.parametrize(("peak", "status"), [(2**24, OK), (0, FAIL), (2**29, FAIL)])
def test_a_peak_is_the_trials_own(peak, status):
    assert trials.judge_memory(peak, is_gpu=True)["status"] == status


@pytest.mark.parametrize(("device", "gpus", "status"), [("cpu", 0, SKIP), ("cuda", 1, SKIP), ("cuda", 2, OK)])
def test_two_gpus_are_used_where_there_are_two(one_case, monkeypatch, device, gpus, status):
    started = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(trials, "run_command", lambda case, option, folder: started.append(option) or "ok")
    assert trials.several(None, device)["status"] == status
    assert started == (["--ddp", "--jobs"] if status == OK else [])


def test_a_fork_that_could_not_start_cuda_is_named(monkeypatch):
    assert environment.fork(None, "cpu")["status"] == OK
    monkeypatch.setattr(accelerator, "is_initialized", lambda device: True)
    assert "before the fork" in environment.fork(None, "cpu")["line"]


def test_what_is_told_of_a_gpu(monkeypatch):
    properties = SimpleNamespace(name="Fake 100", major=9, minor=0, total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(accelerator, "_driver", lambda: "580.1")
    found = environment.versions(None, "cuda")
    assert found["status"] in (OK, WARN)
    assert "Fake 100" in found["line"]
    assert "driver 580.1, capability 9.0" in found["line"]


def test_time_is_taken_by_the_gpus_own_events(monkeypatch):
    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            pass

        synchronize = record

        def elapsed_time(self, other):
            return 7.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert accelerator.milliseconds_on("cuda", lambda: None) == 7.0
    assert accelerator.milliseconds_on("cpu", lambda: time.sleep(0.01)) >= 10
