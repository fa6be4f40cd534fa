"""The closed forms side by side on every linear task with one channel in two and three dimensions.

    python benchmarks/hss_fit.py --out leaderboards/bench/hss_fit.csv

All models have their defaults; nothing is chosen here. Rows are those of a board, beside them the CPU seconds of the
whole trial on one thread (data are made before).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch

from pdebench_hss import load_task, run

TASKS = ("poisson_2d", "poisson_2d_grf", "poisson_2d_mixed", "poisson_2d_lshape", "helmholtz_2d", "poisson_3d")
MODELS = ("mean", "linear", "linear_symmetric", "hss_fit", "coarse_solver")
COLUMNS = ["task", "model", "scale", "n_train", "test_err", "params_real", "status", "reason"]


def measure(task: str, model: str, scale: str, out: str) -> pd.DataFrame:
    before = time.process_time()
    board = run(models=model, tasks=task, scale=scale, executor="inline", out=out)
    seconds = time.process_time() - before
    return board.results[COLUMNS].assign(cpu_seconds=round(seconds, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS), help="names with commas (default: all)")
    parser.add_argument("--scale", default="small", help="scale of the tasks (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="also write the rows to this CSV file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with TemporaryDirectory() as folder:
        for task in options.tasks.split(","):
            load_task(task, scale=options.scale)  # made or read from the cache, so that it is in nobody's time
            for model in MODELS:
                rows.append(measure(task, model, options.scale, f"{folder}/{task}-{model}"))
                print(rows[-1].to_string(index=False, header=len(rows) == 1), flush=True)
                if options.out:  # after every row: what is done is kept
                    pd.concat(rows).to_csv(options.out, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
