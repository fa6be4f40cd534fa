"""`data import` and `data export` as typed: public files in, files for another project's reader out."""

from __future__ import annotations

import h5py
import numpy as np
import pandas as pd
import pytest
from pdebench_hss_tasks.gray_scott.samples import PATTERNS
from the_well.data import WellDataset

STARTS, SNAPSHOTS, POINTS = 2, 3, 16  # what scale smoke needs: two starts per split, times 0, 10 and 20

IMPORT = ("data", "import", "--tasks", "gray_scott_*", "--data-dir", "public", "--scale", "smoke")
EXPORT = ("data", "export", "gray_scott_forward", "--layout", "well", "--scale", "smoke", "--out", "exported")


@pytest.fixture
def public(tmp_path):
    """A folder of files in The Well's layout."""
    for number, split in enumerate(("train", "test")):
        folder = tmp_path / "public" / "data" / split
        folder.mkdir(parents=True)
        for pattern, (f, k) in PATTERNS.items():
            rng = np.random.default_rng([number, *map(ord, pattern)])
            with h5py.File(folder / f"gray_scott_reaction_diffusion_{pattern}_F_{f:g}_k_{k:g}.hdf5", "w") as file:
                file["scalars/F"], file["scalars/k"] = f, k
                for name in "AB":
                    file[f"t0_fields/{name}"] = rng.random((STARTS, SNAPSHOTS, POINTS, POINTS), np.float32)
    return tmp_path / "public"


def test_imported_files_are_listed_verified_and_run(cli, public, tmp_path):
    done = cli(*IMPORT)
    assert done.code == 0, done.err
    assert done.out.count("gray_scott") == 1, "forward and inverse share one dataset"
    assert "gray_scott" in cli("data", "list").out
    assert "1 datasets, 0 corrupt" in cli("data", "verify").out

    run = ("run", "--models", "mean", "--tasks", "gray_scott_inverse", "--scale", "smoke", "--out")
    ours, theirs = cli(*run, "ours"), cli(*run, "theirs", "--data-dir", "public")
    assert ours.code == theirs.code == 0, theirs.err
    hashes = [pd.read_csv(tmp_path / board / "leaderboard.csv").data_hash.item() for board in ("ours", "theirs")]
    assert hashes[0] != hashes[1], "imported data are other data, and say so"


def test_a_file_cut_short_is_named(cli, public):
    victim = next((public / "data" / "test").glob("*maze*"))
    victim.write_bytes(victim.read_bytes()[:-500])
    done = cli(*IMPORT)
    assert done.code != 0
    assert done.err.startswith("error: ")
    for word in (victim.name, "expected a whole HDF5 file"):
        assert word in done.err
    assert "Traceback" not in done.err
    assert "0 datasets" in cli("data", "verify").out


def test_a_number_that_is_none_is_refused(cli, public):
    victim = next((public / "data" / "test").glob("*maze*"))
    with h5py.File(victim, "r+") as file:
        file["t0_fields/A"][0, 0, 0, 0] = np.nan
    done = cli(*IMPORT)
    assert done.code == 1
    assert "has non-finite inputs (stored as float32); look at the files in public" in done.err
    assert done.err.count("\n") == 1


def test_a_folder_of_something_else(cli, tmp_path):
    (tmp_path / "public").mkdir()
    empty = cli(*IMPORT)
    assert empty.code == 2
    assert empty.err.startswith("error: --data-dir public: no readable files in it")
    assert empty.err.count("\n") == 1
    (tmp_path / "public" / "holiday.jpg").write_bytes(b"not data")
    done = cli(*IMPORT)
    assert done.code != 0
    assert "no folder of gray_scott_reaction_diffusion found" in done.err


def test_a_task_without_public_files_says_so(cli, public):
    done = cli("data", "import", "--tasks", "poisson_1d", "--data-dir", "public", "--scale", "smoke")
    assert done.code == 2
    assert "poisson_1d" in done.err


def test_exported_files_are_read_by_the_wells_own_reader(cli, tmp_path):
    done = cli(*EXPORT)
    assert done.code == 0, done.err
    assert done.out.count("wrote ") >= 2
    data = WellDataset(path=str(tmp_path / "exported"), well_split_name="train", n_steps_input=1, n_steps_output=1)
    assert len(data) == 12
    assert data[0]["input_fields"].shape[1:3] == (POINTS, POINTS)

    again = cli(*EXPORT)
    assert again.code == 2
    assert "exported is not empty; name a new directory" in again.err
    other = cli(*EXPORT[:4], "pdebench", *EXPORT[5:])
    assert other.code == 2
    assert "no layout 'pdebench'; layouts: well" in other.err
