"""Export in The Well's layout, read back by the_well's own WellDataset."""

import h5py
import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_tasks.gray_scott import FORWARD
from the_well.data import WellDataset
from the_well.data.normalization import ZScoreNormalization

from pdebench_hss.base.errors import DataError, UsageError
from pdebench_hss.data.well import export_well

GRID = (8, 6, 10)
N = {"train": 3, "test": 2}


def well_task(dim=2, **options):
    return make_task(grid=GRID[:dim], train=3, test=2, equation="-Lap u = f", params={"beta": 0.25}, **options)


def make_splits(task):
    rng = np.random.default_rng(0)
    steps = (task.size.steps,) if task.rollout else ()
    return {
        split: (
            rng.normal(size=(n, task.in_channels, *task.grid)),
            rng.normal(size=(n, *steps, task.out_channels, *task.grid)),
        )
        for split, n in N.items()
    }


def half_plane(grid):
    return np.indices(grid)[0] < 5


def fields_last(channels):
    """(channels, *grid) as the_well returns it, (*grid, channels), in its precision."""
    return torch.from_numpy(np.moveaxis(channels, 0, -1).astype(np.float32))


@pytest.mark.parametrize("split", N)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_steady_task_gives_inputs_as_constant_fields(tmp_path, dim, split):
    task = well_task(dim, channels=(2, 3))
    splits = make_splits(task)
    export_well(tmp_path, task, splits)
    data = WellDataset(path=str(tmp_path), well_split_name=split)
    assert len(data) == N[split]
    for i, (inputs, outputs) in enumerate(zip(*splits[split])):
        sample = data[i]
        torch.testing.assert_close(sample["constant_fields"], fields_last(inputs), rtol=0, atol=0)
        torch.testing.assert_close(sample["output_fields"][0], fields_last(outputs), rtol=0, atol=0)
        assert sample["input_fields"].abs().max() == 0  # a solution has no earlier state
        np.testing.assert_allclose(np.moveaxis(sample["space_grid"].numpy(), -1, 0), task.coords, rtol=1e-6)
        assert sample["constant_scalars"].tolist() == [0.25]  # beta


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_an_evolving_task_gives_two_frames_and_its_parameters(tmp_path, dim):
    task = well_task(dim, channels=(4, 2), evolves=True, periodic=True)
    splits = make_splits(task)
    export_well(tmp_path, task, splits)
    data = WellDataset(path=str(tmp_path), well_split_name="train")
    for i, (inputs, outputs) in enumerate(zip(*splits["train"])):
        sample = data[i]
        torch.testing.assert_close(sample["input_fields"][0], fields_last(inputs[:2]), rtol=0, atol=0)
        torch.testing.assert_close(sample["constant_fields"], fields_last(inputs[2:]), rtol=0, atol=0)
        torch.testing.assert_close(sample["output_fields"][0], fields_last(outputs), rtol=0, atol=0)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_rollout_is_a_trajectory(tmp_path, dim):
    task = well_task(dim, channels=(2, 2), steps=5, rollout=True)
    splits = make_splits(task)
    export_well(tmp_path, task, splits)
    inputs, outputs = splits["test"]
    whole = WellDataset(path=str(tmp_path), well_split_name="test", full_trajectory_mode=True)
    assert len(whole) == 2
    torch.testing.assert_close(whole[1]["input_fields"][0], fields_last(inputs[1]), rtol=0, atol=0)
    for step in range(5):
        torch.testing.assert_close(whole[1]["output_fields"][step], fields_last(outputs[1, step]), rtol=0, atol=0)
    assert whole[1]["output_time_grid"].tolist() == [1, 2, 3, 4, 5]
    windows = WellDataset(path=str(tmp_path), well_split_name="test")  # one step in, one step out
    assert len(windows) == 2 * 5
    torch.testing.assert_close(windows[2]["input_fields"][0], fields_last(outputs[0, 1]), rtol=0, atol=0)


@pytest.mark.parametrize(("periodic", "code"), [(True, 2), (False, 0)])
def test_boundaries_are_periodic_or_walls(tmp_path, periodic, code):
    task = well_task(2, periodic=periodic)
    export_well(tmp_path, task, make_splits(task))
    sample = WellDataset(path=str(tmp_path), well_split_name="train")[0]
    assert sample["boundary_conditions"].tolist() == [[code, code], [code, code]]


def test_a_mask_is_a_further_constant_field(tmp_path):
    task = well_task(2, mask=half_plane)
    export_well(tmp_path, task, make_splits(task))
    data = WellDataset(path=str(tmp_path), well_split_name="train")
    assert data.metadata.constant_field_names[0] == ["input_0", "mask"]
    np.testing.assert_array_equal(data[1]["constant_fields"][..., 1].numpy() == 1, half_plane(GRID[:2]))


def test_statistics_are_those_of_train_and_normalise_it(tmp_path):
    task = well_task(2, channels=(1, 1))
    splits = {split: (3 + 2 * x, 7 + 5 * y) for split, (x, y) in make_splits(task).items()}
    export_well(tmp_path, task, splits)
    data = WellDataset(
        path=str(tmp_path), well_split_name="train", use_normalization=True, normalization_type=ZScoreNormalization
    )
    samples = [data[i] for i in range(len(data))]
    for key in ("constant_fields", "output_fields"):
        values = torch.stack([sample[key] for sample in samples])
        assert abs(values.mean()) < 1e-5
        assert abs(values.std(unbiased=False) - 1) < 1e-5


def test_a_real_task_goes_through(tmp_path):
    task = FORWARD.info("smoke")
    from pdebench_hss_tasks.gray_scott.samples import generate

    inputs, outputs = generate([1] * 6, task.size, cases=range(6))
    export_well(tmp_path, task, {"train": (inputs, outputs)})
    data = WellDataset(path=str(tmp_path), well_split_name="train")
    assert data.metadata.dataset_name == "gray_scott_forward"
    assert data.metadata.field_names[0] == ["u_0", "u_1"]
    assert data.metadata.constant_field_names[0] == ["input_2", "input_3"]
    torch.testing.assert_close(data[5]["output_fields"][0], fields_last(outputs[5]), rtol=0, atol=0)


def test_the_layout_is_complete(tmp_path):
    """What the format asks for beyond what WellDataset reads today."""
    task = well_task(2, periodic=True)
    path = export_well(tmp_path, task, make_splits(task))[0]
    with h5py.File(path) as file:
        assert file.attrs["simulation_parameters"].tolist() == ["beta"]
        assert file.attrs["beta"] == 0.25
        assert sorted(file["boundary_conditions"]) == ["x_periodic", "y_periodic"]
        for group in ("t0_fields", "t1_fields", "t2_fields"):
            assert sorted(file[group]) == sorted(file[group].attrs["field_names"])
        for field in file["t0_fields"].values():
            assert field.dtype == np.float32
            assert set(field.attrs) == {"dim_varying", "sample_varying", "time_varying"}


def test_what_the_layout_can_not_hold_is_refused(tmp_path):
    skew = well_task(2, coords=lambda grid: np.indices(grid) + 0.1 * np.indices(grid)[::-1])
    with pytest.raises(UsageError, match="not a product of axes"):
        export_well(tmp_path, skew, make_splits(skew))
    task = well_task(2)
    with pytest.raises(UsageError, match="splits are train, valid, test"):
        export_well(tmp_path, task, {"holdout": make_splits(task)["test"]})
    inputs, outputs = make_splits(task)["train"]
    with pytest.raises(DataError, match=r"train outputs: expected \(3, 1, 8, 6\), found \(2, 1, 8, 6\)"):
        export_well(tmp_path, task, {"train": (inputs, outputs[:2])})
    assert not list(tmp_path.rglob("*.hdf5"))


def test_four_axes_are_refused(tmp_path):
    with pytest.raises(UsageError, match="4 axes; The Well's layout has at most 3"):
        export_well(tmp_path, make_task(grid=(4, 4, 4, 4)), {})
