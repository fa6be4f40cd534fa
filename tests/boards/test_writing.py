"""A board is a function of its records: same records, same bytes, with an account of where they came from."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from factories.records import make_record, make_trial

import pdebench_hss as pb
from pdebench_hss.base.errors import StoreError
from pdebench_hss.boards.frames import leaderboard, results
from pdebench_hss.boards.writing import readme, write_board
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.report.page_data import page_data, read_board
from pdebench_hss.runs.config import make_config
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.validation import SCHEMA

REGISTRY = load_registry()


@pytest.fixture
def store(tmp_path) -> Store:
    """Two models, three seeds on a task of the paper and one that isn't; errors of four samples beside each record."""
    store = Store(tmp_path / "board")
    store.prepare()
    random = np.random.default_rng(0)
    for task in ("heat_1d", "toy"):
        for model in ("fno", "mean"):
            for seed in range(3):
                errors = random.lognormal(-2, 1, 4)
                what = {"task": task, "task_label": task, "training_free": model == "mean"}
                record = make_record(model, float(errors.mean()), seed, **what)
                store.add_to_plan([make_trial(model, seed, **what)], "pdebench-hss run --tasks heat_1d,toy")
                store.put(dataclasses.replace(record, samples={"error_test_err": errors}))
    return store


def contents(store: Store) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.path.iterdir() if path.is_file()}


def test_a_board_has_all_its_tables(store):
    _, paths = write_board(store, REGISTRY)
    assert {path.name for path in paths} == {
        *("results.csv", "leaderboard.csv", "leaderboard.md", "README.md", "statistics.md"),
        *("table_1d.csv", "table_1d.md", "table_1d.tex"),
    }
    assert all(path.exists() for path in paths)


def test_the_same_records_give_the_same_bytes_elsewhere_and_later(store, tmp_path):
    write_board(store, REGISTRY)
    first = contents(store)
    shutil.copytree(store.records_dir, tmp_path / "copy" / "records")
    shutil.copy(store.path / "plan.json", tmp_path / "copy")
    copy = Store(tmp_path / "copy")
    write_board(copy, REGISTRY)
    assert contents(copy) == first


def test_the_interval_uses_the_errors_of_test_samples(store):
    board, _ = write_board(store, REGISTRY)
    without = leaderboard(results(store.current()))
    assert (board["err_low"] < board["test_err_mean"]).all()
    assert (board["test_err_mean"] < board["err_high"]).all()
    assert not np.allclose(board["err_low"], without["err_low"])  # seeds alone say something else


def test_the_interval_goes_by_start_where_samples_share_one(tmp_path):
    """Two starts of six samples: twelve alike errors twice, and the scatter is that of two numbers."""
    intervals = {}
    for name, arrays in {"alone": {}, "shared": {"test_group": np.arange(12) // 6}}.items():
        store = Store(tmp_path / name)
        store.prepare()
        record = make_record("net", error=0.15)
        samples = {"error_test_err": np.repeat([0.1, 0.2], 6), **arrays}
        store.put(dataclasses.replace(record, samples=samples, data={**record.data, "n_test": 12}))
        board, _ = write_board(store, REGISTRY)
        (shown,) = page_data([read_board(store, name)])["summary"]["rows"]
        intervals[name] = (board["err_low"].item(), board["err_high"].item())
        assert (shown["err_low"], shown["err_high"]) == pytest.approx(intervals[name], rel=1e-5)
    assert intervals["shared"][0] < intervals["alone"][0] < 0.15 < intervals["alone"][1] < intervals["shared"][1]


def test_the_readme_says_where_the_numbers_come_from(store):
    write_board(store, REGISTRY)
    text = (store.path / "README.md").read_text()
    for fact in (
        "pdebench-hss run --tasks heat_1d,toy",
        "Trials: 12 (12 ok)",
        "2023-11-14 22:13 UTC",
        "CPU, 2 cores, 8 GB, Linux (`machine`)",
        "python 3.11.1, torch 2.13.0",
        "commit `cccccccccccc`",
        "| heat_1d | smoke   | 8       | 4      | 0           | `abc`    |",
    ):
        assert fact in text


def with_times(seed: int, started: float, ended: float, **provenance):
    record = make_record(error=0.1, seed=seed)
    record.provenance.update(started=started, ended=ended, **provenance)
    return record


def test_trials_side_by_side_count_once_and_pauses_not_at_all():
    records = [with_times(0, 0, 600), with_times(1, 300, 900), with_times(2, 80_000, 80_300)]
    assert "Duration: 20 min in which at least one trial ran" in readme(records, [])


def test_trials_made_in_different_ways_are_counted_by_way():
    records = [with_times(0, 0, 1), with_times(1, 0, 1, threads=2), with_times(2, 0, 1, threads=2)]
    assert "Threads per trial: 1 (1 trial); 2 (2 trials)" in readme(records, [])


def test_a_command_is_kept_once_and_commands_in_order(tmp_path):
    store = Store(tmp_path)
    for command in ("b", "a", "b", ""):
        store.add_to_plan([make_trial()], command)
    assert store.commands() == ["b", "a"]


def test_the_command_of_a_config_asks_for_the_same_again():
    config = make_config(
        {
            "models": ["fno[width=8]", "mean"],
            "tasks": "poisson_*",
            "seeds": 3,
            "budget": "seconds=60",
            "out": "/somewhere",
        }
    )
    assert config.command == (
        "pdebench-hss run --models 'fno[width=8],mean' --tasks 'poisson_*' --seeds 3 --budget seconds=60"
    )


def test_records_of_another_version_leave_the_tables_alone(store):
    write_board(store, REGISTRY)
    before = contents(store)
    for path in store.records_dir.glob("*.json"):
        path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', '"schema": 99'))
    with pytest.warns(UserWarning, match="a newer pdebench-hss"), pytest.raises(StoreError, match="left as they are"):
        write_board(store, REGISTRY)
    assert contents(store) == before


def test_the_cost_of_data_is_that_of_the_training_samples():
    record = make_record(error=0.1)
    record.data["seconds_per_sample"] = 0.25
    assert results([record]).loc[0, "data_seconds"] == 2.0  # 8 training samples
    assert results([make_record(error=0.1)])["data_seconds"].isna().all()


def test_what_generating_cost_is_kept_with_the_data_and_reaches_the_board(toys, tmp_path):
    options = {"models": "mean", "tasks": "toy_slow", "scale": "smoke", "executor": "inline", "plugins": [toys]}
    trials = pb.run(out=str(tmp_path / "board"), **options).results
    # its generator sleeps 0.3 s per block of samples; 12 train samples are made in blocks of 8 and 4, 4 test in one
    expected = 12 * (3 * 0.3) / 16
    assert trials.loc[0, "data_seconds"] == pytest.approx(expected, rel=0.2)
    assert pb.leaderboard(trials).loc[0, "data_seconds"] == trials.loc[0, "data_seconds"]
