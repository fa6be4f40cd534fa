"""A run: what is made when it is needed, what is written when it is interrupted, and what is shown at the end."""

from __future__ import annotations

import pandas as pd
import pytest
from factories.records import make_trial

from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.executors import LazyWork
from pdebench_hss.runs.plan import Action, Cell, make_plan
from pdebench_hss.runs.reporter import Reporter
from pdebench_hss.runs.runner import Run, RunInterrupted
from pdebench_hss.trials.store import Store


@pytest.fixture
def config(toys, tmp_path):
    def make(**options) -> RunConfig:
        settings = {"models": "toy_conv", "tasks": "toy", "scale": "smoke", "device": "cpu", "executor": "inline"}
        return RunConfig(**{**settings, "plugins": [toys], "out": str(tmp_path / "board"), **options})

    return make


# --- work that is made when it is needed -----------------------------------------------------------------------------


def test_an_index_error_of_a_plugin_is_not_the_end_of_the_work():
    def make(cell: Cell):
        if cell.trial.seed == 1:
            raise IndexError("of a plugin")
        return cell.trial.seed

    work = LazyWork([Cell(make_trial(seed=seed), None, Action.RUN) for seed in range(3)], make)
    made = []
    with pytest.raises(IndexError, match="of a plugin"):
        made.extend(work)
    assert made == [0]


def test_work_is_as_long_as_its_cells_and_made_only_where_it_is_asked_for():
    asked = []
    cells = [Cell(make_trial(seed=seed), None, Action.RUN) for seed in range(5)]
    work = LazyWork(cells, lambda cell: asked.append(cell.trial.seed) or cell.trial.seed)
    assert len(work) == 5
    assert asked == []
    assert (work[3], list(work[1:3]), next(iter(work)), work[-1]) == (3, [1, 2], 0, 4)
    assert asked == [3, 1, 2, 0, 4]
    with pytest.raises(IndexError):
        work[5]


def test_what_a_trial_needs_is_asked_for_each_form_of_a_task(config, monkeypatch):
    """Two forms of a task share their data; a model may need more for more frames."""
    settings = config(models="toy_conv", tasks="toy_rollout,toy_rollout[history=3]")
    run = Run(settings)
    spec = run.registry.model("toy_conv").spec
    monkeypatch.setattr(type(spec), "resources_for", lambda self, task: {"cpus": 100 * task.in_channels})
    one, three = run.plan().cells
    assert one.dataset.id == three.dataset.id
    assert [run._needs(cell).cpus for cell in (one, three, one)] == [100, 300, 100]


# --- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [False, True], ids=["before it is written", "after"])
def test_an_interrupt_while_a_record_is_written_does_not_lose_it(config, monkeypatch, written):
    put, calls = Store.put, []

    def interrupted(store, record):
        calls.append(record.trial.seed)
        if len(calls) == 2:
            if written:
                put(store, record)
            raise KeyboardInterrupt
        return put(store, record)

    monkeypatch.setattr(Store, "put", interrupted)
    with pytest.raises(RunInterrupted, match="2 of 3 trials done and kept"):
        Run(config(seeds="3")).execute()
    monkeypatch.undo()
    assert calls == [0, 1, 1]
    store = Store(config().out)
    assert {record.trial.seed: record.status for record in store.all()} == {0: "ok", 1: "ok"}
    assert sorted(store.samples(record.key)["error_test_err"].size for record in store.all()) == [4, 4]
    started: list[int] = []

    class Listener(Reporter):
        def trial_started(self, trial):
            started.append(trial.seed)

    outcome = Run(config(seeds="3"), reporter=Listener()).execute()
    assert started == [2]  # nothing is done twice
    assert [record.status for record in outcome.records] == ["ok"] * 3


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_a_forced_run_shows_what_it_made_and_not_what_it_remembers(config):
    def ended(outcome) -> list[float]:
        return [record.provenance["ended"] for record in outcome.records]

    first = Run(config(seeds="2")).execute()
    cached = Run(config(seeds="2")).execute()
    assert ended(cached) == ended(first)
    run = Run(config(seeds="2", force=True))
    forced = run.execute()
    assert min(ended(forced)) > max(ended(first))
    on_disk = {record.key: record for record in Store(config().out).all()}
    assert [record.provenance["ended"] for record in run.store.current()] == ended(forced)
    assert [on_disk[record.key].provenance["ended"] for record in forced.records] == ended(forced)
    shown = pd.read_csv(f"{config().out}/results.csv").set_index("seed")["test_err"]
    assert list(shown) == [on_disk[record.key].metrics["test_err"] for record in forced.records]


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_core_seconds_on_a_gpu_are_refused_before_anything_runs(config, tmp_path, device):
    """Elsewhere a device is taken at its word, so that this machine needs none."""
    asked = config(budget="core_seconds=60", device=device, executor="ray", ray_address="127.0.0.1:1")
    with pytest.raises(UsageError, match=f"says nothing of a device '{device}'; use seconds=60, or --device cpu"):
        make_plan(asked, load_registry(asked.plugins), Store(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
