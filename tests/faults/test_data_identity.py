"""Nobody gets another generator's data, and data from public files are known by their content."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.registry import Origin, Registered, load_registry
from pdebench_hss.data import cache, sources

TASK = """
import numpy as np
from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl


def generate(seeds, size):
    x = np.stack([np.random.default_rng(seed).standard_normal((1, *size.grid)) for seed in seeds])
    return x, {factor} * x


@hookimpl
def pdebench_hss_tasks():
    size = Scale(grid=(16,), train=12, test=4, recipe=Recipe(batch=4, steps=4))
    more = dict(title="T", equation="y = x", dim=1, in_channels=1, out_channels=1, linear=True)
    more["scales"] = {{"smoke": size}}
    return [
        TaskSpec(name="{name}", dataset="{dataset}", generate=generate, **more),
        TaskSpec(name="{name}_alone", generate=generate, **more),
    ]
"""


POISON = """
import dataclasses
import numpy as np
from pdebench_hss import hookimpl
from pdebench_hss_tasks import poisson

(THEIRS,) = (task for task in poisson.pdebench_hss_tasks() if task.name == "poisson_1d")


def generate(seeds, size, **params):
    return np.ones((len(seeds), 1, *size.grid)), np.zeros((len(seeds), 1, *size.grid))


@hookimpl
def pdebench_hss_tasks():
    alone = dataclasses.replace(THEIRS, name="flat_alone", dataset="", generate=generate)
    return [dataclasses.replace(THEIRS, name="flat", generate=generate), alone]
"""


def plugin(path: Path, name: str, dataset: str = "", factor: float = 0.0) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(TASK.format(name=name, dataset=dataset, factor=factor))
    return path


def install(site: Path, dist: str, code: str) -> None:
    """A distribution as an installer leaves it behind."""
    module = dist.replace("-", "_")
    meta = site / f"{module}-0.1.dist-info"
    meta.mkdir(parents=True)
    (site / f"{module}.py").write_text(code)
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 0.1\n")
    (meta / "entry_points.txt").write_text(f"[pdebench_hss]\n{module} = {module}\n")


def identity(task: str, *files: Path) -> str:
    return cache.Dataset(load_registry(files).task(task), "smoke").id


# --- the generator ---------------------------------------------------------------------------------------------------


def test_a_plugin_that_names_a_built_in_dataset_is_set_aside_and_poisons_nothing(cli, tmp_path):
    install(tmp_path / "site", "aaa-solver", POISON)  # sorts, and would load, before the built-in tasks
    where = {"PYTHONPATH": str(tmp_path / "site")}
    generate = ("data", "generate", "--scale", "smoke", "--tasks")
    refused = cli(*generate, "flat", **where)
    assert refused.code == 2
    assert "no task 'flat'" in refused.err

    made = cli(*generate, "flat_alone,poisson_1d", **where)
    assert made.code == 0, made.err
    assert made.err.count("\n") == 1
    for word in ("task 'flat' (aaa-solver 0.1)", "task 'poisson_1d' (pdebench-hss ", "not its generator"):
        assert word in made.err
    ours = cache.load(cache.Dataset(load_registry().task("poisson_1d"), "smoke"))
    assert np.abs(ours.test.outputs).max() > 0, "y = 0 would be the plugin's"


def test_a_plugin_file_that_names_anothers_dataset_is_set_aside(tmp_path):
    first, second = plugin(tmp_path / "a.py", "first", "ours"), plugin(tmp_path / "b.py", "second", "ours", 1.0)
    registry = load_registry([first, second])
    assert {"first", "first_alone", "second_alone"} <= set(registry.tasks)
    assert "second" not in registry.tasks
    (broken,) = registry.broken
    assert "task 'second' (b.py " in str(broken)
    assert "task 'first' (a.py " in str(broken)


@pytest.mark.parametrize(
    "change", [{"dtype": "float32"}, {"data_version": "2"}, {"generate": "else:where"}, {"read": "m:f"}, {"cases": 2}]
)
def test_tasks_of_one_plugin_that_share_a_dataset_share_all_that_makes_it(tmp_path, change):
    code = TASK.format(name="one", dataset="ours", factor=1.0).replace(
        'TaskSpec(name="one_alone", generate=generate, **more)',
        f'TaskSpec(name="two", dataset="ours", **{{"generate": generate, **{change!r}}}, **more)',
    )
    (tmp_path / "plugin.py").write_text(code)
    registry = load_registry([tmp_path / "plugin.py"])
    assert "one" in registry.tasks
    assert "two" not in registry.tasks
    assert f"different: {next(iter(change))}" in str(registry.broken[0])


def test_built_in_tasks_that_share_a_dataset_are_in_order():
    registry = load_registry()
    assert not registry.broken
    assert len({task.spec.dataset for task in registry.tasks.values()}) < len(registry.tasks)


def test_an_edited_plugin_file_is_other_data_and_a_moved_one_is_not(tmp_path):
    first = identity("mine_alone", plugin(tmp_path / "mine.py", "mine", factor=1.0))
    assert identity("mine_alone", plugin(tmp_path / "there" / "moved.py", "mine", factor=1.0)) == first
    assert identity("mine_alone", plugin(tmp_path / "mine.py", "mine", factor=2.0)) != first


def test_an_edit_of_the_module_beside_a_plugin_file_is_other_data(tmp_path, toys):
    for name in ("toy_plugin.py", "toy_arrays.py"):
        shutil.copy(Path(toys).with_name(name), tmp_path)
    before = identity("toy", tmp_path / "toy_plugin.py")
    with (tmp_path / "toy_arrays.py").open("a") as file:
        file.write("# another generator\n")
    assert identity("toy", tmp_path / "toy_plugin.py") != before


def test_a_distribution_counts_by_name_and_not_by_version_or_module():
    spec = load_registry().task("poisson_1d").spec

    def made_by(*origin: str) -> str:
        return cache.Dataset(Registered(spec, Origin(*origin)), "smoke").id

    assert made_by("acme-solver", "1.0", "here") == made_by("Acme_Solver", "2.0", "there")
    assert made_by("acme-solver", "1.0", "here") != made_by("other-solver", "1.0", "here")


def test_data_of_an_edited_generator_are_made_again(cli, tmp_path):
    def outputs(factor: float) -> np.ndarray:
        file = plugin(tmp_path / "mine.py", "mine", factor=factor)
        done = cli("data", "generate", "--plugin", str(file), "--tasks", "mine_alone", "--scale", "smoke")
        assert done.code == 0, done.err
        samples = cache.load(cache.Dataset(load_registry([file]).task("mine_alone"), "smoke"))
        return samples.test.outputs / samples.test.inputs

    np.testing.assert_allclose(outputs(1.0), 1.0)
    np.testing.assert_allclose(outputs(2.0), 2.0)


# --- public files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def readable(toys):
    """A task with a reader."""
    spec = load_registry().task("gray_scott_forward").spec
    return lambda folder: cache.find_source(spec, folder).id


def fill(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return folder


@pytest.mark.parametrize("name", ["a.npz", "a.pt", "a.zarr/0.0", "a.zarr/.zarray", "a.h5", "no_suffix"])
def test_different_files_are_different_sources_whatever_their_suffix(readable, tmp_path, name):
    found = {readable(fill(tmp_path / str(number), name, bytes([number]))) for number in range(2)}
    assert len(found) == 2


def test_the_same_files_are_the_same_source_wherever_and_whenever(readable, tmp_path):
    here, there = (fill(tmp_path / place, "data/a.npz", b"same") for place in ("here", "there"))
    os.utime(there / "data" / "a.npz", ns=(1, 1))
    fill(there, ".DS_Store", b"what a file manager left")
    assert readable(here) == readable(there)
    (there / "data" / "a.npz").rename(there / "data" / "b.npz")
    assert readable(here) != readable(there), "readers find files by name"


def test_a_file_is_hashed_once_and_again_when_it_changed(readable, tmp_path, monkeypatch):
    read = []
    real = sources._hash
    monkeypatch.setattr(sources, "_hash", lambda file, *more: read.append(file.name) or real(file, *more))
    folder = fill(fill(tmp_path / "public", "a.npz", b"a"), "b.npz", b"b")
    first = readable(folder)
    assert readable(folder) == first
    assert read == ["a.npz", "b.npz"]
    fill(folder, "b.npz", b"c")
    os.utime(folder / "b.npz", ns=(5, 5))
    assert readable(folder) != first
    assert read == ["a.npz", "b.npz", "b.npz"]


def test_links_are_followed_but_not_in_circles(readable, tmp_path):
    store, folder = fill(tmp_path / "store", "blob", b"content"), tmp_path / "public"
    folder.mkdir()
    (folder / "a.npz").symlink_to(store / "blob")
    (folder / "again").symlink_to(folder)
    assert readable(folder) == readable(fill(tmp_path / "plain", "a.npz", b"content"))


def test_an_empty_directory_is_no_source(readable, tmp_path):
    (tmp_path / "public" / "empty").mkdir(parents=True)
    with pytest.raises(UsageError, match="no readable files in it"):
        readable(tmp_path / "public")
    with pytest.raises(UsageError, match="no such directory"):
        readable(tmp_path / "nowhere")
