"""What is exported runs without this package's code for models, and gives the model's answers."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from pdebench_hss import load_model, run
from pdebench_hss.base.errors import UsageError
from pdebench_hss.use.exporting import export_model

NETWORKS = ("deeponet", "fno", "green_learning", "neural_hss", "resnet")
CLOSED = ("hss_fit", "linear", "linear_symmetric", "mean")


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Every model on a line, some in two dimensions and on a rollout with history."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDEBENCH_HSS_CACHE", str(folder / "cache"))
        options = {"scale": "smoke", "executor": "inline", "out": str(folder / "board")}
        run([*NETWORKS, *CLOSED, "coarse_solver", "fno[way=fft]"], "poisson_1d", **options)
        run(["factformer", "resnet", "neural_hss", "hss_fit"], "poisson_2d_lshape", **options)
        run(["resnet", "fno"], "burgers_1d[history=2]", **options)
        run(["deeponet", "fno", "neural_hss", "resnet", "hss_fit"], "poisson_3d", **options)
    return folder / "board"


@pytest.mark.parametrize("name", [*NETWORKS, *CLOSED, "fno[way=fft]"])
def test_every_model_is_written_by_torch_export(boards, tmp_path, name):
    model = load_model(boards, name, "poisson_1d")
    done = export_model(model, "torch-export", tmp_path / "m.pt2")
    assert done.outputs[1:] == (1, *model.task.grid)
    program = torch.export.load(tmp_path / "m.pt2").module()
    x = np.random.default_rng(0).standard_normal((1, *model.input_shape))
    assert np.allclose(program(torch.as_tensor(x)).detach().numpy(), model(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [*(n for n in NETWORKS if n != "fno"), *CLOSED])
def test_models_without_complex_numbers_are_written_as_onnx(boards, tmp_path, name):
    model = load_model(boards, name, "poisson_1d")
    export_model(model, "onnx", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((1, *model.input_shape))
    (answer,) = session.run(None, {session.get_inputs()[0].name: x})
    assert np.allclose(answer, model(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["fno", "fno[way=fft]"])
def test_complex_numbers_are_the_reason_why_not(boards, tmp_path, name):
    with pytest.raises(UsageError, match="can't be written as ONNX: ONNX has no complex numbers, and it computes with"):
        export_model(load_model(boards, name, "poisson_1d"), "onnx", tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("name", ["factformer", "resnet", "neural_hss", "hss_fit"])
@pytest.mark.parametrize("to", ["torch-export", "onnx"])
def test_two_dimensions(boards, tmp_path, name, to):
    assert export_model(load_model(boards, name, "poisson_2d_lshape"), to, tmp_path / "m").deviation < 1e-4


@pytest.mark.parametrize("name", ["deeponet", "fno", "neural_hss", "resnet", "hss_fit"])
def test_three_dimensions(boards, tmp_path, name):
    assert export_model(load_model(boards, name, "poisson_3d"), "torch-export", tmp_path / "m").deviation < 1e-4


def test_a_rollout_is_one_step_or_as_many_as_asked_for(boards, tmp_path):
    model = load_model(boards, "resnet", "burgers_1d[history=2]")
    n = model.task.grid[0]
    one = export_model(model, "onnx", tmp_path / "one.onnx")
    assert (one.inputs, one.outputs) == (("batch", 2, n), ("batch", 1, n))
    three = export_model(model, "torch-export", tmp_path / "three.pt2", steps=3)
    assert three.outputs == ("batch", 3, 1, n)
    x = np.random.default_rng(0).standard_normal((2, 2, n))
    answer = torch.export.load(tmp_path / "three.pt2").module()(torch.as_tensor(x)).detach().numpy()
    assert np.allclose(answer, model(x, steps=3), rtol=1e-5)


def test_a_model_that_was_used_is_exported_too(boards, tmp_path):
    model = load_model(boards, "green_learning", "poisson_1d")
    model(np.ones(model.input_shape))
    export_model(model, "torch-export", tmp_path / "m.pt2")


@pytest.mark.parametrize(
    ("name", "to", "options", "message"),
    [
        ("coarse_solver", "onnx", {}, "coarse_solver can't be exported: it is a classical solver"),
        ("mean", "word", {}, "--to word: no such format; formats: torch-export, onnx"),
        ("mean", "onnx", {"steps": 2}, "--steps 2: poisson_1d is not a rollout task"),
    ],
)
def test_what_can_not_be_exported_says_why(boards, tmp_path, name, to, options, message):
    with pytest.raises(UsageError, match=message):
        export_model(load_model(boards, name, "poisson_1d"), to, tmp_path / "m", **options)


def test_on_the_command_line(cli, boards, tmp_path):
    chosen = ("--model", "linear", "--task", "poisson_1d", "--to", "torch-export", "--out", "m.pt2")
    done = cli("export", str(boards), *chosen)
    assert done.code == 0, done.err
    assert "wrote m.pt2, float64 (batch, 1, 32) -> (batch, 1, 32); run and compared with the model: " in done.out
    again = cli("export", str(boards), *chosen)
    assert (again.code, again.err) == (2, "error: --out m.pt2 exists; add --force to write over it\n")
