"""Tasks that read files and generate nothing: run, checked, refused without their files, cleaned by their plugin."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pdebench_hss import Recipe, Scale, TaskSpec
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import cache

PLUGIN = '''
from pathlib import Path
import numpy as np
from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl


def read(directory, size):
    """All that is in one file, in memory."""
    data = np.load(Path(directory) / "fields.npy")
    parts = {{"train": data[: size.train], "test": data[-size.test :]}}
    return {{split: (part, 2 * part) for split, part in parts.items()}}


def blocks(directory, size):
    """The same in blocks of three samples."""
    def cut(pair):
        for start in range(0, len(pair[0]), 3):
            yield pair[0][start : start + 3], pair[1][start : start + 3]
    return {{split: cut(pair) for split, pair in read(directory, size).items()}}


def spec(name, reader, **more):
    scale = Scale((12,), train=14, test=4, recipe=Recipe(batch=4, steps=4))
    return TaskSpec(
        name=name, title=name, equation="y = 2 x", dim=1, in_channels=1, out_channels=1, linear=True,
        read=reader, reads=("fields.npy",), scales={{"smoke": scale, "small": scale}}, **more,
    )


@hookimpl
def pdebench_hss_tasks():
    return [spec("far", read), spec("near", read, files="{folder}"), spec("streamed", blocks, files="{folder}")]
'''


@pytest.fixture
def plugin(tmp_path):
    """A plugin file with three readers, and a directory with what they read."""
    folder = tmp_path / "files"
    folder.mkdir()
    np.save(folder / "fields.npy", np.random.default_rng(0).standard_normal((20, 1, 12)))
    file = tmp_path / "readers.py"
    file.write_text(PLUGIN.format(folder=folder))
    return str(file)


RUN = ("run", "--models", "linear,mean", "--scale", "smoke")


def test_a_task_without_a_generator_runs_from_its_own_files_or_named_ones(cli, plugin, tmp_path):
    done = cli(*RUN, "--plugin", plugin, "--tasks", "near,streamed")
    assert done.code == 0, done.err
    board = pd.read_csv(tmp_path / "leaderboards" / "latest" / "leaderboard.csv")
    errors = board.pivot(index="model", columns="task", values="test_err_mean")
    assert (errors.loc["linear"] < 1e-6).all()
    assert errors["near"].equals(errors["streamed"]), "blocks are the same samples"
    assert cli(*RUN, "--plugin", plugin, "--tasks", "far", "--data-dir", "files").code == 0


def test_without_files_it_says_what_it_needs(cli, plugin):
    for command in (RUN, ("data", "generate", "--scale", "smoke")):
        done = cli(*command, "--plugin", plugin, "--tasks", "far")
        assert (done.code, done.err) == (
            2,
            "error: task 'far' reads files and can't generate them; name their directory: --data-dir DIR\n",
        )
    assert cli("check", "far", "--plugin", plugin).code == 2


def test_a_file_that_is_not_there_is_named_with_what_is(cli, plugin, tmp_path):
    (tmp_path / "files" / "fields.npy").rename(tmp_path / "files" / "field.npy")
    done = cli(*RUN, "--plugin", plugin, "--tasks", "near")
    assert done.code == 2
    assert "no file 'fields.npy' in it; found field.npy" in done.err


def test_only_what_a_task_reads_is_its_identity(plugin, tmp_path):
    spec = load_registry([plugin]).task("near").spec
    before = cache.find_source(spec)
    (tmp_path / "files" / "README").write_text("beside the data")
    assert cache.find_source(spec) == before
    np.save(tmp_path / "files" / "fields.npy", np.zeros((20, 1, 12)))
    assert cache.find_source(spec) != before


def test_all_leaves_out_tasks_whose_files_nobody_named(plugin):
    chosen = {choice.name for choice in load_registry([plugin]).choose_tasks("all")}
    assert {"near", "streamed"} <= chosen
    assert "far" not in chosen


def test_check_tries_the_reader(cli, plugin, tmp_path):
    done = cli("check", "near,far", "--plugin", plugin, "--data-dir", "files")
    assert done.code == 0, done.out
    assert "✓ near: 5 of 5 promises kept" in done.out
    data = np.load(tmp_path / "files" / "fields.npy")
    data[-1] = data[0]
    np.save(tmp_path / "files" / "fields.npy", data)
    done = cli("check", "near", "--plugin", plugin)
    assert done.code == 1
    assert "✗ near: no_two_samples_are_the_same: two samples have the same inputs: is a file read twice?" in done.out
    np.save(tmp_path / "files" / "fields.npy", data[:5])
    done = cli("check", "near", "--plugin", plugin)
    assert "files_are_read_the_same_twice: train: 5 inputs and 5 outputs, expected 14" in done.out


def test_models_are_checked_on_it(cli, plugin):
    done = cli("check", "linear", "--tasks", "near", "--plugin", plugin)
    assert done.code == 0, done.out


def test_clean_knows_plugins(cli, plugin):
    assert cli("data", "generate", "--scale", "smoke", "--plugin", plugin, "--tasks", "near").code == 0
    assert cli("data", "clean", "--tasks", "near", "--yes").code == 2
    assert "removed 1 datasets" in cli("data", "clean", "--tasks", "near", "--plugin", plugin, "--yes").out


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "needs generate or read"),
        ({"generate": "a:b", "files": "x"}, "belongs to a task with read and without generate"),
        ({"generate": "a:b", "read": "a:b", "files": "x"}, "belongs to a task with read and without generate"),
    ],
)
def test_a_spec_without_data_is_refused(parts, message):
    scale = Scale((12,), train=14, test=4, recipe=Recipe(batch=4, steps=4))
    shape = {"dim": 1, "in_channels": 1, "out_channels": 1, "linear": True, "scales": {"smoke": scale}}
    with pytest.raises(ValueError, match=message):
        TaskSpec(name="subject", title="", equation="", **shape, **parts)
