"""The same plan on a real Ray cluster of two simulated nodes: whatever is lost on the way, the results are the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pdebench_hss as pb
from pdebench_hss.base.errors import PdebenchError
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.runner import Run
from pdebench_hss.trials.store import Store

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.cold, pytest.mark.timeout(240), pytest.mark.early]

NUMBERS = ["key", "task", "model", "seed", "test_err", "relative_l2", "rmse", "max_error", "steps", "status"]
# The loss of a node is noticed within two seconds instead of fifteen.
IMPATIENT = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


class TwoNodes:
    """A head without CPUs and two nodes with one each."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder, self.caches = folder, [folder / "cache-0", folder / "cache-1"]
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": IMPATIENT}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.add(number) for number in (0, 1)]

    def add(self, number: int):
        cache = {"PDEBENCH_HSS_CACHE": str(self.caches[number])}
        return self.cluster.add_node(num_cpus=1, include_dashboard=False, env_vars=cache)

    def kill(self, number: int) -> None:
        self.cluster.remove_node(self.nodes[number], allow_graceful=False)

    def revive(self, number: int) -> None:
        self.nodes[number] = self.add(number)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    two = TwoNodes(tmp_path_factory.mktemp("nodes"))
    yield two
    two.cluster.shutdown()


def settings(toys, out, **more) -> dict:
    shared = {"models": "toy_conv,toy_slow,mean", "tasks": "toy,toy_rollout", "scale": "smoke", "seeds": 2}
    return {**shared, "plugins": [toys], "out": str(out), **more}


def on(nodes, **more) -> dict:
    return {"executor": "ray", "ray_address": nodes.cluster.address, **more}


def command(options: dict) -> list[str]:
    words = [sys.executable, "-m", "pdebench_hss", "run"]
    for name, value in options.items():
        if name == "plugins":
            words += ["--plugin", *value]
        else:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def numbers(out) -> pd.DataFrame:
    return pd.read_csv(out / "results.csv")[NUMBERS]


def start(options: dict, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        command(options),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition, seconds: float = 60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def records(out) -> list[Path]:
    return sorted((out / "records").glob("*.json"))


@pytest.fixture
def calm(toys, tmp_path):
    """The board of an undisturbed run on this machine."""
    pb.run(**settings(toys, tmp_path / "calm", executor="process"))
    return numbers(tmp_path / "calm")


def test_a_node_killed_in_mid_run_costs_no_record_and_the_repeated_command_runs_what_a_killed_driver_left(
    nodes, toys, tmp_path, calm
):
    out = tmp_path / "board"
    options = settings(toys, out, **on(nodes))
    run = start(options)
    wait_for(lambda: len(records(out)) >= 2)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    kept = {path.name: path.stat().st_mtime_ns for path in records(out)}
    assert 2 <= len(kept) < len(calm)

    again = start(options)
    wait_for(lambda: len(records(out)) > len(kept))
    nodes.kill(1)
    said, err = again.communicate(timeout=180)
    nodes.revive(1)
    assert again.returncode == 0, err
    assert f"{len(calm) - len(kept)} to run, {len(kept)} cached" in said
    assert said.count("✓") == len(calm) - len(kept)  # each of the missing ones once
    assert kept.items() <= {path.name: path.stat().st_mtime_ns for path in records(out)}.items()
    pd.testing.assert_frame_equal(numbers(out), calm, check_exact=True)
    for cache in nodes.caches:  # the data came to both through the object store: neither sees the driver's cache
        assert len(list((cache / "data").glob("toy-smoke*.h5"))) == 1


def test_ctrl_c_cancels_what_runs_and_it_goes_on_from_its_checkpoint_in_the_storage(nodes, toys, tmp_path):
    out, storage = tmp_path / "board", tmp_path / "storage"
    models = "mean,toy_slow[seconds=0.2]"  # 60 steps of 0.2 s
    options = settings(toys, out, models=models, tasks="toy", seeds=1, budget="steps=60")
    options |= on(nodes, storage=storage.as_uri())
    run = start(options)
    wait_for(lambda: len(records(out)) == 1)
    time.sleep(5.0)
    run.send_signal(signal.SIGINT)
    said, err = run.communicate(timeout=40)
    assert run.returncode == 130, err
    assert "stopped. 1 of 2 trials done and kept; run the same command to continue." in err
    assert "Traceback" not in said + err
    assert len(list((storage / "checkpoints").glob("*.pt"))) == 1

    board = pb.run(**options).results.set_index("model")
    assert (board.status == "ok").all()
    found = json.loads(next(path for path in records(out) if "toy_slow" in path.read_text()).read_text())
    assert found["spent"]["steps"] == 60
    assert found["seconds"]["fit"] > 12.0 > found["seconds"]["total"]  # both sittings, and the second alone
    assert not list((storage / "checkpoints").glob("*.pt"))


def test_every_way_to_fail_is_a_row_on_a_cluster_too(nodes, toys, tmp_path):
    models = "toy_segfault,toy_killed,toy_hang,toy_raise,toy_conv"
    board = pb.run(**settings(toys, tmp_path / "board", models=models, tasks="toy", seeds=1, timeout=4.0, **on(nodes)))
    rows = board.results.set_index("model")
    assert rows.status.to_dict() == {
        "toy_segfault": "failed",
        "toy_killed": "out_of_memory",
        "toy_hang": "timeout",
        "toy_raise": "failed",
        "toy_conv": "ok",
    }
    assert "SIGSEGV" in rows.reason["toy_segfault"]
    assert "4 s" in rows.reason["toy_hang"]
    logs = [path.read_text() for path in (tmp_path / "board" / "logs").iterdir()]
    assert any("the toy network broke" in log for log in logs)  # what a trial printed on its node comes along


def test_a_plugin_that_is_on_the_driver_only_is_named_before_anything_starts(nodes, toys, tmp_path):
    site = tmp_path / "site"
    info = site / "ghost_solver-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "ghost_solver.py").write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ghost-solver\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[pdebench_hss]\nghost = ghost_solver\n")
    run = start(settings(toys, tmp_path / "board", **on(nodes)), PYTHONPATH=str(site))
    _, err = run.communicate(timeout=60)
    assert run.returncode == 2
    assert err.count("has no package ghost-solver (the driver has 1.2)") == 2
    assert "Install the same versions on every node" in err
    assert "Traceback" not in err
    assert not records(tmp_path / "board")


def curve(out) -> np.ndarray:
    (found,) = records(out)
    return Store(out).samples(found.stem, "curve_losses")["curve_losses"]


def test_one_training_over_two_nodes_computes_what_one_process_does(nodes, toys, tmp_path):
    options = {"models": "fno", "tasks": "toy", "seeds": 1, "budget": "steps=50"}
    pb.run(**settings(toys, tmp_path / "alone", **options, executor="inline"))
    pb.run(**settings(toys, tmp_path / "together", **options, **on(nodes, ddp=2)))
    assert len(curve(tmp_path / "alone")) == 50
    assert np.abs(curve(tmp_path / "alone") - curve(tmp_path / "together")).max() < 1e-5


@pytest.mark.slow
def test_a_training_that_loses_one_of_its_two_nodes_waits_for_another_and_goes_on(nodes, toys, tmp_path):
    out, storage = tmp_path / "board", tmp_path / "storage"
    options = settings(toys, out, models="toy_plain[seconds=0.2]", tasks="toy", seeds=1, budget="steps=60")
    run = start({**options, **on(nodes, ddp=2, storage=storage)})
    wait_for(lambda: list((storage / "checkpoints").glob("*.pt")))
    nodes.kill(1)
    time.sleep(5.0)
    nodes.revive(1)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    pb.run(**{**options, "models": "toy_plain", "out": str(tmp_path / "calm"), "executor": "inline"})
    assert np.abs(curve(out) - curve(tmp_path / "calm")).max() < 1e-5
    found = json.loads(records(out)[0].read_text())
    assert found["seconds"]["total"] < found["seconds"]["fit"]  # it did not start from zero


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"resources": "cpus=3"}, "a trial needs 3 CPUs, the largest node has 1 CPU"),
        ({"resources": "gpus=0.5"}, "a trial needs 1 CPU, 0.5 GPUs, the largest node has 1 CPU"),
        ({"ddp": 3}, "--ddp 3 needs 3 times 1 CPU at once, the cluster holds 2"),
    ],
)
def test_what_would_wait_for_ever_is_refused(nodes, toys, tmp_path, more, words):
    with pytest.raises(PdebenchError, match=words):
        Run(RunConfig(**settings(toys, tmp_path / "board", **on(nodes, **more)))).execute()


def test_an_address_where_nobody_answers_is_an_error_in_one_line(toys, tmp_path):
    options = settings(toys, tmp_path / "board", executor="ray", ray_address="127.0.0.1:1")
    with pytest.raises(PdebenchError, match=r"no Ray cluster at 127.0.0.1:1 .* ray start --head"):
        Run(RunConfig(**options)).execute()
