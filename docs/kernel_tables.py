"""Writes the tables of docs/kernels.md that stand between markers, from the CSV files of the benchmarks.

    python docs/kernel_tables.py            after new measurements
    python docs/kernel_tables.py --check    ends with 1 if the document is not what the files give

A table begins with ``<!-- made: NAME -->`` and ends with ``<!-- end: NAME -->``. A test does the check.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "kernels.md"
BENCH = ROOT / "leaderboards" / "bench"
MARKED = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)

# How many times its limit a step may take, at the best batch; by model, or by model and dimension.
GOALS = {"resnet": 2, "factformer": 2, "deeponet": 2, "neural_hss 2": 2, "neural_hss 3": 2, "fno": 4}
CHAIN_GOALS = {("heat_1d", "paper"), ("burgers_1d", "paper")}  # twice as fast as map by map
CONTENDERS = ("neuraloperator", "neuraloperator bare", "fft", "auto", "neural_hss")


def limits() -> str:
    """Every model at the recipe's batch and at its best, beside its limit."""
    table = pd.read_csv(BENCH / "limits" / "models.csv")
    head = ["task", "model", "batch", "GFLOP", "MB", "limit, ms", "step, ms", "times", "best batch", "times", "goal"]
    rows = []
    for (task, model), pair in table[table["status"] == "ok"].groupby(["task", "model"], sort=False):
        recipe, best = (pair[pair["at"] == at].iloc[0] for at in ("recipe", "best"))
        goal = GOALS.get(model) or GOALS.get(f"{model} {recipe['grid'].count('x') + 1}")
        smaller = "" if recipe["batch"] == recipe["batch_asked"] else f" of {recipe['batch_asked']}"
        times = f"{best['times_limit']:.2f} ({best['times_limit_low']:.2f} to {best['times_limit_high']:.2f})"
        cells = [task, model, f"{recipe['batch']}{smaller}", f"{recipe['flops_done'] / 1e9:.3g}"]
        cells += [f"{recipe['least_bytes'] / 1e6:.3g}", f"{recipe['limit_ms']:.3g}", f"{recipe['step_ms']:.3g}"]
        cells += [f"{recipe['times_limit']:.2f}", str(best["batch"]), times]
        cells.append("" if goal is None else str(goal) if best["times_limit"] <= goal else f"{goal} **missed**")
        rows.append(cells)
    slow = table[table["status"] != "ok"]
    missing = "".join(
        f"\n{row['task']}, {row['model']}: {row['reason']}; not measured.\n" for _, row in slow.iterrows()
    )
    return measured_how(table) + markdown(head, rows) + missing


def fno_batches() -> str:
    """Milliseconds per sample at equal batches and at each one's best."""
    table = pd.read_csv(BENCH / "fno_batches.csv")
    times = table[table["sample_ms"].notna()]
    rows = []
    for (task, at), group in times.groupby(["task", "at"], sort=False):
        cells = []
        for name in CONTENDERS:
            found = group[group["model"] == name]
            batch = f" ({found.iloc[0]['batch']:.0f})" if at == "best" and len(found) else ""
            cells.append(f"{found.iloc[0]['sample_ms']:.3g}{batch}" if len(found) else "")
        rows.append([task, at, *cells])
    return measured_how(times) + markdown(["task", "at", *CONTENDERS], rows)


def ratios() -> str:
    """How many times faster, each at its best and at equal batches."""
    table = pd.read_csv(BENCH / "fno_batches.csv")
    table = table[table["faster"].notna()]
    rows = []
    for (task, model, than), group in table.groupby(["task", "model", "than"], sort=False):
        best = group[group["at"] == "best"].iloc[0]
        goal = "" if pd.isna(best["goal"]) else f"{best['goal']:g}, {best['verdict'].lower()}"
        equal = [
            f"{row['faster']:.3g} ({row['at'].removeprefix('batch ')})"
            for _, row in group[group["at"] != "best"].iterrows()
        ]
        rows.append([task, model, than, f"{best['faster']:.3g}", goal, ", ".join(equal)])
    return markdown(["task", "model", "than", "each at its best", "goal", "at equal batch (batch)"], rows)


def chain() -> str:
    """Neural-HSS in 1D beside map by map and its floors."""
    table = pd.read_csv(BENCH / "neural_hss_1d.csv")
    head = ["task, scale, batch", "map by map, ms", "chain, ms", "faster"]
    head += ["goal", "at the peak", "products, ms", "dispatch, ms", "operators"]
    rows = []
    for _, row in table.iterrows():
        both = (f"{row[f'{way} ms']:.3g} ({row[f'{way} min']:.3g})" for way in ("map by map", "chain"))
        cells = [f"{row['task']}, {row['scale']}, {row['batch']}", *both, f"{row['faster']:.2f} x"]
        wanted = (row["task"], row["scale"]) in CHAIN_GOALS
        cells.append("" if not wanted else "2 x" if row["faster"] >= 2 else "2 x **missed**")
        cells += [f"{row['faster at the peak']:.2f} x", f"{row['products ms']:.3g}", f"{row['dispatch ms']:.3g}"]
        rows.append([*cells, f"{row['map by map operators']} -> {row['chain operators']}"])
    return markdown(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "limits": limits,
    "fno_batches": fno_batches,
    "ratios": ratios,
    "chain": chain,
}


def measured_how(table: pd.DataFrame) -> str:
    """On how many threads, and by which clock."""
    first = table.iloc[0]
    clock = "time on the clock" if first["clock"] == "wall" else "CPU time, the machine being busy"
    return f"{first['threads']:.0f} thread{'s' if first['threads'] > 1 else ''}, {clock}:\n\n"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def renewed(text: str) -> str:
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", text)


def main() -> int:
    text = DOCUMENT.read_text(encoding="utf-8")
    new = renewed(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            print("docs/kernels.md is not what leaderboards/bench gives; run: python docs/kernel_tables.py")
        return int(new != text)
    DOCUMENT.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
