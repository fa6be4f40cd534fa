"""The Triton kernels without a GPU: in the interpreter, ahead of time for two architectures, and where they can't run.

Each in a process of its own, because Triton decides at import whether kernels are interpreted or compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from pdebench_hss_models.neural_hss import triton_layer
from pdebench_hss_models.neural_hss.triton_layer import apply_triton, available

HERE = Path(__file__).parent


def python(*arguments: str, interpret: bool) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_INTERPRET": "1"} if interpret else {}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)


def test_the_promises_hold_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    run = python("-m", "pytest", "-q", str(HERE / "hss_triton_promises.py"), interpret=True)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert "skipped" not in run.stdout


def report(out: Path, *options: str) -> pd.DataFrame:
    """The command itself fails if a kernel spills, needs too much shared memory or does the wrong arithmetic."""
    pytest.importorskip("triton")
    run = python("-m", "pdebench_hss_models.neural_hss.triton_report", "--out", str(out), *options, interpret=False)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    return pd.read_csv(f"{out}.csv")


def test_kernels_compile_for_tensor_cores_without_spilling(tmp_path: Path) -> None:
    table = report(tmp_path / "report", "--arch", "80", "--arithmetic", "tf32")
    assert set(table["kernel"]) == {"project", "expand", "whole", "correlate"}
    assert (table["spills"] == 0).all()
    assert table["arithmetic"].str.contains("HMMA").all()


@pytest.mark.slow
def test_kernels_compile_for_every_architecture_and_precision(tmp_path: Path) -> None:
    table = report(tmp_path / "report")
    assert set(table["arch"]) == {"sm_80", "sm_90"}
    assert set(table["kernel"]) == {"project", "expand", "whole", "correlate", "activation_backward"}
    assert (table["spills"] == 0).all()
    assert (table["shared_bytes"] <= 99 * 1024).all(), "fits the smaller GPUs of compute capability 8.6 and 8.9 too"
    products = table[table["kernel"] != "activation_backward"]
    single, double = products[products["dtype"] == "float32"], products[products["dtype"] == "float64"]
    on_tensor_cores = single["arithmetic"].str.contains("HMMA|HGMMA")
    assert (on_tensor_cores == (single["precision"] != "ieee")).all()
    assert double["arithmetic"].str.contains("DMMA|DFMA").all()


@pytest.mark.parametrize(
    ("flaw", "complaint"),
    [
        ({"spills": 3}, "spills registers: 3"),
        ({"shared_bytes": 200_000}, "needs 200000 bytes of shared memory, 166912 is the limit"),
        ({"arithmetic": "HMMA:8"}, "other arithmetic than expected: HMMA:8"),
    ],
)
def test_the_report_complains(flaw: dict[str, object], complaint: str) -> None:
    pytest.importorskip("triton")
    from pdebench_hss_models.neural_hss.triton_report import Entry, broken_promises

    fine = Entry("expand", "n=64", "float32", "ieee", "sm_80", 4, 96, 8192, 0, "FFMA:512")
    assert broken_promises(fine) == []
    assert complaint in broken_promises(replace(fine, **flaw))[0]


@pytest.fixture
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.mark.usefixtures("_compiled")
def test_a_missing_gpu_is_a_reason_and_an_error_that_says_so() -> None:
    reason = available(torch.device("cpu"), torch.float32)
    assert reason is not None
    assert "need an NVIDIA GPU" in reason
    assert "'cpu'" in reason
    with pytest.raises(RuntimeError, match="need an NVIDIA GPU"):
        apply_triton(
            *(torch.zeros(1, 1, 2, 2),) * 2, torch.zeros(1, 2, 2), torch.zeros(1, 1, 2, 2), torch.zeros(3, 1, 2)
        )


@pytest.mark.usefixtures("_compiled")
def test_a_missing_triton_is_a_reason_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_layer.importlib.util, "find_spec", lambda name: None)
    assert "pip install 'pdebench-hss[kernels]'" in str(available(torch.device("cuda"), torch.float32))


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize(("capability", "fine"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_old_gpus_are_refused(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], fine: bool) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    reason = available(torch.device("cuda"), torch.float32)
    assert reason is None if fine else "7.5" in str(reason)


@pytest.mark.usefixtures("_compiled")
def test_half_precision_is_refused() -> None:
    assert "not in bfloat16" in str(available(torch.device("cuda"), torch.bfloat16))


def test_the_layer_can_be_imported_without_triton() -> None:
    code = "import sys, pdebench_hss_models.neural_hss.triton_layer; sys.exit('triton' in sys.modules)"
    assert python("-c", code, interpret=False).returncode == 0
