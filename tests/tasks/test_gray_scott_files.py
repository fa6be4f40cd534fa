"""Reading The Well's Gray-Scott files: the right slices, nothing else, and errors that say what is wrong."""

import tracemalloc
from dataclasses import replace

import h5py
import numpy as np
import pytest
from pdebench_hss_tasks.gray_scott import FORWARD
from pdebench_hss_tasks.gray_scott.samples import PATTERNS
from pdebench_hss_tasks.gray_scott.well_files import read

from pdebench_hss.contract.task import Recipe, Scale

SIZE = Scale((8, 8), train=12, test=6, recipe=Recipe(steps=1, batch=1), options={"horizon": 40})
SNAPSHOTS = 5  # one every 10 time units, first and last included
COUNTS = {"train": 3, "valid": 1, "test": 2}  # trajectories per file: more than SIZE asks for


def file_name(pattern):
    f, k = PATTERNS[pattern]
    return f"gray_scott_reaction_diffusion_{pattern}_F_{f}_k_{k}.hdf5"


def write_file(path, pattern, trajectories, seed):
    """A small file with all that the public ones have."""
    f, k = PATTERNS[pattern]
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file.attrs.update(
            {
                "dataset_name": "gray_scott_reaction_diffusion",
                "grid_type": "cartesian",
                "n_spatial_dims": 2,
                "n_trajectories": trajectories,
                "simulation_parameters": ["F", "k"],
                "F": f,
                "k": k,
            }
        )
        file["dimensions/time"] = np.arange(SNAPSHOTS, dtype=np.float32) * 10
        for axis in "xy":
            file[f"dimensions/{axis}"] = np.linspace(-1, 1, 8, endpoint=False, dtype=np.float32)
            file[f"boundary_conditions/{axis}_periodic/mask"] = np.ones(8, bool)
        file["scalars/F"], file["scalars/k"] = np.float32(f), np.float32(k)
        for name in "AB":
            file[f"t0_fields/{name}"] = rng.random((trajectories, SNAPSHOTS, 8, 8), np.float32)


@pytest.fixture
def folder(tmp_path):
    for split, trajectories in COUNTS.items():
        place = tmp_path / "datasets" / "gray_scott_reaction_diffusion" / "data" / split
        place.mkdir(parents=True)
        for seed, pattern in enumerate(PATTERNS):
            write_file(place / file_name(pattern), pattern, trajectories, seed)
    return tmp_path


def train_file(folder, pattern="maze"):
    return folder / "datasets" / "gray_scott_reaction_diffusion" / "data" / "train" / file_name(pattern)


def test_the_names_are_the_public_ones():
    assert [file_name(p).removeprefix("gray_scott_reaction_diffusion_") for p in ("bubbles", "spots")] == [
        "bubbles_F_0.098_k_0.057.hdf5",
        "spots_F_0.03_k_0.062.hdf5",
    ]


def test_first_and_last_snapshot_become_inputs_and_outputs(folder):
    splits = read(folder, SIZE)
    assert set(splits) == {"train", "test"}
    inputs, outputs = splits["train"]
    assert inputs.shape == (12, 4, 8, 8)
    assert outputs.shape == (12, 2, 8, 8)
    assert splits["test"][0].shape == (6, 4, 8, 8)
    for case, (pattern, pair) in enumerate(PATTERNS.items()):
        with h5py.File(train_file(folder, pattern)) as file:
            for start in range(2):
                sample = 6 * start + case  # the six patterns of a start are side by side, as in generated data
                for channel, name in enumerate("AB"):
                    np.testing.assert_array_equal(inputs[sample, channel], file[f"t0_fields/{name}"][start, 0])
                    np.testing.assert_array_equal(outputs[sample, channel], file[f"t0_fields/{name}"][start, -1])
                np.testing.assert_allclose(inputs[sample, 2:, 3, 4], pair, rtol=1e-6)


@pytest.mark.parametrize(
    "below", ["", "datasets/gray_scott_reaction_diffusion", "datasets/gray_scott_reaction_diffusion/data"]
)
def test_any_folder_above_the_splits_will_do(folder, below):
    assert len(read(folder / below, SIZE)["train"][0]) == 12


def test_only_the_needed_slices_are_read(folder):
    """Fields of 10 and 15 MB (never written, so small on disk), of which three kilobytes are needed."""
    long = replace(SIZE, options={"horizon": 200_000})
    for path in folder.rglob("*.hdf5"):
        with h5py.File(path, "r+") as file:
            for name in "AB":
                shape = (file[f"t0_fields/{name}"].shape[0], 20_001, 8, 8)
                del file[f"t0_fields/{name}"]
                file.create_dataset(f"t0_fields/{name}", shape, np.float32, chunks=(1, 1, 8, 8), fillvalue=0.5)
    tracemalloc.start()
    inputs, _ = read(folder, long)["train"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert inputs[0, 0, 0, 0] == 0.5
    assert peak < 1e6, f"{peak / 1e6:.1f} MB"


def remove_field(path):
    with h5py.File(path, "r+") as file:
        del file["t0_fields/B"]


def remove_all_fields(path):
    with h5py.File(path, "r+") as file:
        del file["t0_fields"]


def other_grid(path):
    with h5py.File(path, "r+") as file:
        del file["t0_fields/A"]
        file["t0_fields/A"] = np.zeros((3, SNAPSHOTS, 16, 8), np.float32)


def too_few_snapshots(path):
    with h5py.File(path, "r+") as file:
        for name in "AB":
            short = file[f"t0_fields/{name}"][:, :-1]
            del file[f"t0_fields/{name}"]
            file[f"t0_fields/{name}"] = short


def too_few_trajectories(path):
    with h5py.File(path, "r+") as file:
        short = file["t0_fields/B"][:1]
        del file["t0_fields/B"]
        file["t0_fields/B"] = short


def other_parameter(path):
    with h5py.File(path, "r+") as file:
        file["scalars/k"][...] = 0.061


def cut_short(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def not_hdf5(path):
    path.write_text("<html>404</html>")


def missing(path):
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (remove_field, ["t0_fields/B", "found A"]),
        (remove_all_fields, ["t0_fields/A", "no group 't0_fields'"]),
        (other_grid, ["t0_fields/A", "(2+, 5, 8, 8)", "found (3, 5, 16, 8)"]),
        (too_few_snapshots, ["t0_fields/A", "(2+, 5, 8, 8)", "found (3, 4, 8, 8)"]),
        (too_few_trajectories, ["t0_fields/B", "at least 2 trajectories", "found (1, 5, 8, 8)"]),
        (other_parameter, ["scalars/k", "expected 0.057", "0.061"]),
        (cut_short, ["expected a whole HDF5 file"]),
        (not_hdf5, ["expected a whole HDF5 file"]),
        (missing, ["expected this file, found none"]),
    ],
)
def test_a_damaged_file_is_named_with_what_was_expected_and_found(folder, damage, says):
    path = train_file(folder)
    damage(path)
    with pytest.raises(ValueError) as error:
        read(folder, SIZE)
    for part in (str(path), *says):
        assert part in str(error.value)


def test_a_cut_in_the_last_field_is_noticed(folder):
    """The header is whole, the data behind it are not."""
    path = train_file(folder)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="expected a whole HDF5 file"):
        read(folder, SIZE)


def test_a_folder_without_the_data_says_where_it_looked(tmp_path):
    with pytest.raises(ValueError, match=r"looked for .*datasets/gray_scott_reaction_diffusion/data/train"):
        read(tmp_path, SIZE)


def test_the_paper_scale_asks_for_the_public_shapes(folder):
    with pytest.raises(ValueError, match=r"\(160\+, 1001, 128, 128\), found \(3, 5, 8, 8\)"):
        read(folder, FORWARD.scales["paper"])
