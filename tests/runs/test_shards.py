"""A plan in shards, merged, is the plan; and so is a run that was killed and started again."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.merging import merge
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.runs.config import make_config
from pdebench_hss.runs.plan import make_plan
from pdebench_hss.runs.runner import Run
from pdebench_hss.runs.shards import parse_shard, plan_id
from pdebench_hss.trials.store import Store

SHARDS = 4
# What a run measures anew, in tables and in records. All else must be the same bytes, however the plan was run.
MEASURED = (
    *("fit_seconds", "predict_ms", "peak_memory_mb", "data_seconds", "trust_when"),
    *("latency_ms", "latency_ms_low", "latency_ms_high", "throughput", "throughput_low", "throughput_high"),
    "best_batch",
)
UNMEASURED = {"seconds": {}, "predict_ms": None, "serving": {}, "peak_memory": None, "provenance": {}}


def settings(toys, out, **more):
    """60 trials on three tasks: two models with nine seeds, and two that no seed changes."""
    models = "mean,persistence,toy_conv,toy_conv[width=2]"
    plan = {"models": models, "tasks": "toy,toy_shared,toy_rollout", "scale": "smoke", "seeds": 9}
    return {**plan, "plugins": [toys], "executor": "inline", "keep_models": False, "out": str(out), **more}


def run(toys, out, **more):
    return Run(make_config(settings(toys, out, **more))).execute()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tables(folder: Path) -> dict[str, bytes]:
    """Of the tables, not of the README, which lists the commands of all that were merged."""
    derived = (path for path in folder.iterdir() if path.suffix in (".csv", ".md", ".tex"))
    return {path.name: path.read_bytes() for path in derived if path.name != "README.md"}


def results(folder: Path) -> dict[str, str]:
    """The tables without what is measured anew."""
    found = {}
    for name in ("results.csv", "leaderboard.csv"):
        table = pd.read_csv(folder / name, dtype=str, keep_default_na=False)
        found[name] = table.drop(columns=[c for c in MEASURED if c in table]).to_csv(index=False)
    return found


def with_stopped_clocks(board: Path) -> dict[str, bytes]:
    """Every file that follows from the records of a board, Markdown too, if no trial had taken time or memory."""
    made = Store(board.with_name(f"{board.name}-stopped"))
    made.prepare()
    entries = list(Store(board).entries())
    made.add_to_plan([record.trial for record, _ in entries])
    for record, arrays in entries:
        data = {name: value for name, value in record.data.items() if name != "seconds_per_sample"}
        spent = {name: value for name, value in record.spent.items() if "seconds" not in name}
        made.put(dataclasses.replace(record, samples=arrays, data=data, spent=spent, **UNMEASURED))
    paths = write_board(made, load_registry())[1]
    return {path.name: path.read_bytes() for path in paths}


@given(st.text("0123456789abcdef", min_size=24, max_size=24), st.integers(1, 1000))
def test_a_trial_is_in_exactly_one_shard(key, of):
    assert sum(parse_shard(f"{number}/{of}").holds(key) for number in range(1, of + 1)) == 1


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/2/3", "1.5/4", "1/1000000"])
def test_what_is_no_shard_is_refused_in_one_line(text):
    with pytest.raises(UsageError, match="--shard"):
        make_config({"tasks": "toy", "shard": text})


def test_shards_are_known_in_advance_and_do_not_move_when_a_model_is_added(toys, tmp_path):
    def keys(**more):
        config = make_config(settings(toys, tmp_path / "nowhere", **more))
        return {cell.trial.key for cell in make_plan(config, load_registry([toys]), Store(config.out)).cells}

    shards = [keys(shard=f"{number}/{SHARDS}") for number in range(1, SHARDS + 1)]
    assert set.union(*shards) == keys()
    assert sum(map(len, shards)) == len(keys()) == 60
    assert keys(models="mean", shard="2/4") == shards[1] & keys(models="mean")
    assert plan_id(["b", "a"]) == plan_id(["a", "b"]) != plan_id(["a"])


@pytest.mark.cold
def test_one_run_four_shards_in_three_orders_and_a_killed_run_give_the_same_tables(toys, tmp_path):
    run(toys, tmp_path / "one")
    shards = [tmp_path / f"shard{number}" for number in range(1, SHARDS + 1)]
    for number, folder in enumerate(shards, start=1):
        outcome = run(toys, folder, shard=f"{number}/{SHARDS}")
        assert len(outcome.plan.cells) < 60  # and the rest of the plan is shown as not run yet
        statuses = set(pd.read_csv(folder / "results.csv")["status"])
        assert {"ok", "missing"} <= statuses <= {"ok", "missing", "skipped"}
    a, b, c, d = shards
    for name, order in {"m1": (a, b, c, d), "m2": (d, b, a, c), "m3": (c, d, b, a)}.items():
        done = merge(order, tmp_path / name, load_registry([toys]))
        assert (done.records, done.repeated, done.conflicts, done.missing) == (60, 0, [], {})
    assert tree(tmp_path / "m1") == tree(tmp_path / "m2") == tree(tmp_path / "m3")
    assert results(tmp_path / "m1") == results(tmp_path / "one")
    killed_and_resumed(toys, tmp_path / "killed")
    assert results(tmp_path / "killed") == results(tmp_path / "one")
    stopped = with_stopped_clocks(tmp_path / "one")
    assert {"results.csv", "leaderboard.csv", "leaderboard.md", "statistics.md", "README.md"} <= set(stopped)
    assert stopped == with_stopped_clocks(tmp_path / "m1") == with_stopped_clocks(tmp_path / "killed")
    # Where results are equal the earliest record counts, with its times: then the tables are the same to the last byte.
    for number, others in enumerate(([], [tmp_path / "m1"], [tmp_path / "killed"], [tmp_path / "killed", c, a])):
        done = merge([*others, tmp_path / "one"], tmp_path / f"with{number}", load_registry([toys]))
        assert (done.records, done.conflicts, done.missing) == (60, [], {})  # no shard is missed: the one run is whole
        assert tables(tmp_path / f"with{number}") == tables(tmp_path / "one")
    # A shard that ran twice, on another machine say, adds nothing: the earlier record of each trial stays.
    run(toys, tmp_path / "twice", shard="2/4")
    done = merge([a, b, c, d, tmp_path / "twice"], tmp_path / "m4", load_registry([toys]))
    assert done.repeated == len(Store(b).keys())
    again, once = tree(tmp_path / "m4"), tree(tmp_path / "m1")
    assert {name for name in again if again[name] != once[name]} == set()
    # Some of the shards make a board that says what is missing, and shards of another plan are refused.
    assert list(merge([a, c], tmp_path / "some", load_registry([toys])).missing.values()) == [[2, 4]]
    run(toys, tmp_path / "other", models="mean", shard="1/2")
    with pytest.raises(UsageError, match="shards of different plans"):
        merge([a, tmp_path / "other"], tmp_path / "none", load_registry([toys]))


def killed_and_resumed(toys, out: Path) -> None:
    chosen = settings(toys, out)
    flags = [f"--{name}={chosen[name]}" for name in ("models", "tasks", "scale", "seeds", "executor", "out")]
    command = [sys.executable, "-m", "pdebench_hss", "run", *flags, "--no-keep-models", "--plugin", toys]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while first.poll() is None and len(list(out.glob("records/*.json"))) < 15:
            time.sleep(0.01)
        assert first.poll() is None, "it ended before it was killed"
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    assert 15 <= len(list(out.glob("records/*.json"))) < 60
    run(toys, out)
