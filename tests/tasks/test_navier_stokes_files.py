"""The reader of DiffusionPDE's Navier-Stokes files, on files written in their layouts by scipy and h5py."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
from pdebench_hss_tasks.navier_stokes.diffusionpde import read
from pdebench_hss_tasks.navier_stokes.matfile import fields

from pdebench_hss.contract.task import Recipe, Scale

Writer = Callable[[Path, dict[str, np.ndarray]], None]


def write_version_5(path: Path, arrays: dict[str, np.ndarray]) -> None:
    scipy.io.savemat(path, arrays)


def write_compressed(path: Path, arrays: dict[str, np.ndarray]) -> None:
    scipy.io.savemat(path, arrays, do_compression=True)


def write_version_73(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """As MATLAB does: a text header of 512 bytes before the HDF5 part, axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array.T).attrs["MATLAB_class"] = np.bytes_("single")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


WRITERS = pytest.mark.parametrize("write", [write_version_5, write_compressed, write_version_73])


def flow(seed: int, count: int = 3, grid: int = 16) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (count, grid, grid)
    return {
        "a": rng.standard_normal(shape, dtype=np.float32),
        "u": rng.standard_normal((*shape, 10), dtype=np.float32),
        "t": np.linspace(0.1, 1, 10, dtype=np.float32),
    }


def write_all(root: Path, write: Writer, numbers: tuple[int, ...] = (1, 2), name: str = "ns-nonbounded_{}.mat") -> None:
    """Training files whose contents follow from their numbers, and a test file (number 0)."""
    train, test = root / "training" / "ns-nonbounded", root / "testing"
    train.mkdir(parents=True)
    test.mkdir()
    for number in numbers:
        write(train / name.format(number), flow(number))
    write(test / "ns-nonbounded.mat", flow(0))


def size(train: int = 5, test: int = 2, grid: int = 16) -> Scale:
    return Scale(grid=(grid, grid), train=train, test=test, recipe=Recipe(batch=1, steps=1))


@WRITERS
def test_reads_starts_and_last_snapshots_in_the_order_of_the_files(tmp_path, write):
    write_all(tmp_path, write, numbers=(1, 2, 10))
    data = read(tmp_path, size(train=8))
    inputs, outputs = data["train"]
    assert inputs.dtype == outputs.dtype == np.float32
    parts = [flow(1), flow(2), flow(10)]  # 10 after 2
    assert np.array_equal(inputs[:, 0], np.concatenate([part["a"] for part in parts])[:8])
    assert np.array_equal(outputs[:, 0], np.concatenate([part["u"][..., -1] for part in parts])[:8])
    assert np.array_equal(data["test"][0][:, 0], flow(0)["a"][:2])
    assert np.array_equal(data["test"][1][:, 0], flow(0)["u"][:2, ..., -1])


def test_files_named_by_their_sizes_are_found_too(tmp_path):
    write_all(tmp_path, write_version_5, name="ns_1000_128_128_10_{}.mat")
    assert np.array_equal(read(tmp_path, size())["train"][0][3:, 0], flow(2)["a"][:2])


def test_files_that_are_not_needed_are_not_opened(tmp_path):
    write_all(tmp_path, write_version_5)
    (tmp_path / "training/ns-nonbounded/ns-nonbounded_2.mat").write_bytes(b"rubbish")
    assert len(read(tmp_path, size(train=3))["train"][0]) == 3


def test_a_smaller_grid_takes_every_second_point(tmp_path):
    write_all(tmp_path, write_version_5)
    inputs, outputs = read(tmp_path, size(grid=8))["test"]
    assert np.array_equal(inputs[:, 0], flow(0)["a"][:2, ::2, ::2])
    assert np.array_equal(outputs[:, 0], flow(0)["u"][:2, ::2, ::2, -1])


@WRITERS
def test_only_the_last_snapshot_is_taken_into_memory(tmp_path, write):
    arrays = flow(0, count=16, grid=128)
    write(tmp_path / "big.mat", arrays)
    field = fields(tmp_path / "big.mat")["u"]
    tracemalloc.start()
    last = field.last()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(last, arrays["u"][..., -1])
    assert peak < 0.45 * arrays["u"].nbytes


@pytest.mark.parametrize("compress", [False, True])
def test_every_numeric_type_is_read_as_scipy_reads_it(tmp_path, compress):
    rng = np.random.default_rng(0)
    kinds = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
    arrays = {f"of_{kind}": rng.uniform(0, 99, (2, 3, 4)).astype(kind) for kind in kinds}
    arrays |= {"x": np.array([[7]], dtype=np.int8), "name_of_odd_length": rng.standard_normal((3, 1))}
    path = tmp_path / "types.mat"
    scipy.io.savemat(
        path, arrays | {"text": "skipped", "cell": np.array([1, "a"], dtype=object)}, do_compression=compress
    )
    reference, found = scipy.io.loadmat(path), fields(path)
    assert set(found) == set(arrays)
    for name, field in found.items():
        assert field.shape == reference[name].shape
        assert np.array_equal(field.whole(), reference[name])
        assert np.array_equal(field.last(), reference[name][..., -1])


def test_a_directory_without_the_files_names_what_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"training/ns-nonbounded/ns-nonbounded_\*\.mat"):
        read(tmp_path, size())
    (tmp_path / "training" / "ns-nonbounded").mkdir(parents=True)
    write_version_5(tmp_path / "training/ns-nonbounded/ns-nonbounded_1.mat", flow(1))
    with pytest.raises(ValueError, match=r"testing/ns-nonbounded\.mat"):
        read(tmp_path, size(train=1))


@WRITERS
def test_a_missing_field_is_named(tmp_path, write):
    write_all(tmp_path, write)
    arrays = flow(2)
    del arrays["u"]
    write(tmp_path / "training/ns-nonbounded/ns-nonbounded_2.mat", arrays)
    with pytest.raises(ValueError, match=r"ns-nonbounded_2\.mat: no field 'u'; expected a and u, found a, t"):
        read(tmp_path, size())


@WRITERS
@pytest.mark.parametrize(
    ("field", "shape", "message"),
    [
        ("a", (3, 16, 12), r"field 'a': expected shape \(n, N, N\), N a multiple of 16, found \(3, 16, 12\)"),
        ("a", (3, 24, 24), r"field 'a': expected shape \(n, N, N\), N a multiple of 16, found \(3, 24, 24\)"),
        ("u", (3, 16, 16, 9), r"field 'u': expected shape \(3, 16, 16, 10\), found \(3, 16, 16, 9\)"),
        ("u", (2, 16, 16, 10), r"field 'u': expected shape \(3, 16, 16, 10\), found \(2, 16, 16, 10\)"),
    ],
)
def test_another_shape_is_named(tmp_path, write, field, shape, message):
    write_all(tmp_path, write)
    write(tmp_path / "testing/ns-nonbounded.mat", {**flow(0), field: np.zeros(shape, np.float32)})
    with pytest.raises(ValueError, match=r"ns-nonbounded\.mat: " + message):
        read(tmp_path, size())


@WRITERS
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.05, 0.5, 0.97, 0.9999])
def test_a_file_cut_short_is_named(tmp_path, write, kept):
    write_all(tmp_path, write)
    path = tmp_path / "training/ns-nonbounded/ns-nonbounded_1.mat"
    arrays = flow(1)
    write(path, {"t": arrays["t"], "a": arrays["a"], "u": arrays["u"]})  # u last, so that every cut takes from it
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match=r"ns-nonbounded_1\.mat"):
        read(tmp_path, size())


def test_a_cut_field_tells_what_was_expected_and_found(tmp_path):
    write_all(tmp_path, write_version_5)
    path = tmp_path / "testing/ns-nonbounded.mat"
    arrays = flow(0)
    write_version_5(path, {"a": arrays["a"], "u": arrays["u"]})
    path.write_bytes(path.read_bytes()[:-1000])
    whole = 3 * 16 * 16 * 4
    with pytest.raises(
        ValueError, match=f"field 'u' is cut short: expected {whole} bytes where {whole - 1000} were found"
    ):
        read(tmp_path, size())


def test_damaged_compressed_bytes_are_named(tmp_path):
    write_all(tmp_path, write_compressed)
    path = tmp_path / "testing/ns-nonbounded.mat"
    arrays = flow(0)
    write_compressed(path, {"a": arrays["a"], "u": arrays["u"]})
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)  # it may still unpack; the checksum tells
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"ns-nonbounded\.mat: field 'u' is (damaged|cut short)"):
        read(tmp_path, size())


def test_too_few_samples_are_counted(tmp_path):
    write_all(tmp_path, write_version_5)
    with pytest.raises(
        ValueError, match=r"expected 7 samples in ns-nonbounded_1\.mat \.\.\. ns-nonbounded_2\.mat, found 6"
    ):
        read(tmp_path, size(train=7))
