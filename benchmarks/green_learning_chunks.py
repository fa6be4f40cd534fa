"""How large a chunk of Green Learning should be on a CPU: seconds of an exact step by numbers in a hidden tensor.

    python benchmarks/green_learning_chunks.py [--repeats 5]

Forward and backward on `poisson_1d` at scale paper (65,536 pairs, width 128), one thread; sizes take turns, medians.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from pdebench_hss_models.green_learning import GREEN_LEARNING
from pdebench_hss_models.green_learning.model import CHUNK

from pdebench_hss.contract.registry import load_registry

SIZES = [2**k for k in range(16, 23)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    torch.set_num_threads(1)
    task = load_registry().task("poisson_1d").spec.info("paper")
    model = GREEN_LEARNING.make(task, GREEN_LEARNING.hparams_for(task))
    f, u = torch.randn(2, 256, 1, *task.grid)
    default, seconds = CHUNK["cpu"], {size: [] for size in SIZES}
    for size in [default, *SIZES * args.repeats]:
        CHUNK["cpu"] = size
        start = time.perf_counter()
        (model(f) - u).square().mean().backward()
        seconds[size].append(time.perf_counter() - start)
    seconds[default].pop(0)  # the first step of all warms up
    for size, times in seconds.items():
        mark = "  <- default" if size == default else ""
        print(f"2^{size.bit_length() - 1}  {statistics.median(times):6.2f} s{mark}")


if __name__ == "__main__":
    main()
