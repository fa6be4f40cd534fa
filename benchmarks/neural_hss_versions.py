"""Neural-HSS before and after version 4 on every task: another start, and nothing else that is different.

    python benchmarks/neural_hss_versions.py --board out/versions --out versions.csv

``before`` are the options of version 3 (normal everywhere, slopes at 0.9), ``after`` the defaults. Both have the same
samples, batches, steps and rates, seed by seed. A fifth of the training samples is held out: each trained model is
scored on those and on the test samples. Rates: ``--lr task`` leaves each task its own, a number is for all tasks.

The board is an ordinary one: interrupt and repeat the command, or look at it with `pdebench-hss leaderboard`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

import pdebench_hss as pb

BEFORE = {"init": "normal", "slope": "0.9"}


def label(options: dict[str, str]) -> str:
    inside = ",".join(f"{name}={value}" for name, value in options.items())
    return f"neural_hss[{inside}]" if inside else "neural_hss"


def trials(args: argparse.Namespace) -> pd.DataFrame:
    """One row per trial, with a column ``start``."""
    rates = {} if args.lr == "task" else {"lr": args.lr}
    options = {"scale": args.scale, "seeds": args.seeds, "val": args.val, "jobs": 1, "keep_models": False}
    if args.budget:
        options["budget"] = args.budget
    models = [label({**BEFORE, **rates}), label(rates)]
    rows = pb.run(models, args.tasks, out=str(args.board), **options).results
    return rows.assign(start=["before" if "init=normal" in model else "after" for model in rows["model"]])


def table(rows: pd.DataFrame, lr: str) -> pd.DataFrame:
    """One row per task: means and standard deviations over seeds, and after / before."""
    found = []
    for _, of_task in rows.groupby("task"):
        first = of_task.iloc[0]
        row = {name: first[name] for name in ("task", "scale", "budget", "metric", "params_real")}
        row |= {"lr": lr, "seeds": of_task["seed"].nunique()}
        for name, column in (("held_out", "val_err"), ("test", "test_err")):
            for start in ("before", "after"):
                errors = of_task.loc[of_task["start"] == start, column].astype(float)
                row[f"{name}_{start}"] = errors.mean(skipna=False)
                row[f"{name}_{start}_std"] = errors.std(skipna=False)
            row[f"{name}_after_over_before"] = row[f"{name}_after"] / row[f"{name}_before"]
        found.append(row)
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*")
    parser.add_argument("--scale", default="small")
    parser.add_argument("--budget", default="", help="default: the steps of each task's recipe")
    parser.add_argument("--lr", default="task")
    parser.add_argument("--seeds", default="3")
    parser.add_argument("--val", default="20%")
    parser.add_argument("--board", default="out/neural_hss_versions", type=Path)
    parser.add_argument("--out", type=Path, help="CSV file; printed if there is none")
    args = parser.parse_args()
    found = table(trials(args), args.lr)
    if args.out is None:
        print(found.to_csv(index=False), end="")
    else:
        found.to_csv(args.out, index=False)


if __name__ == "__main__":
    main()
