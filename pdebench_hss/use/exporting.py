"""Trained models as files for other programs: ``torch-export`` (torch.export, ``.pt2``) and ``onnx``.

    model + normalisation (`physical`) -> a graph -> the file -> read again, run, and compared with the model

So an exported file computes what the model computes, up to rounding. The batch may have any size if the model's code
does not depend on it; otherwise it is fixed, and the outcome says so. If a format can't express a model, the error says
why.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..base.errors import UsageError
from ..base.files import replacing
from .field_files import check_new_file
from .loaded import LoadedModel
from .physical import Physical

FORMATS = {"torch-export": ".pt2", "onnx": ".onnx"}
EXAMPLE_BATCH = 3  # batch to trace with; not 1, which would look like a constant
TRIED_BATCH = 5  # batch to test a graph that takes any size
SEED = 20240229
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-9}  # of the largest value; a format may sum in another order


@dataclass(frozen=True)
class Exported:
    """A file that was written and tested.

    inputs, outputs   shapes of what it takes and gives; the first axis is "batch" where it may have any size
    deviation         the largest difference from the model's own answer, relative to its largest value
    """

    path: Path
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    deviation: float


def export_model(
    loaded: LoadedModel, to: str, path: str | Path, *, steps: int = 0, batch: int = 1, force: bool = False
) -> Exported:
    """Write a model as a file and test it. ``steps`` of a rollout task, 0 for one step that maps fields to fields;
    ``batch`` is the batch size if that has to be fixed."""
    path = Path(path)
    _check(loaded, to, steps)
    check_new_file(path, force)
    module = Physical(loaded, steps).eval()
    who = f"{loaded.record.trial.model_label} on {loaded.record.trial.task_label}"
    with torch.no_grad(), _quiet():
        program, free = _trace(module, loaded, batch, who)
        with replacing(path) as temporary:
            if to == "onnx":
                _write_onnx(program, temporary, who)
            else:
                content = io.BytesIO()
                torch.export.save(program, content)
                temporary.write_bytes(content.getvalue())
            run = _read_onnx(temporary) if to == "onnx" else _read_torch(temporary)
            deviation, outputs = _compare(run, module, loaded, [TRIED_BATCH, 1] if free else [batch], who)
    first = "batch" if free else batch
    return Exported(path, (first, *loaded.input_shape), (first, *outputs), deviation)


def _check(loaded: LoadedModel, to: str, steps: int) -> None:
    if to not in FORMATS:
        raise UsageError(f"--to {to}: no such format; formats: {', '.join(FORMATS)}")
    if steps and not loaded.task.rollout:
        raise UsageError(f"--steps {steps}: {loaded.task.name} is not a rollout task")
    who = loaded.record.trial.model_label
    if hasattr(loaded.module, "solve") or not isinstance(loaded.module, nn.Module):
        raise UsageError(f"{who} can't be exported: it is a classical solver, not a network that torch can trace")
    if loaded.predictor.device.type != "cpu":
        raise UsageError(f"{who} is exported from the CPU; load it with device cpu")


def _trace(module: nn.Module, loaded: LoadedModel, batch: int, who: str) -> tuple[Any, bool]:
    """The graph, and whether it takes a batch of any size."""
    copy.deepcopy(module)(_inputs(loaded, EXAMPLE_BATCH))  # fill the model's caches before tracing
    any_size = {"x": {0: torch.export.Dim("batch")}}
    # Each in a copy: caches that are filled during tracing can't be used afterwards. Strict mode reads the code itself,
    # so it understands a batch length that the other mode takes for a constant. With gradients on, a model may ignore
    # its caches of earlier calls.
    ways = (
        *((strict, any_size, EXAMPLE_BATCH, grad) for strict, grad in ((False, False), (True, False), (False, True))),
        *((False, None, batch, grad) for grad in (False, True)),
    )
    for strict, shapes, size, grad in ways:
        try:
            inputs = (_inputs(loaded, size),)
            with torch.set_grad_enabled(grad):
                program = torch.export.export(copy.deepcopy(module), inputs, dynamic_shapes=shapes, strict=strict)
            return program, shapes is not None
        except Exception as error:  # torch has several ways to say that the code depends on the size
            reason = _reason(error)
    raise UsageError(f"{who} can't be exported: torch can't trace it ({reason})")


def _inputs(loaded: LoadedModel, count: int) -> torch.Tensor:
    """Random fields of the size that the model was trained on, (count, channels, *grid)."""
    rng, affine = np.random.default_rng(SEED), loaded.normalizer.inputs
    along = (1, -1, *[1] * loaded.task.dim)
    values = rng.uniform(-1, 1, (count, *loaded.input_shape))
    return torch.as_tensor(affine.shift.reshape(along) + affine.scale.reshape(along) * values)


def _write_onnx(program: Any, path: Path, who: str) -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(f"--to onnx: {error}; install the extra: pip install 'pdebench-hss[export]'") from None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            torch.onnx.export(program, (), str(path), dynamo=True, external_data=False, verbose=False)
    except Exception as error:
        reason = _complex_operator(program) or _reason(error)
        raise UsageError(f"{who} can't be written as ONNX: {reason}") from error


def _complex_operator(program: Any) -> str:
    """The first operator of a graph with a complex result: ONNX has only real numbers."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and value.is_complex():
            return f"ONNX has no complex numbers, and it computes with them ({node.target})"
    return ""


def _read_torch(path: Path) -> Callable[[torch.Tensor], np.ndarray]:
    module = torch.export.load(io.BytesIO(path.read_bytes())).module()
    return lambda x: module(x).detach().numpy()


def _read_onnx(path: Path) -> Callable[[torch.Tensor], np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


def _compare(
    run: Callable[[torch.Tensor], np.ndarray], module: nn.Module, loaded: LoadedModel, sizes: list[int], who: str
) -> tuple[float, tuple[int, ...]]:
    """The largest deviation from the model for batches of these sizes, and the shape of one answer."""
    worst, shape = 0.0, ()
    for size in sizes:
        x = _inputs(loaded, size)
        expected = module(x).numpy()
        try:
            found = run(x)
        except Exception as error:
            raise UsageError(f"{who}: what was exported does not run ({_reason(error)})") from error
        if found.shape != expected.shape:
            raise UsageError(f"{who}: what was exported answers with shape {found.shape}, not {expected.shape}")
        worst = max(worst, float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300)))
        shape = expected.shape[1:]
    limit = ROUNDING.get(loaded.predictor.dtype, 1e-2)
    if not worst <= limit:
        raise UsageError(f"{who}: what was exported differs from the model by {worst:.1e}, more than {limit:g}")
    return worst, shape


def _reason(error: BaseException) -> str:
    """One line of torch's long error message: that of the innermost cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's exporters, which report packages that are not needed."""
    loggers = [
        logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export", "onnxscript", "onnx_ir")
    ]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
