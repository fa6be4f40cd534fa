"""Data are made once, checked whenever they are used, and never silently wrong."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from filelock import FileLock

from pdebench_hss.base.errors import DataError, UsageError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import cache, generation, hdf5


@pytest.fixture
def dataset(toys):
    def make(task="toy", scale="smoke", seed=0, **params):
        return cache.Dataset(load_registry([toys]).task(task), scale, params, seed)

    return make


@pytest.fixture
def ensure(toys):
    return lambda dataset, jobs=1: cache.ensure(dataset, jobs=jobs, plugin_files=[toys])


def test_data_do_not_depend_on_how_many_processes_made_them(dataset, ensure, tmp_path, monkeypatch):
    alone = ensure(dataset(), jobs=1)
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "other"))
    together = ensure(dataset(), jobs=2)
    assert alone.path != together.path
    assert alone.sha256 == together.sha256


def test_another_seed_or_split_is_other_data(dataset, ensure):
    ensure(dataset())
    ensure(dataset(seed=1))
    first, second = cache.load(dataset()), cache.load(dataset(seed=1))
    samples = np.concatenate([d.inputs for t in (first, second) for d in (t.train, t.test)])
    assert len(np.unique(samples.reshape(len(samples), -1), axis=0)) == len(samples)


def test_the_file_tells_how_it_was_made(dataset, ensure):
    header = ensure(dataset("toy_params", factor=3.0))
    assert header.recipe["dataset"] == "toy_params"
    assert header.recipe["params"] == {"factor": 3.0}
    assert header.recipe["sizes"] == {"train": 12, "test": 4}
    assert set(header.moments) == {"train/inputs", "train/outputs", "test/inputs", "test/outputs"}
    loaded = cache.load(dataset("toy_params", factor=3.0))
    np.testing.assert_array_equal(loaded.train.outputs, 3.0 * loaded.train.inputs)
    assert header.moments["train/inputs"]["mean"] == pytest.approx(loaded.train.inputs.mean(), abs=1e-12)


def test_forward_and_inverse_share_one_file(dataset, ensure):
    assert ensure(dataset("toy")).path == ensure(dataset("toy_shared")).path
    forward, inverse = cache.load(dataset("toy")), cache.load(dataset("toy_shared"))
    np.testing.assert_array_equal(forward.test.inputs, inverse.test.outputs)
    np.testing.assert_array_equal(forward.test.outputs, inverse.test.inputs)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def edit(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["test/outputs"][0, 0, 0] += 1e-12


def garbage(path: Path) -> None:
    path.write_bytes(b"not an HDF5 file at all")


def edit_recipe(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["recipe"] = file.attrs["recipe"].replace('"seed": 0', '"seed": 9')


@pytest.mark.parametrize("damage", [truncate, edit, garbage, edit_recipe])
def test_a_damaged_file_is_noticed_and_made_again(dataset, ensure, damage):
    header = ensure(dataset())
    damage(header.path)
    with pytest.raises(hdf5.CorruptData):
        hdf5.verify(header.path)
    with pytest.warns(cache.DataWarning, match="is not what was written"):
        again = ensure(dataset())
    assert again.sha256 == header.sha256
    assert hdf5.verify(header.path, deep=True)


def test_a_trial_never_loads_a_damaged_file(dataset, ensure):
    edit(ensure(dataset()).path)
    with pytest.raises(hdf5.CorruptData):
        cache.load(dataset())


def test_an_edit_that_hides_its_time_is_found_by_verify(dataset, ensure, cli):
    path = ensure(dataset()).path
    status = path.stat()
    edit(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    done = cli("data", "verify")
    assert done.code == 1
    assert "corrupt" in done.out
    assert path.name in done.out


def rot(path: Path) -> None:
    """One bit of a stored array flips, and neither size nor time tell."""
    with h5py.File(path, "r") as file:
        offset = file["test/outputs"].id.get_chunk_info(0).byte_offset
    flip_bit(path, offset + 5)
    assert hdf5.verify(path), "the stamp beside it still holds"


def test_a_flipped_bit_is_noticed_when_it_is_read(dataset, ensure):
    header = ensure(dataset())
    rot(header.path)
    with pytest.raises(DataError, match=r"is not what was written \(.*checksum") as raised:
        cache.load(dataset())
    assert "\n" not in str(raised.value)
    with pytest.warns(cache.DataWarning, match="making it again"):
        assert ensure(dataset()).sha256 == header.sha256
    assert cache.load(dataset()).sha256 == header.sha256


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> hdf5.Header:
    recipe = {"sizes": {split: len(arrays[f"{split}/inputs"]) for split in hdf5.SPLITS}}
    parts = {split: [(arrays[f"{split}/inputs"], arrays[f"{split}/outputs"])] for split in hdf5.SPLITS}
    hdf5.write(path, recipe, arrays["train/inputs"].dtype.str, lambda split: parts[split])
    return hdf5.verify(path)


def random_arrays(shape: tuple[int, ...], dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    names = [f"{split}/{name}" for split in hdf5.SPLITS for name in hdf5.ARRAYS]
    return {name: rng.standard_normal(shape).astype(dtype) for name in names}


def flip_bit(path: Path, offset: int, bit: int = 0) -> None:
    """Neither size nor time tell."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("remembered", [True, False], ids=["by its chart", "by HDF5"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((7, 1, 5), "<f4"), ((100, 2, 64), "<f8"), ((3, 1, 37, 101), "<f4"), ((2, 1, 3, 90, 50), "<f8")],
)
def test_what_is_read_is_what_was_written_to_the_last_bit(tmp_path, monkeypatch, shape, dtype, remembered):
    monkeypatch.setattr(hdf5, "CHUNK_BYTES", 10_000)
    arrays = random_arrays(shape, dtype)
    path = write_arrays(tmp_path / "data.h5", arrays).path
    if not remembered:
        path.with_name("data.h5.ok").unlink()
    for count in (None, 1, 2, shape[0] - 1, shape[0] + 5):
        for split in hdf5.SPLITS:
            for name, found in zip(hdf5.ARRAYS, hdf5.read_split(path, split, count)):
                np.testing.assert_array_equal(found, arrays[f"{split}/{name}"][:count])
                assert found.dtype.str == dtype
                assert found.flags.writeable
                assert found.flags.c_contiguous


@pytest.mark.parametrize("stored", ["in chunks", "in one piece", "in chunks, known from an earlier version"])
def test_rot_in_any_chunk_is_noticed_when_it_is_read(tmp_path, monkeypatch, stored):
    monkeypatch.setattr(hdf5, "CHUNK_BYTES", 20_000)
    path = write_arrays(tmp_path / "data.h5", random_arrays((20, 1, 601), "<f8")).path
    if stored == "in one piece":  # the layout of the first version
        with h5py.File(path, "r+") as file:
            content = file["test/outputs"][()]
            del file["test/outputs"]
            file.create_dataset("test/outputs", data=content)
        hdf5.verify(path)
    with h5py.File(path, "r") as file:
        array = file["test/outputs"]
        if array.chunks is None:
            places = [array.id.get_offset() + start for start in (0, 20_000, array.nbytes - 1)]
        else:
            chunks = [array.id.get_chunk_info(number) for number in range(array.id.get_num_chunks())]
            assert len(chunks) == 5
            places = [chunk.byte_offset + at for chunk in chunks for at in (0, 9_000, 4 * 601 * 8 - 1)]
    stamp = path.with_name("data.h5.ok")
    known = json.loads(stamp.read_text())
    if "known" in stored:
        del known["charts"]
    for place in places:
        for bit in (0, 7):
            flip_bit(path, place, bit)
            stamp.write_text(json.dumps(known))
            hdf5.read_split(path, "train")
            with pytest.raises(hdf5.CorruptData, match="does not match its checksum") as raised:
                hdf5.read_split(path, "test")
            assert "charts" not in known or "test/outputs" in str(raised.value)
            assert not stamp.exists()
            flip_bit(path, place, bit)
    assert hdf5.verify(path)


def test_another_reader_of_hdf5_notices_rot_too(dataset, ensure):
    path = ensure(dataset()).path
    rot(path)
    with h5py.File(path, "r") as file, pytest.raises(OSError, match="filter returned failure"):
        file["test/outputs"][()]


@pytest.mark.parametrize(
    "damage",
    [
        {"chunks": [[0, 0, 2**60, 0]]},
        {"chunks": [["x", 0, 8, 0]]},
        {"chunks": []},
        {"dtype": "<f9"},
        {"shape": [2**50]},
        {"shape": None},
    ],
)
def test_a_damaged_memory_of_a_check_is_forgotten(dataset, ensure, damage):
    path = ensure(dataset()).path
    stamp = path.with_name(path.name + ".ok")
    known = json.loads(stamp.read_text())
    known["charts"]["train/inputs"].update(damage)
    stamp.write_text(json.dumps(known))
    with pytest.raises(DataError, match=f"{path.name} in the data cache is not what was written"):
        cache.load(dataset())
    assert cache.load(dataset()).train.inputs.shape == (12, 1, 16), "the file was good"


def test_known_data_are_not_opened_as_hdf5(dataset, ensure, monkeypatch):
    header, samples = ensure(dataset()), cache.load(dataset())
    monkeypatch.setattr(h5py, "File", None)
    assert hdf5.verify(header.path) == header
    np.testing.assert_array_equal(cache.load(dataset()).test.outputs, samples.test.outputs)


@pytest.mark.parametrize("damage", [{"sha256": "0" * 64}, {"shapes": 3}, {"recipe": {}}, {"unheard_of": 1}])
def test_a_damaged_memory_of_a_header_is_not_believed(dataset, ensure, damage):
    header = ensure(dataset())
    stamp = header.path.with_name(header.path.name + ".ok")
    known = json.loads(stamp.read_text())
    known["header"].update(damage)
    stamp.write_text(json.dumps(known))
    assert hdf5.verify(header.path) == header


def test_who_asks_for_damaged_samples_gets_them_made_again(toys, dataset, ensure):
    header = ensure(dataset())
    expected = cache.load(dataset()).test.outputs
    rot(header.path)
    with pytest.warns(cache.DataWarning, match="making it again"):
        found = cache.obtain(dataset(), plugin_files=[toys])
    np.testing.assert_array_equal(found.test.outputs, expected)


def test_a_trial_on_rotten_data_fails_with_one_line_and_runs_when_asked_again(cli, toys, dataset, ensure):
    rot(ensure(dataset()).path)
    command = ("run", "--plugin", toys, "--models", "mean", "--tasks", "toy", "--scale", "smoke", "--out", "board")
    first, second = cli(*command), cli(*command)
    assert "is not what was written" in first.out
    assert "Traceback" not in first.out + first.err
    assert second.code == 0, second.err
    assert "making it again" in second.err
    assert "✓" in second.out


def test_what_verify_finds_damaged_is_made_again(cli, dataset, ensure):
    header = ensure(dataset())
    rot(header.path)
    done = cli("data", "verify")
    assert done.code == 1
    assert "checksum" in done.out
    assert "1 datasets, 1 corrupt" in done.out
    assert not header.path.with_name(header.path.name + ".ok").exists()
    with pytest.warns(cache.DataWarning, match="making it again"):
        ensure(dataset())
    assert hdf5.verify(header.path, deep=True).sha256 == header.sha256


def test_a_file_without_checksums_is_read_as_before(dataset, ensure):
    header = ensure(dataset())
    expected = cache.load(dataset())
    with h5py.File(header.path, "r+") as file:
        for name in header.shapes:
            content = file[name][()]
            del file[name]
            file.create_dataset(name, data=content)  # contiguous: the layout of earlier versions
            assert not file[name].fletcher32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ensure(dataset()).sha256 == header.sha256
    np.testing.assert_array_equal(cache.load(dataset()).train.inputs, expected.train.inputs)


@pytest.mark.parametrize(
    "shape", [(12, 1, 16), (1000, 1, 128), (3, 5, 2, 300, 300), (2, 1, 200, 200, 200), (7, 1, 2**22)]
)
def test_chunks_hold_a_megabyte_and_waste_little(shape):
    chunks = hdf5.chunk_shape(shape, 8)
    assert np.prod(chunks) * 8 <= hdf5.CHUNK_BYTES
    stored = np.prod([-(-length // chunk) * chunk for length, chunk in zip(shape, chunks)])
    assert stored <= 1.1 * np.prod(shape)


def test_an_intact_file_is_used_without_a_word(dataset, ensure):
    before = ensure(dataset()).path.stat().st_mtime_ns
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ensure(dataset()).path.stat().st_mtime_ns == before


def generate(toys: str, task: str) -> subprocess.Popen:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pdebench_hss",
            "data",
            "generate",
            "--plugin",
            toys,
            "--tasks",
            task,
            "--scale",
            "smoke",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_make_it_once(toys, dataset, monkeypatch, tmp_path):
    trace = tmp_path / "calls"
    monkeypatch.setenv("TOY_TRACE", str(trace))
    both = [generate(toys, "toy_slow") for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    seeds = trace.read_text().split()
    assert len(seeds) == len(set(seeds)) == 16  # every sample exactly once
    assert hdf5.verify(dataset("toy_slow").path, deep=True)


def test_a_killed_generation_goes_on_where_it_was(toys, dataset, ensure, monkeypatch, tmp_path):
    trace = tmp_path / "calls"
    monkeypatch.setenv("TOY_TRACE", str(trace))
    parts = dataset("toy_slow").path.with_suffix(".parts")
    process = generate(toys, "toy_slow")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(parts.glob("[!.]*.npz")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    kept = len(list(parts.glob("[!.]*.npz")))
    assert 0 < kept < 8
    time.sleep(1.0)  # what its workers had begun may still end
    made = len(trace.read_text().split())
    kept = sum(int(p.stem.split("-")[2]) - int(p.stem.split("-")[1]) for p in parts.glob("[!.]*.npz"))
    ensure(dataset("toy_slow"))
    assert len(trace.read_text().split()) - made == 16 - kept
    assert not parts.exists()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip, garbage])
def test_a_damaged_part_is_made_again(toys, dataset, ensure, monkeypatch, tmp_path, damage):
    wanted = dataset("toy_slow")
    reference = generation.Reference.to(wanted, [toys])
    parts = wanted.path.with_suffix(".parts")
    for part in generation._parts(wanted):
        generation.make_part(None, reference, part)
    victim = sorted(parts.iterdir())[1]
    damage(victim)
    trace = tmp_path / "calls"
    monkeypatch.setenv("TOY_TRACE", str(trace))
    made = ensure(wanted)
    start, stop = map(int, victim.stem.split("-")[1:])
    assert len(trace.read_text().split()) == stop - start, "that part alone"
    assert not parts.exists()
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(tmp_path / "other"))
    assert ensure(dataset("toy_slow")).sha256 == made.sha256


def test_what_is_finite_only_before_it_is_stored_is_refused(toys, cli, tmp_path):
    plugin = Path(toys).read_text().replace('"scaled", params', '"scaled", dtype="float32", params')
    (tmp_path / "single.py").write_text(plugin)
    shutil.copy(Path(toys).with_name("toy_arrays.py"), tmp_path)
    command = ("data", "generate", "--plugin", "single.py", "--scale", "smoke", "--tasks")
    done = cli(*command, "toy_params[factor=1e200]")
    assert done.code == 1
    assert "sample 0 has non-finite outputs (stored as float32); fix its generator" in done.err
    assert done.err.count("\n") == 1


def test_a_full_disk_is_one_clear_line(cli, toys):
    """A real limit on the size of files stands in for a full disk: the same write fails."""
    limited = subprocess.run(
        [
            sys.executable,
            "-m",
            "pdebench_hss",
            "data",
            "generate",
            "--plugin",
            toys,
            "--tasks",
            "toy",
            "--scale",
            "small",
        ],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert limited.returncode == 1
    assert limited.stderr.startswith("error: ")
    assert "Traceback" not in limited.stderr
    assert cli("data", "list", "--format", "csv").out.count("\n") == 1  # the header alone: no half-written file


def test_too_little_space_is_said_before_anything_is_made(dataset, monkeypatch):
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(DataError, match=r"needs .* are free"):
        cache.ensure(dataset())


def test_a_task_without_a_reader_refuses_a_data_dir(toys, tmp_path):
    spec = load_registry([toys]).task("toy").spec
    with pytest.raises(UsageError, match="no reader"):
        cache.find_source(spec, tmp_path)


def test_list_and_clean(cli, dataset, ensure):
    path = ensure(dataset()).path
    assert "toy" in cli("data", "list").out
    refused = cli("data", "clean")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert path.exists()
    assert "removed 1 datasets" in cli("data", "clean", "--yes").out
    assert not path.exists()


def test_clean_takes_unfinished_data_and_leaves_what_is_in_use(cli, dataset):
    parts = [dataset(seed=seed).path.with_suffix(".parts") for seed in range(2)]
    for folder in parts:
        folder.mkdir(parents=True)
        (folder / "train-0000000-0000008.npz").write_bytes(b"x" * 1000)
    with FileLock(parts[1].with_suffix(".lock")):
        done = cli("data", "clean", "--yes")
    assert f"in use, not removed: {parts[1].stem}.h5" in done.out
    assert "removed 1 datasets (1.0 kB)" in done.out
    assert [folder.exists() for folder in parts] == [False, True]
