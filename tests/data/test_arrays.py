"""Users' arrays as tasks: every format and order of axes gives the same samples, the split keeps its promises, and what
would falsify a benchmark is refused in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pdebench_hss.base.errors import UsageError
from pdebench_hss.base.places import arrays_dir
from pdebench_hss.contract.array_scales import Extent, scales_of
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.task_file import TaskFile, files_of, spec_of
from pdebench_hss.data import adding, arrays, cache
from pdebench_hss.data.inspection import inspect
from pdebench_hss.testing import task_cases

RNG = np.random.default_rng(7)
X = RNG.standard_normal((20, 2, 12, 9)).astype(np.float32)  # an odd rectangle
Y = RNG.standard_normal((20, 3, 12, 9)).astype(np.float32)


def write(folder: Path, kind: str, x: np.ndarray = X, y: np.ndarray = Y) -> dict[str, str]:
    """The pair in one format; returns its places."""
    if kind == "npy":
        np.save(folder / "x.npy", x)
        np.save(folder / "y.npy", y)
        return {"inputs": "x.npy", "outputs": "y.npy"}
    named = {
        "inputs": f"data.{kind}:a",
        "outputs": f"data.{kind}:deep/u" if kind in ("h5", "zarr") else f"data.{kind}:u",
    }
    if kind == "npz":
        np.savez_compressed(folder / "data.npz", a=x, u=y)
    elif kind == "h5":
        with h5py.File(folder / "data.h5", "w") as file:
            file["a"], file["deep/u"] = x, y
    elif kind == "zarr":
        import zarr

        group = zarr.open_group(str(folder / "data.zarr"), mode="w")
        group["a"], group["deep/u"] = x, y
    else:
        torch.save({"a": torch.from_numpy(x), "u": torch.from_numpy(y)}, folder / "data.pt")
    return named


def task(folder: Path, **settings) -> TaskFile:
    return TaskFile(**{"name": "mine", "folder": str(folder), **settings})


def everything(described: TaskFile) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All samples at scale paper, as the reader gives them."""
    spec = spec_of(described)
    blocks = {split: list(parts) for split, parts in arrays.read(spec.files, spec.scales["paper"]).items()}
    return {split: tuple(map(np.concatenate, zip(*parts, strict=True))) for split, parts in blocks.items()}


# --- formats and axes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "zarr", "pt"])
def test_every_format_gives_the_same_samples(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 4000)  # a few samples at a time
    found = everything(task(tmp_path, **write(tmp_path, kind)))
    assert np.array_equal(found["train"][0], X[:16])
    assert np.array_equal(found["train"][1], Y[:16])
    assert np.array_equal(found["test"][1], Y[16:])


@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "zarr", "pt"])
def test_a_subset_is_spread_over_its_split(tmp_path, kind):
    """Samples that are not neighbours are read by number, whatever the file."""
    spec = spec_of(task(tmp_path, **write(tmp_path, kind)))
    (inputs, outputs), *_ = arrays.read(spec.files, spec.scales["smoke"])["train"]
    assert np.array_equal(inputs, X[:16:2])
    assert np.array_equal(outputs, Y[:16:2])


def test_channels_may_be_last_or_missing(tmp_path):
    first = everything(task(tmp_path, **write(tmp_path, "npy")))
    places = write(tmp_path, "npy", np.moveaxis(X, 1, -1), np.moveaxis(Y, 1, -1))
    last = everything(task(tmp_path, **places, channels="last"))
    assert all(np.array_equal(a, b) for a, b in zip(first["train"], last["train"], strict=True))
    scalar = everything(task(tmp_path, **write(tmp_path, "npy", X, Y[:, 0])))  # the outputs' shape is the inputs' grid
    assert np.array_equal(scalar["test"][1], Y[16:, :1])
    line = everything(task(tmp_path, **write(tmp_path, "npy", X[:, 0, 0], Y[:, 0, 0])))
    assert np.array_equal(line["train"][0], X[:16, :1, 0])
    fields = task(tmp_path, **write(tmp_path, "npy", X[:, 0], Y[:, 0]), channels="none")
    assert np.array_equal(everything(fields)["train"][0], X[:16, :1])


def test_a_rollout_is_one_array_with_time(tmp_path):
    u = RNG.standard_normal((10, 6, 2, 8, 5))
    np.save(tmp_path / "u.npy", np.moveaxis(u, 2, -1))
    described = task(tmp_path, inputs="u.npy", rollout=True, channels="last", history=2)
    spec = spec_of(described)
    assert (spec.rollout, spec.history, spec.dtype, spec.scales["paper"].steps) == (True, 2, "float64", 5)
    found = everything(described)
    assert np.array_equal(found["train"][0], u[:8, 0])
    assert np.array_equal(found["test"][1], u[8:, 1:])


def test_check_tries_the_reader_with_the_frames_that_a_model_sees(tmp_path):
    np.save(tmp_path / "u.npy", RNG.standard_normal((12, 6, 1, 9)))
    adding.add(task(tmp_path, inputs="u.npy", rollout=True, history=2))
    promises = task_cases("mine")
    assert len(promises) == 5
    for promise in promises:
        promise.run()


@pytest.mark.parametrize("dtype", ["float16", "int16", "bool", "int64", "float64", ">f4"])
def test_real_numbers_of_any_kind_are_stored_without_loss(tmp_path, dtype):
    x = (RNG.random((8, 1, 5, 4)) * 100).astype(dtype)
    spec = spec_of(task(tmp_path, **write(tmp_path, "npy", x, x)))
    assert np.array_equal(x.astype(spec.dtype), x)
    assert spec.dtype == ("float64" if dtype in ("int64", "float64") else "float32")


# --- split -----------------------------------------------------------------------------------------------------------


@given(count=st.integers(2, 200), share=st.integers(1, 99), groups=st.integers(0, 12), seed=st.integers(0, 9))
def test_a_split_shares_no_sample_and_no_label(count, share, groups, seed):
    by = np.random.default_rng(seed).integers(0, groups, count) if groups else None
    if by is not None and len(np.unique(by)) < 2:
        return
    train, test = arrays.split_of(count, f"{share}/{100 - share}", by)
    assert min(len(train), len(test)) >= 1
    assert sorted([*train, *test]) == list(range(count))
    assert all(list(side) == sorted(side) for side in (train, test))
    if by is None:
        assert abs(len(train) - count * share / 100) <= 1
        assert train[-1] < test[0]
    else:
        assert not set(by[train]) & set(by[test])


def test_counts_leave_the_middle_out_and_words_are_taken_as_they_are():
    train, test = arrays.split_of(20, "10/4")
    assert (list(train), list(test)) == (list(range(10)), list(range(16, 20)))
    train, test = arrays.split_of(4, "80/20", np.array(["test", "train", "train", "test"]))
    assert (list(train), list(test)) == ([1, 2], [0, 3])


@pytest.mark.parametrize("place", ["run", "labels.csv:run", "labels.npy"])
def test_labels_come_from_beside_the_inputs_a_column_or_a_file(tmp_path, place):
    by = np.repeat([3, 1, 2, 5], 5)
    np.savez(tmp_path / "data.npz", a=X, u=Y, run=by)
    np.save(tmp_path / "labels.npy", by)
    (tmp_path / "labels.csv").write_text("number,run\n" + "".join(f"{i},r{run}\n" for i, run in enumerate(by)))
    found = everything(task(tmp_path, inputs="data.npz:a", outputs="data.npz:u", split="70/30", split_by=place))
    assert np.array_equal(found["train"][0], X[:15])


# --- scales ----------------------------------------------------------------------------------------------------------


def test_scales_follow_from_the_data():
    scales = scales_of(Extent(5000, 1000, (256, 256), 4), periodic=True, options={})
    assert (scales["small"].grid, scales["small"].train, scales["small"].test) == ((64, 64), 512, 128)
    assert scales["smoke"].train == 8
    assert (scales["paper"].grid, scales["paper"].train, scales["paper"].test) == ((256, 256), 5000, 1000)
    closed = scales_of(Extent(5000, 1000, (257, 129), 4), periodic=False, options={})["small"]
    assert (closed.grid, closed.options["strides"]) == ((65, 33), [4, 4])
    odd = scales_of(Extent(30, 5, (48, 30), 4), periodic=False, options={})["small"]
    assert (odd.grid, odd.train, odd.test) == ((48, 30), 30, 5), "no stride keeps both ends, so the grid stays whole"


@given(st.lists(st.integers(2, 300), min_size=1, max_size=3), st.booleans())
def test_strides_keep_points_equispaced_on_the_whole_domain(grid, periodic):
    for scale in scales_of(Extent(9, 3, tuple(grid), 2), periodic, {}).values():
        for n, points, stride in zip(grid, scale.grid, scale.options["strides"], strict=True):
            kept = np.arange(n)[::stride]
            assert len(kept) == points
            assert kept[-1] + stride == n if periodic else kept[-1] == n - 1


# --- what is refused -------------------------------------------------------------------------------------------------


def with_nan():
    bad = Y.copy()
    bad[13, 1, 4, 2] = np.nan
    return bad


def copied():
    bad = X.copy()
    bad[18] = bad[3]
    return bad


PAIR = {"inputs": "x.npy", "outputs": "y.npy"}


@pytest.mark.parametrize(
    ("x", "y", "settings", "message"),
    [
        (X, Y[:18], {}, "20 inputs and 18 outputs: there must be as many of one as of the other"),
        (X, np.array([object()] * 20), {}, "it holds Python objects; real numbers are needed"),
        (X, with_nan(), {}, r"outputs y.npy: nan in sample 13, index \(1, 4, 2\)"),
        (X, np.full_like(Y, np.inf), {}, "outputs y.npy: inf in sample 0"),
        (X.astype(complex), Y, {}, "complex numbers; store real and imaginary parts as two channels"),
        (X.astype(str), Y, {}, "an array of values of <U"),
        (np.moveaxis(X, 1, -1), np.moveaxis(Y, 1, -1), {}, "12 channels on 9 x 2; are channels last?"),
        (X.repeat(3, 2)[:, 0], Y.repeat(3, 2)[:, 0], {}, "36 channels on 9; no axis for channels"),
        (X, Y[..., :-1], {}, "inputs and outputs are on different grids"),
        (X, np.ones_like(Y), {}, "outputs are 1 everywhere; there is nothing to learn"),
        (copied(), Y, {}, r"1 test sample with the inputs of a train sample \(18 = 3\)"),
        (X[:, 0, 0, 0], Y, {}, r"inputs x.npy: shape \(20,\) has too few axes"),
        (X[:1], Y[:1], {}, "1 sample can't be split"),
        (X[:0], Y[:0], {}, r"inputs: shape \(0, 2, 12, 9\) has no samples"),
        (X, Y, {"channels": "last"}, r"outputs \(20, 3, 12, 9\) is 9 channels on 3 x 12$"),
        (X, Y, {"split": "half"}, "split 'half': write train/test as shares"),
        (X, Y, {"split": "90/20"}, "shares that add up to 100, or counts of at most 20 samples"),
        (X, Y, {"split_by": "missing.npy"}, "missing.npy: no such file"),
        (X, Y, {"inputs": "nowhere.npy"}, "nowhere.npy: no such file"),
        (X, Y, {"inputs": "x.txt"}, "write a file that ends in .npy"),
        (X, Y, {"inputs": "x.npy:a"}, "holds one array and no names"),
        (X, Y, {"outputs": ""}, "outputs are missing; only a rollout has none"),
        (X, Y, {"rollout": True}, "a rollout is one array"),
        (X, Y, {"rollout": True, "outputs": "", "history": 2}, "history 2: trajectories have 2 frames, .*: at most 1"),
        (X, Y, {"domain": [[0, 1]]}, "2 axes are needed"),
        (X, Y, {"name": "My Flow"}, "lower-case letters"),
        (X, Y, {"name": "all"}, "not 'all'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, x, y, settings, message):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(UsageError, match=message) as caught:
        adding.add(task(tmp_path, **{**PAIR, **settings}))
    assert "\n" not in str(caught.value)
    assert adding.added() == []
    assert not list(arrays_dir().glob("*/*"))


@pytest.mark.parametrize("kind", ["npz", "h5", "zarr", "pt"])
def test_a_missing_name_is_answered_with_those_that_are_there(tmp_path, kind):
    places = write(tmp_path, kind)
    with pytest.raises(UsageError, match=r"inputs .*:pressure: no such array; it holds a, (deep/)?u"):
        arrays.find(task(tmp_path, **{**places, "inputs": f"data.{kind}:pressure"}))
    with pytest.raises(UsageError, match=r"holds a, (deep/)?u; write .*:NAME"):
        arrays.find(task(tmp_path, **{**places, "inputs": f"data.{kind}"}))


@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "pt"])
def test_a_file_cut_short_is_named(tmp_path, kind):
    places = write(tmp_path, kind)
    file = tmp_path / places["inputs"].partition(":")[0]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(UsageError, match=r"inputs .* can't be read: ") as caught:
        adding.add(task(tmp_path, **places))
    assert "\n" not in str(caught.value)


def test_a_damaged_block_is_named(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("a", data=X, chunks=(5, *X.shape[1:]), compression="gzip")
        file["u"] = Y
        offset = file["a"].id.get_chunk_info(2).byte_offset
    with (tmp_path / "data.h5").open("r+b") as stream:
        stream.seek(offset + 50)
        stream.write(bytes(40))
    with pytest.raises(UsageError, match=r"inputs .*data\.h5:a can't be read: ") as caught:
        adding.add(task(tmp_path, inputs="data.h5:a", outputs="data.h5:u"))
    assert "\n" not in str(caught.value)


class Trap:
    """Whoever unpickles it gets a file."""

    def __reduce__(self):
        return (Path.touch, (Path("sprung"),))


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": torch.zeros(3), "trap": Trap()}, tmp_path / "data.pt")
    np.save(tmp_path / "data.npy", np.array([Trap()]), allow_pickle=True)
    for place in ("data.pt:a", "data.npy"):
        with pytest.raises(UsageError, match=r"nothing is unpickled|Python objects"):
            arrays.find(task(tmp_path, inputs=place, outputs=place))
    assert not Path("sprung").exists()


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    described = task(tmp_path, **write(tmp_path, "npy"))
    real = adding._copy

    def slow(file, target, progress):
        done = real(file, target, progress)
        if file.name == "x.npy":
            with file.open("ab") as stream:
                stream.write(b"more")
        return done

    monkeypatch.setattr(adding, "_copy", slow)
    with pytest.raises(UsageError, match=r"x.npy changed while it was read; wait until it is complete"):
        adding.add(described)
    assert adding.added() == []


def test_what_is_odd_but_allowed_is_said(tmp_path):
    x = X.copy()
    x[:, 1] = 0.5
    x[4] = x[3]
    _, findings = adding.add(task(tmp_path, **write(tmp_path, "npy", x)))
    assert findings.notes == ["inputs channel 1 is 0.5 everywhere"]
    assert findings.copies == 1
    _, findings = adding.add(task(tmp_path, name="copied", **write(tmp_path, "npy", copied())), duplicates=True)
    assert findings.notes == ["1 test sample with the inputs of a train sample (18 = 3)"]


def test_equal_sums_are_not_taken_for_copies(tmp_path):
    """A shifted field has the words of the other in another order."""
    x = X.copy()
    x[18] = np.roll(x[3], 1, axis=-1)
    _, findings = adding.add(task(tmp_path, **write(tmp_path, "npy", x)))
    assert findings.copies == 0


# --- in the cache ----------------------------------------------------------------------------------------------------


def test_what_was_added_is_a_task_and_its_files_may_go(tmp_path):
    adding.add(task(tmp_path, **write(tmp_path, "h5")))
    (tmp_path / "data.h5").unlink()
    found = load_registry().task("mine")
    assert (found.spec.in_channels, found.spec.out_channels, found.spec.scales["paper"].grid) == (2, 3, (12, 9))
    data = cache.obtain(cache.Dataset(found, "paper", source=cache.find_source(found.spec)))
    assert np.array_equal(data.train.outputs, Y[:16])
    assert "mine" not in {choice.name for choice in load_registry().choose_tasks("all")}


def test_a_task_file_and_added_arrays_are_the_same_data(tmp_path):
    (tmp_path / "paper" / "data").mkdir(parents=True)
    places = write(tmp_path / "paper" / "data", "npy")
    adding.add(task(tmp_path / "paper" / "data", **places))
    file = tmp_path / "paper" / "mine.yaml"
    file.write_text(yaml.safe_dump({"name": "mine", **{role: f"data/{place}" for role, place in places.items()}}))
    ids = set()
    for registry in (load_registry(), load_registry([file])):
        found = registry.task("mine")
        ids.add((cache.Dataset(found, "small", source=cache.find_source(found.spec)).id, found.spec.digest()))
    assert len(ids) == 1
    assert load_registry([file]).task("mine").spec.files == str(tmp_path / "paper" / "data"), "the file goes first"


def test_arrays_with_the_name_of_a_plugins_task_are_set_aside(tmp_path):
    adding.add(task(tmp_path, name="poisson_1d", **write(tmp_path, "npy")))
    registry = load_registry()
    assert registry.task("poisson_1d").origin.distribution == "pdebench-hss"
    assert "has a task of that name; pdebench-hss data remove poisson_1d" in str(registry.broken[0])


def test_an_inspection_is_made_once_for_each_content(tmp_path, monkeypatch):
    spec, first = adding.add(task(tmp_path, **write(tmp_path, "npy")))
    monkeypatch.setattr("pdebench_hss.data.inspection._look", lambda *_: pytest.fail("looked again"))
    assert inspect(spec, cache.find_source(spec)) == first


def test_files_in_two_folders_keep_their_names_apart(tmp_path):
    for name, values in (("before", X), ("after", Y)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "u.npy", values)
    described = task(tmp_path, inputs="before/u.npy", outputs="after/u.npy")
    assert files_of(described)[1] == {"inputs": "before/u.npy", "outputs": "after/u.npy"}
    spec, _ = adding.add(described)
    assert spec.reads == ("after/u.npy", "before/u.npy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: mine\ninput: x.npy\n", "unknown key 'input'. Did you mean 'inputs'?"),
        ("name: mine\n", "inputs is missing"),
        ("name: mine\ninputs: [x.npy]\n", "inputs must be text, not"),
        ("name: mine\ninputs: x.npy\nperiodic: 3\n", "periodic must be true or false, not 3"),
        ("- a\n- b\n", "expected keys and values, found a list"),
        ("name: [\n", "not valid YAML"),
        ("name: mine\ninputs: x.npy\noutputs: y.npy\n", "x.npy: no such file"),
    ],
)
def test_a_bad_task_file_is_one_line(tmp_path, text, message):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        load_registry([tmp_path / "mine.yaml"])
    assert "\n" not in str(caught.value)


# --- as a stranger types it ------------------------------------------------------------------------------------------


def test_from_two_files_to_a_board_and_back(cli, tmp_path):
    write(tmp_path, "npy")
    done = cli("data", "add", "mine", "--inputs", "x.npy", "--outputs", "y.npy", "--domain", "0:1,0:2")
    assert done.code == 0, done.err
    assert done.out.startswith(
        "mine: 20 pairs, 2 -> 3 channels on 12 x 9 (float32, 43.2 kB); 16 train / 4 test; no duplicates, all finite.\n"
    )
    again = cli("data", "add", "mine", "--inputs", "x.npy", "--outputs", "y.npy")
    assert (again.code, "data remove mine" in again.err) == (2, True)
    taken = cli("data", "add", "poisson_2d", "--inputs", "x.npy", "--outputs", "y.npy")
    assert (taken.code, "there is a task 'poisson_2d' already" in taken.err) == (2, True)
    assert "12x9" in cli("list", "tasks", "--format", "csv").out
    done = cli("run", "--tasks", "mine", "--models", "all", "--scale", "smoke", "--executor", "inline")
    assert done.code == 0, done.err
    board = pd.read_csv(tmp_path / "leaderboards" / "latest" / "leaderboard.csv").set_index("model")
    assert (board.status[["deeponet", "factformer", "fno", "linear", "mean", "neural_hss", "resnet"]] == "ok").all()
    skipped = board[board.status != "ok"]
    assert (skipped.status == "skipped").all()
    assert skipped.reason.str.len().min() > 0, "who can't do it says why"
    assert "✓ mine: 5 of 5 promises kept" in cli("check", "mine").out
    assert cli("data", "remove", "mine").code == 2, "it asks first"
    assert "removed mine" in cli("data", "remove", "mine", "--yes").out
    assert cli("show", "mine").code == 2
    assert "no arrays 'mine' were added; there are: none" in cli("data", "remove", "mine", "--yes").err


def test_a_task_file_runs_without_a_copy_and_is_inspected(cli, tmp_path):
    write(tmp_path, "npy")
    (tmp_path / "mine.yaml").write_text("name: mine\ninputs: x.npy\noutputs: y.npy\n")
    run = ("run", "--task-file", "mine.yaml", "--models", "mean", "--scale", "smoke")
    done = cli(*run)
    assert done.code == 0, done.err
    assert "mine: 20 pairs, 2 -> 3 channels on 12 x 9" in done.err
    assert adding.added() == []
    assert "1 cached" in cli(*run).out
    assert "x.npy" not in cli("show", "mine", "--plugin", "mine.yaml").err
    write(tmp_path, "npy", copied())
    done = cli(*run)
    assert done.code == 2
    assert done.err.startswith("error: mine: 1 test sample with the inputs of a train sample (18 = 3)")
    assert cli("run", "--task-file", "mine.py", "--models", "mean").code == 2


def test_a_damaged_copy_is_found_by_verify(cli, tmp_path):
    adding.add(task(tmp_path, **write(tmp_path, "npy")))
    assert "ok       arrays mine" in cli("data", "verify").out
    with (arrays_dir() / "mine" / "x.npy").open("r+b") as file:
        file.seek(500)
        file.write(b"rot")
    done = cli("data", "verify")
    assert done.code == 1
    assert "corrupt  arrays mine: x.npy: content hash" in done.out


def test_a_killed_add_leaves_nothing_and_can_be_repeated(tmp_path, cli):
    """The process dies between the copies and the end."""
    write(tmp_path, "npy")
    code = (
        "import os, sys\nfrom pdebench_hss.data import adding\n"
        "adding.inspect = lambda *_: os._exit(9)\nfrom pdebench_hss.cli import main\nmain()"
    )
    command = [sys.executable, "-c", code, "data", "add", "mine", *("--inputs", "x.npy", "--outputs", "y.npy")]
    assert subprocess.run(command, cwd=tmp_path, env=os.environ.copy(), timeout=60).returncode == 9
    assert adding.added() == []
    assert cli("data", "add", "mine", "--inputs", "x.npy", "--outputs", "y.npy").code == 0
