"""What streaming a training set costs over holding it in memory, and how much memory it takes.

Data: fields of navier_stokes_forward at 128 x 128, with random values, in a file of the data cache; model: FNO as it is
there. The same steps are trained from memory and from the file, of whose pairs at most a tenth may be resident. The two
take turns, each in a fork of its own, as a trial is; the overhead is the median of the ratios of neighbours, in wall
and in CPU time of all threads. The last losses are compared: they are equal to the bit.

Memory: every pair is gone through, without a model. What the process gains at its highest is compared with the limit; a
batch was made before, so that it does not pay for loading code.

    python benchmarks/streaming.py [--samples 768] [--steps 6] [--batch 16] [--repeats 7] [--model fno]

Ends with an error if streaming takes more than 5 % longer, or more memory than it was set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabulate import tabulate

from pdebench_hss.base import machine
from pdebench_hss.base.files import human_bytes
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import blind, cache, hdf5
from pdebench_hss.training.loop import fit
from pdebench_hss.training.streaming import Pairs, StreamedSet, bytes_in_memory
from pdebench_hss.training.windows import prepare

LIMIT = 0.05
TASK, SCALE = "navier_stokes_forward", "paper"
CPU = torch.device("cpu")


def make_file(folder: Path, samples: int) -> tuple[cache.Dataset, Path]:
    """A dataset of the task with random content; the last few samples are its test split."""
    task = load_registry().task(TASK)
    size = replace(task.spec.scales[SCALE], train=samples, test=2)
    dataset = cache.Dataset(replace(task, spec=replace(task.spec, scales={SCALE: size})), SCALE)
    rng = np.random.default_rng(0)
    path = folder / "navier_stokes.h5"

    def parts(split: str) -> Any:
        for start in range(0, dataset.recipe["sizes"][split], 64):
            count = min(64, dataset.recipe["sizes"][split] - start)
            yield tuple(rng.standard_normal((count, 1, *size.grid), np.float32) for _ in range(2))

    hdf5.write(path, dataset.recipe, task.spec.dtype, parts)
    return dataset, path


def make_model(name: str) -> Any:
    registry = load_registry()
    task, spec = registry.task(TASK).spec.info(SCALE), registry.model(name).spec
    torch.manual_seed(0)
    return spec.make(task, spec.hparams_for(task))


def training_set(dataset: cache.Dataset, path: Path, batch: int, limit: int | None) -> Pairs:
    """In memory, or streamed within a limit."""
    samples = blind.load(dataset, path=path, apart=False, stored=limit is not None)
    if limit is None:
        return prepare(samples, torch.float32)
    return StreamedSet(samples.train, torch.float32, 1, batch, limit)


def train(train: Pairs, model: str, steps: int, batch: int) -> list[float]:
    """Wall and CPU seconds, and the last loss."""
    module = make_model(model)
    budget, numbers = Budget("steps", steps), Optimizer(batch, 1e-3, 1e-5, 0.0)
    wall, cpu = time.perf_counter(), time.process_time()
    state = fit(module, train, budget, numbers, seed=0, device=CPU, flops_step=1.0)
    return [time.perf_counter() - wall, time.process_time() - cpu, state.curve.losses[-1]]


def gone_through(make: Callable[[], Pairs], batch: int) -> list[float]:
    """Bytes that the process gains at its highest while it goes through all pairs."""
    pairs = make()
    pairs.pairs(torch.arange(batch))
    del pairs
    machine.give_back_memory()
    before = machine.reset_peak_memory()
    pairs = make()
    for index in torch.randperm(len(pairs)).split(batch):
        pairs.pairs(index)
    return [float(machine.peak_memory() - before)]


def in_fork(work: Callable[[], list[float]]) -> list[float]:
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, json.dumps(work()).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return json.loads(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("samples", 768), ("steps", 6), ("batch", 16), ("repeats", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model", default="fno")
    options = parser.parse_args()
    torch.set_num_threads(1)
    make_model(options.model)  # imported before the forks
    with tempfile.TemporaryDirectory() as folder:
        dataset, path = make_file(Path(folder), options.samples)
        stored = options.samples * dataset.sample_bytes
        limit = 24 * 10**6 + stored // 10

        def set_of(limit: int | None) -> Pairs:
            return training_set(dataset, path, options.batch, limit)

        def work(limit: int | None) -> list[float]:
            return train(set_of(limit), options.model, options.steps, options.batch)

        ways = {"in memory": None, "streamed": limit}
        taken: dict[str, list[list[float]]] = {way: [] for way in ways}
        for turn in range(options.repeats):
            for way in list(ways)[:: 1 if turn % 2 else -1]:
                taken[way].append(in_fork(lambda: work(ways[way])))  # noqa: B023 (called at once)
        gains = {
            way: in_fork(lambda: gone_through(lambda: set_of(ways[way]), options.batch))[0]  # noqa: B023
            for way in ways
        }
        resident = set_of(limit).nbytes
        estimate = bytes_in_memory(dataset, options.samples)
    same = {losses[2] for found in taken.values() for losses in found}
    more = [
        statistics.median(b[clock] / a[clock] - 1 for a, b in zip(*taken.values(), strict=True)) for clock in (0, 1)
    ]
    rows = [
        [clock, *(f"{statistics.median(f[i] for f in taken[way]):.2f}" for way in ways), f"{100 * more[i]:+.1f} %"]
        for i, clock in enumerate(("wall [s]", "CPU [s]"))
    ]
    rows.append(["memory gained", *map(human_bytes, gains.values()), f"limit {human_bytes(limit)}"])
    print(
        f"{options.model}, {options.steps} steps of {options.batch} at 128 x 128; {options.samples} samples, "
        f"{human_bytes(stored)} stored; {human_bytes(resident)} of pairs resident; load {os.getloadavg()[0]:.1f}"
    )
    print(tabulate(rows, ["", *ways, "streamed, more"], disable_numparse=True))
    print(
        f"the rule expects {human_bytes(estimate)} in memory; losses of all runs: {'equal' if len(same) == 1 else same}"
    )
    if len(same) > 1:
        sys.exit("missed: the losses differ")
    if max(more) > LIMIT:
        sys.exit(f"missed: streaming takes {100 * max(more):.1f} % longer; the goal is {100 * LIMIT:.0f} %")
    if gains["streamed"] > limit:
        sys.exit(f"missed: streaming takes {human_bytes(gains['streamed'])}, and {human_bytes(limit)} were set")


if __name__ == "__main__":
    main()
