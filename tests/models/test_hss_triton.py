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
from pdebench_hss_models.neural_hss.triton import layer as triton_layer
from pdebench_hss_models.neural_hss.triton import probe as triton_probe
from pdebench_hss_models.neural_hss.triton.layer import apply_triton, available

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
    run = python("-m", "pdebench_hss_models.neural_hss.triton.report", "--out", str(out), *options, interpret=False)
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
    assert set(table["arch"]) == {f"sm_{arch}" for arch in (75, 80, 86, 89, 90, 100, 120)}
    assert set(table["kernel"]) == {"project", "expand", "whole", "correlate", "activation_backward"}
    trained_in = (table["dtype"] == "float32") & (table["precision"] == "ieee")
    assert (table["spills"][trained_in] == 0).all()
    assert (table["spills"] <= 11).all()
    assert (table["shared_bytes"] <= 64 * 1024).all(), "fits the smallest, sm_75"
    products = table[table["kernel"] != "activation_backward"]
    single, double = products[products["dtype"] == "float32"], products[products["dtype"] == "float64"]
    on_tensor_cores = single["arithmetic"].str.contains("HMMA|HGMMA|UTCHMMA")
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
    from pdebench_hss_models.neural_hss.triton.report import Entry, broken_promises

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
@pytest.mark.parametrize(("capability", "fine"), [((7, 0), False), ((7, 5), True), ((9, 0), True)])
def test_old_gpus_are_refused(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], fine: bool) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(triton_probe, "refusal", lambda device, dtype: None)
    reason = available(torch.device("cuda"), torch.float32)
    assert reason is None if fine else "this GPU has 7.0" in str(reason)


@pytest.mark.parametrize(
    ("version", "fine"), [("3.0.0", False), ("3.4.0", False), ("3.5.0", True), ("4.0.0+git", True)]
)
def test_versions_of_triton_that_do_not_compile_float64_are_refused(version: str, fine: bool) -> None:
    reason = triton_probe.too_old(version)
    assert reason is None if fine else f"Triton {version} is too old" in str(reason)


@pytest.fixture
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch, _compiled: None) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    triton_probe._try.cache_clear()


@pytest.mark.usefixtures("_on_a_gpu")
def test_kernels_are_tried_once_and_what_fails_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def fails(device: torch.device, dtype: torch.dtype) -> float:
        tries.append(dtype)
        raise RuntimeError("ptxas fatal: sm_999 is not defined\nand more")

    monkeypatch.setattr(triton_probe, "try_kernels", fails)
    for _ in range(3):
        reason = available(torch.device("cuda", 0), torch.float64)
        assert reason == (
            "the Triton kernels fail on this machine in float64: RuntimeError: ptxas fatal: sm_999 is not defined"
        )
    assert tries == [torch.float64]


@pytest.mark.usefixtures("_on_a_gpu")
def test_kernels_that_compute_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_probe, "try_kernels", lambda device, dtype: 0.5)
    assert "are wrong on this machine in float32: off by 5.0e-01" in str(available(torch.device("cuda"), torch.float32))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "compiles"), [("3.4.0", False), ("3.5.0", True)])
def test_the_oldest_version_that_compiles_float64(tmp_path: Path, version: str, compiles: bool) -> None:
    """Installed side by side from a package index, as benchmarks/triton_versions.py does for all of them."""
    pytest.importorskip("triton")
    script = Path(__file__).parents[2] / "benchmarks" / "triton_versions.py"
    run = python(str(script), version, "--keep", str(tmp_path), interpret=False)
    assert run.returncode == 0, run.stderr[-2000:]
    row = run.stdout.strip().splitlines()[-1]
    assert row.startswith(f"| {version} | ")
    assert ("fp64" not in row) == compiles == (triton_probe.too_old(version) is None)


@pytest.mark.usefixtures("_compiled")
def test_half_precision_is_refused() -> None:
    assert "not in bfloat16" in str(available(torch.device("cuda"), torch.bfloat16))


def test_the_layer_can_be_imported_without_triton() -> None:
    code = "import sys, pdebench_hss_models.neural_hss.triton.layer; sys.exit('triton' in sys.modules)"
    assert python("-c", code, interpret=False).returncode == 0
