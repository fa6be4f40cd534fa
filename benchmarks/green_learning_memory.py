"""Peak memory and time of one training step of Green Learning in 2D at the paper's size.

    python benchmarks/green_learning_memory.py [--grid 64] [--batch 128] [--targets 4096]

Prints the high-water mark of the whole process (VmHWM) after a forward, backward and AdamW step, and before it.
A step with all targets at 64^2 is 1e13 floating-point operations: minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from pdebench_hss_models.green_learning import GREEN_LEARNING

from pdebench_hss import Recipe, Scale, TaskSpec


def peak_gib() -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=64)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--targets", type=int, default=0, help="targets per step; 0: all, as in the paper")
    args = parser.parse_args()

    size = Scale(grid=(args.grid, args.grid), train=1, test=1, recipe=Recipe(batch=args.batch, steps=1))
    task = TaskSpec(
        name="poisson_2d", title="", equation="", dim=2, in_channels=1, out_channels=1, linear=True,
        generate="nowhere:generate", scales={"paper": size},
    ).info("paper")  # fmt: skip
    hparams = GREEN_LEARNING.hparams_for(task)
    if args.targets:
        hparams["targets_per_step"] = args.targets
    torch.manual_seed(0)
    model = GREEN_LEARNING.make(task, hparams)
    optimizer = torch.optim.AdamW(model.parameters())
    f, u = torch.randn(2, args.batch, 1, args.grid, args.grid)
    print(f"{hparams}, batch {args.batch}, {torch.get_num_threads()} threads")
    print(f"before   {peak_gib():6.2f} GiB")
    start, start_cpu = time.perf_counter(), time.process_time()
    (model(f) - u).square().mean().backward()
    optimizer.step()
    seconds = f"{time.perf_counter() - start:.1f} s ({time.process_time() - start_cpu:.1f} s of CPU time)"
    print(f"one step {peak_gib():6.2f} GiB, {seconds}")


if __name__ == "__main__":
    main()
