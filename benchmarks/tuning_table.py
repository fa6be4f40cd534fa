"""What tuning chose and what it changed, as one CSV file: the table of docs/tuning.md.

    pdebench-hss tune --models M --tasks T --budget B --tries 12 --out tuned.yaml
    pdebench-hss run  --models M --tasks T --budget B --seeds 3 --out before
    pdebench-hss run  --models M --tasks T --budget B --seeds 3 --out after --tuned tuned.yaml
    python benchmarks/tuning_table.py tuned.yaml before after > chosen.csv

Held-out errors are those of the first try, the defaults, and of the best one: one seed, trained without the held-out
samples. Test errors are means over seeds, trained on all training samples.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import yaml

from pdebench_hss import leaderboard

COLUMNS = {"test_err_mean": "test", "test_err_std": "test_std", "params_real": "params"}


def table(tuned: Path, before: Path, after: Path) -> pd.DataFrame:
    """One row per model and task that was tuned, best test error after tuning first."""
    rows = []
    for one in yaml.safe_load(tuned.read_text(encoding="utf-8"))["chosen"]:
        options = " ".join(_spelled(name, value) for name, value in one["options"].items())
        rows.append(
            {
                **{name: one[name] for name in ("task", "model", "tries")},
                "seconds": one["seconds"],
                "options": options or "its defaults",
                "held_out_before": one["held_out_before"],
                "held_out_after": one["held_out"],
            }
        )
    found = pd.DataFrame(rows)
    for when, board in (("before", before), ("after", after)):
        scores = leaderboard(board)[["task", "model", *COLUMNS, "n_seeds"]]
        names = {name: f"{short}_{when}" for name, short in {**COLUMNS, "n_seeds": "seeds"}.items()}
        found = found.merge(scores.rename(columns=names), on=["task", "model"], validate="one_to_one")
    return found.sort_values(["task", "test_after"], ascending=[False, True])


def _spelled(name: str, value: object) -> str:
    return f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tuned", "before", "after"):
        parser.add_argument(name, type=Path)
    print(table(**vars(parser.parse_args())).to_csv(index=False), end="")
