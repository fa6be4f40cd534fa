"""Tasks from The Well's files hold what `the_well`'s own `WellDataset` gives for the same window of a trajectory."""

from __future__ import annotations

import shutil

import h5py
import numpy as np
import pytest
from the_well.data import WellDataset
from well_files import write_well

from pdebench_hss.base.errors import PdebenchError
from pdebench_hss.contract.well_task_file import WellTaskFile, well_spec
from pdebench_hss.data.reading import read_whole
from pdebench_hss.data.well_finding import find, sentence
from pdebench_hss.data.well_layout import look
from pdebench_hss.data.well_reading import windows_of

SHAPES = {
    "2D vector field": {"grid": (8, 6), "fields": {"velocity": 1, "tracer": 0}, "boundary": "WALL"},
    "3D scalar": {"grid": (4, 6, 5), "fields": {"density": 0}, "trajectories": (2,), "frames": 5},
    "constant and varying parameters": {
        "grid": (6, 8),
        "fields": {"pressure": 0, "stress": 2},
        "constant_fields": {"speed": True, "mask": False},
        "scalars": {"viscosity": (True, False), "gravity": (False, False), "forcing": (True, True)},
    },
}


@pytest.fixture(params=SHAPES)
def folder(request, tmp_path):
    return write_well(tmp_path, **SHAPES[request.param])


def splits_of(folder, scale="paper", **choice):
    spec = well_spec(WellTaskFile("mine", str(folder), **choice))
    return spec, read_whole(spec, folder, spec.scales[scale], {})


def windows_in_order(spec, folder, split):
    """File, trajectory and first frame of each sample that the reader gives, in its order."""
    size = spec.scales["paper"]
    steps, stride = size.steps if spec.rollout else size.options["frames"], size.options["stride"]
    windows = windows_of(look(folder).files[split], stride=stride, steps=steps, rollout=spec.rollout)
    count = getattr(size, split)
    assert count == len(windows)
    return [windows[int(i)] for i in windows.spread(count, split)]


def theirs(folder, split, file, trajectory, start, frames_in, frames_out, stride=1):
    """The sample of `WellDataset` that begins there."""
    data = WellDataset(
        path=str(folder), well_split_name=split, n_steps_input=frames_in, n_steps_output=frames_out,
        min_dt_stride=stride, max_dt_stride=stride,
    )  # fmt: skip
    number = [str(path) for path in data.files_paths].index(str(file.path))
    before = max(int(data.file_index_offsets[number]), 0)
    return data[before + trajectory * data.n_windows_per_trajectory[number] + start]


def channels_first(fields):
    return np.moveaxis(fields.numpy(), -1, 1)  # (time, *grid, c) -> (time, c, *grid)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(("steps", "stride"), [(4, 1), (2, 2)])
def test_rollouts_are_the_well_s_trajectories(folder, split, steps, stride):
    spec, splits = splits_of(folder, steps=steps, stride=stride)
    inputs, outputs = splits[split]
    assert spec.rollout
    for x, y, window in zip(inputs, outputs, windows_in_order(spec, folder, split), strict=True):
        sample = theirs(folder, split, *window, 1, steps, stride)
        np.testing.assert_array_equal(x, channels_first(sample["input_fields"])[0], strict=True)
        np.testing.assert_array_equal(y, channels_first(sample["output_fields"]), strict=True)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(("history", "stride"), [(1, 1), (2, 1), (3, 2)])
def test_pairs_have_the_newest_frames_first_then_fields_and_scalars_that_are_given(tmp_path, split, history, stride):
    folder = write_well(tmp_path, **SHAPES["constant and varying parameters"])
    given = ("speed", "mask", "viscosity", "gravity", "forcing")
    spec, splits = splits_of(folder, given=given, history=history, stride=stride)
    assert not spec.rollout
    assert spec.evolves
    assert (spec.in_channels, spec.out_channels) == (5 * history + 5, 5)  # a scalar and four components
    inputs, outputs = splits[split]
    for x, y, window in zip(inputs, outputs, windows_in_order(spec, folder, split), strict=True):
        sample = theirs(folder, split, *window, history, 1, stride)
        frames = channels_first(sample["input_fields"])
        np.testing.assert_array_equal(x[: 5 * history], np.concatenate(frames[::-1]), strict=True)
        np.testing.assert_array_equal(y, channels_first(sample["output_fields"])[0], strict=True)
        fields = np.moveaxis(sample["constant_fields"].numpy(), -1, 0)
        constants = dict(zip(("mask", "speed"), fields, strict=True))  # in the order of the file
        scalars = dict(zip(("gravity", "viscosity"), sample["constant_scalars"].numpy(), strict=True))
        scalars["forcing"] = sample["input_scalars"].numpy()[-1, 0]  # at the newest frame
        extra = dict(zip(("mask", "speed", "forcing", "gravity", "viscosity"), x[5 * history :], strict=True))
        for name, field in constants.items():
            np.testing.assert_array_equal(extra[name], field)
        for name, value in scalars.items():
            assert (extra[name] == value).all()


def test_what_is_known_of_a_data_set(tmp_path):
    folder = write_well(tmp_path, **SHAPES["2D vector field"])
    task = WellTaskFile("flow", str(folder), fields=("velocity",), steps=3, history=2)
    assert sentence(task, find(task)) == (
        "flow: made_up of The Well on 8 x 6 points (x wall, y wall); velocity over 3 steps, from 2 frames; "
        "10 train / 10 test"
    )
    spec = well_spec(task)
    assert (spec.dim, spec.in_channels, spec.out_channels, spec.history) == (2, 2, 2, 2)
    assert (spec.periodic, spec.boundary) == (False, "mixed")
    data = WellDataset(path=str(folder), well_split_name="train")
    np.testing.assert_allclose(spec.info("paper").coords, np.moveaxis(data[0]["space_grid"].numpy(), -1, 0), rtol=1e-6)
    assert spec.reads == tuple(f"data/{split}/part_{n}.hdf5" for split in ("train", "test") for n in (0, 1))


def test_coordinates_of_a_periodic_box(tmp_path):
    folder = write_well(tmp_path, (4, 6, 5), frames=3)
    spec = well_spec(WellTaskFile("box", str(folder)))
    assert spec.periodic
    np.testing.assert_allclose(spec.domain, [(0, 1)] * 3, rtol=1e-6)


def test_a_small_scale_takes_samples_from_all_files_and_no_other_frames(tmp_path, monkeypatch):
    folder = write_well(tmp_path, (8,), trajectories=(5, 5, 5, 5), frames=9)
    spec = well_spec(WellTaskFile("mine", str(folder), steps=2))
    assert spec.scales["smoke"].train == 8
    read = []
    original = h5py.Dataset.__getitem__

    def watched(self, place, *more):
        values = original(self, place, *more)
        if self.name == "/t0_fields/density":
            read.append((self.file.filename, place, values.shape))
        return values

    monkeypatch.setattr(h5py.Dataset, "__getitem__", watched)
    read_whole(spec, folder, spec.scales["smoke"], {})
    assert len(read) == 8 + 4  # once per sample
    assert {shape for _, _, shape in read} == {(3, 8)}  # three of nine frames
    assert len({file for file, _, _ in read if "train" in file}) == 4


def test_the_first_samples_are_like_the_rest(tmp_path):
    folder = write_well(tmp_path, (8,), trajectories=(10,) * 4, frames=3)
    spec = well_spec(WellTaskFile("mine", str(folder), steps=2))
    first = [file.path.name for file, _, _ in windows_in_order(spec, folder, "train")[:12]]
    assert len(set(first)) >= 3  # shuffled, and the same each time
    assert first == [file.path.name for file, _, _ in windows_in_order(spec, folder, "train")[:12]]


# --- what can be wrong ---


def complaint(folder, **choice):
    with pytest.raises(PdebenchError) as found:
        splits_of(folder, **choice)
    message = str(found.value)
    assert "\n" not in message
    return message


def test_a_field_that_is_not_there(tmp_path):
    folder = write_well(tmp_path, **SHAPES["constant and varying parameters"])
    assert complaint(folder, fields=("presure",)) == (
        f"{folder}: no field that varies in time 'presure'. Did you mean 'pressure'?  It has: pressure, stress"
    )
    assert "no constant field or scalar 'pressure'." in (found := complaint(folder, given=("pressure",)))
    assert found.endswith("It has: mask, speed, forcing, gravity, viscosity")


def test_a_directory_that_is_none(tmp_path):
    assert complaint(tmp_path / "no") == f"{tmp_path / 'no'}: no such directory"
    (tmp_path / "train").mkdir()
    assert complaint(tmp_path) == (
        f"{tmp_path}: no data/train/*.hdf5 in it, found train; name the directory of one data set of The Well"
    )


def test_a_grid_that_is_not_cartesian(tmp_path):
    folder = write_well(tmp_path, (8, 6), grid_type="spherical")
    path = folder / "data/train/part_0.hdf5"
    assert complaint(folder) == f"{path}: its grid is 'spherical'; only Cartesian data sets of The Well can be read"


def test_points_that_are_not_equispaced(tmp_path):
    folder = write_well(tmp_path, (8, 6))
    with h5py.File(folder / "data/train/part_0.hdf5", "r+") as file:
        file["dimensions/y"][3] += 0.1
    assert "the points of its axis y are not equispaced" in complaint(folder)


def test_a_grid_that_differs_between_trajectories(tmp_path):
    folder = write_well(tmp_path, (8, 6), trajectories=(2,))
    with h5py.File(folder / "data/train/part_0.hdf5", "r+") as file:
        points = file["dimensions/y"][:]
        del file["dimensions/y"]
        file["dimensions/y"] = np.stack([points, 2 * points])
        file["dimensions/y"].attrs.update({"sample_varying": True, "time_varying": False})
    assert "its axis y differs between trajectories; tasks have one grid" in complaint(folder)


def test_files_of_different_grids(tmp_path):
    folder = write_well(tmp_path / "a", (8, 6))
    other = write_well(tmp_path / "b", (8, 4))
    shutil.copy(other / "data/train/part_0.hdf5", folder / "data/train/part_2.hdf5")
    assert "part_2.hdf5: its grid is 8x4, and that of part_0.hdf5 is 8x6; they don't go together" in complaint(folder)


def test_files_of_different_fields(tmp_path):
    folder = write_well(tmp_path / "a", (8, 6))
    other = write_well(tmp_path / "b", (8, 6), fields={"energy": 0})
    shutil.copy(other / "data/test/part_0.hdf5", folder / "data/test/part_2.hdf5")
    assert "part_2.hdf5: its fields are energy, and those of part_0.hdf5 are density" in complaint(folder)


def test_a_field_of_another_shape_than_its_file_says(tmp_path):
    folder = write_well(tmp_path, (8, 6))
    with h5py.File(folder / "data/train/part_1.hdf5", "r+") as file:
        file.attrs["n_trajectories"] = 4
    assert "density has shape (2, 7, 8, 6), expected (4, 7, 8, 6); download it again" in complaint(folder)


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_a_file_that_is_cut_short(tmp_path, keep):
    folder = write_well(tmp_path, (8, 6))
    path = folder / "data/test/part_1.hdf5"
    path.write_bytes(path.read_bytes()[:keep])
    found = complaint(folder)
    assert found.startswith(f"{path}: damaged, or not a file of The Well (")
    assert found.endswith("; download it again")


def test_values_that_are_not_finite(tmp_path):
    folder = write_well(tmp_path, (8, 6), trajectories=(3,))
    with h5py.File(folder / "data/train/part_0.hdf5", "r+") as file:
        file["t0_fields/density"][2, 5, 3, 3] = np.nan
    assert (
        complaint(folder)
        == (f"task 'mine': {folder / 'data/train/part_0.hdf5'}: density is not finite in trajectory 2, frame 5")
        or complaint(folder) == f"{folder / 'data/train/part_0.hdf5'}: density is not finite in trajectory 2, frame 5"
    )


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"steps": 7},
            "trajectories of 7 frames have 6 steps with a stride of 1, and 7 are needed with a history of 1",
        ),
        ({"steps": 2, "history": 3}, "steps must be 3 to 6, its history included; not 2"),
        ({"stride": 7}, "have 0 steps with a stride of 7, and 1 is needed with a history of 1"),
        ({"stride": 0}, "stride must be a whole number of at least 1, not 0"),
        ({"given": ("gravity",), "steps": 2}, "steps are of rollouts, and a task with something given predicts one"),
    ],
)
def test_windows_that_do_not_fit(tmp_path, choice, message):
    folder = write_well(tmp_path, **SHAPES["constant and varying parameters"])
    assert message in complaint(folder, **choice)
