"""The errors of every model in two versions of the source, after the same training from the same parameters.

    python benchmarks/same_errors.py [--before REVISION] [--tasks NAME ..] [--steps 30] [--out FILE.csv]

The older commit is unpacked into a temporary directory, and each version trains in a process of its own: the network
that the *older* version has at scale small, the parameters that it starts with there, the data of the newer version
(of rollouts the first step), the same batches, AdamW. What is compared is the relative L2 error on the test samples, in
float32, as trials are trained, and in float64, where rounding is so small that nothing can hide behind it. The newer
version computes every batch in two pieces and adds their gradients. Rates and ways to start that were changed on
purpose are not part of this.

``apart`` is how far the predictions of the two versions are from each other, relative, of the worst test sample: equal
errors alone might be a coincidence. Ends with 1 if it is more than rounding can explain, 1e-10 in float64. In float32 a
training magnifies rounding; there it is shown and not judged.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabulate import tabulate
from torch.nn import functional as F
from two_versions import ROOT, in_version, registry, unpack

BEFORE = "29463eb^"  # of the first change that was for speed alone
TASKS = ("heat_1d", "poisson_2d", "gray_scott_inverse")
MODELS = ("neural_hss", "fno", "resnet", "factformer", "deeponet", "green_learning")
SCALE = "small"
BATCH, TRAIN, TEST = 16, 64, 32
LIMIT = 1e-10
KINDS = {"float32": torch.float32, "float64": torch.float64}


def turn(task_name: str, model_name: str, steps: int, newer: bool, folder: Path) -> dict[str, Any]:
    """In a process of its own: train in both precisions, and leave the parameters to start with for the newer one."""
    torch.set_num_threads(1)
    known = registry()
    spec, task = known.model(model_name).spec, known.task(task_name).spec.info(SCALE)
    if spec.supports is not None and spec.supports(task) is not None:
        return {"refused": spec.supports(task)}
    start = folder / f"{task_name}-{model_name}.pt"
    hparams = torch.load(start)["hparams"] if newer else spec.hparams_for(task)
    torch.manual_seed(0)
    model = spec.make(task, hparams)
    if newer:
        load(model, torch.load(start)["parameters"])
    else:
        torch.save({"hparams": hparams, "parameters": dict(model.named_parameters())}, start)
    whole = {name: value.clone() for name, value in model.state_dict().items()}
    data = np.load(folder / f"{task_name}.npz")
    found: dict[str, Any] = {}
    for kind, dtype in KINDS.items():
        model.to(dtype).load_state_dict(whole)
        x, y, x_test, y_test = (torch.as_tensor(data[name]).to(dtype) for name in ("x", "y", "x_test", "y_test"))
        train(model, x, y, steps, pieces=2 if newer else 1)
        with torch.no_grad():
            prediction = model(x_test)
        found[kind] = float((relative(prediction, y_test)).mean())
        kept = start.with_suffix(f".{kind}")
        if newer:
            found[f"apart {kind}"] = float(relative(prediction, torch.load(kept)).max())
        else:
            torch.save(prediction, kept)
    return found


def relative(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """L2 distance of each sample from b, relative to b."""
    return (a - b).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1)


def load(model: torch.nn.Module, theirs: dict[str, torch.Tensor]) -> None:
    """Parameters of the older version. Where the newer one has those of all maps of a chain in one tensor, they are put
    one after the other."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in theirs:
                parameter.copy_(theirs[name])
                continue
            ending = ".slope" if name.endswith(".slopes") else f".axes.0.{name.split('matrices.')[1]}"
            torch.cat([value for other, value in theirs.items() if other.endswith(ending)], out=parameter)


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, pieces: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for step in range(steps):
        chosen = torch.arange(step * BATCH, (step + 1) * BATCH) % len(x)
        optimizer.zero_grad()
        for part in chosen.chunk(pieces):
            torch.manual_seed(step)  # of models that draw what they compute
            (F.mse_loss(model(x[part]), y[part]) / pieces).backward()
        optimizer.step()
    model.eval()


def save_data(task: str, folder: Path) -> None:
    """Samples of the newer version, normalised by train."""
    import pdebench_hss as pb

    data = pb.load_task(task, SCALE)
    scaled = {}
    for field, name in (("inputs", "x"), ("outputs", "y")):
        train, test = (getattr(split, field) for split in (data.train, data.test))
        if train.ndim > 2 + data.task.dim:
            train, test = train[:, 0], test[:, 0]
        size = np.abs(train).max(axis=(0, *range(2, train.ndim)), keepdims=True)
        scaled |= {name: train[:TRAIN] / size, f"{name}_test": test[:TEST] / size}
    np.savez(folder / f"{task}.npz", **scaled)


def main() -> int:
    parser = argparse.ArgumentParser(description="Errors of every model in two versions of the source.")
    parser.add_argument("--before", default=BEFORE, help="a commit of this repository")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--out", help="write the table as CSV")
    parser.add_argument("--turn", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        task, model, steps, newer, folder = options.turn
        print(json.dumps(turn(task, model, int(steps), newer == "newer", Path(folder))))
        return 0
    rows, missed = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = unpack(options.before, folder / "before")
        for task in options.tasks:
            save_data(task, folder)
            for model in options.models:
                old, new = (
                    in_version(tree, __file__, [task, model, str(options.steps), which, name])
                    for tree, which in ((before, "older"), (ROOT, "newer"))
                )
                if "refused" in old:
                    print(f"{task}, {model}: {old['refused']}", flush=True)
                    continue
                row: dict[str, Any] = {"task": task, "model": model, "steps": options.steps}
                for kind in KINDS:
                    row |= {f"before {kind}": old[kind], f"after {kind}": new[kind]}
                    row[f"apart {kind}"] = new[f"apart {kind}"]
                missed += not row["apart float64"] <= LIMIT
                rows.append(row)
                print("  ".join(f"{v:.8g}" if isinstance(v, float) else str(v) for v in row.values()), flush=True)
    print(tabulate(rows, headers="keys", floatfmt=".8g"))
    if options.out:
        with Path(options.out).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    print(f"{len(rows)} trainings in both versions, {missed} are further apart than {LIMIT:g}")
    return 1 if missed else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
