"""A data set of The Well on the board without code: ``data add-well`` and task files."""

from __future__ import annotations

import h5py
import pytest
from well_files import write_well

import pdebench_hss
from pdebench_hss.base.errors import PdebenchError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.store import Store

SCALARS = {"Reynolds": (True, False)}


@pytest.fixture
def well(tmp_path):
    return write_well(tmp_path / "shear", (8, 12), fields={"velocity": 1, "tracer": 0}, scalars=SCALARS, frames=6)


@pytest.mark.cold  # a fork has the tasks that were there when it was made
def test_a_data_set_is_a_task_like_any_other(cli, well, tmp_path):
    done = cli("data", "add-well", "shear", str(well), "--fields", "velocity", "--history", "2", "--steps", "4")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "shear: made_up of The Well on 8 x 12 points (x periodic, y periodic); velocity over 4 steps, from 2 frames; "
        "5 train / 5 test",
        "run it:  pdebench-hss run --models all --tasks shear",
    ]
    for command in (("list", "tasks"), ("show", "shear")):
        assert "shear" in cli(*command).out
    board = tmp_path / "board"
    pdebench_hss.run(models="resnet,persistence", tasks="shear", scale="smoke", out=str(board))
    assert {record.trial.model: record.status for record in Store(board).all()} == {"resnet": "ok", "persistence": "ok"}
    again = cli("data", "add-well", "shear", str(well))
    assert (again.code, "'shear' was added before; to replace it:" in again.err) == (2, True)
    assert cli("data", "remove", "shear", "--yes").code == 0
    assert "shear" not in load_registry().tasks


def test_pairs_with_parameters_from_a_task_file(cli, well, tmp_path):
    file = tmp_path / "step.yaml"
    file.write_text("name: shear_step\nwell: shear\ngiven: Reynolds\nhistory: 2\n")
    board = tmp_path / "board"
    done = cli(
        "run", "--task-file", str(file), "--models", "mean,persistence", "--scale", "smoke", "--out", str(board),
        cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "the next tracer, velocity from 2 frames, given Reynolds; 20 train / 20 test" in done.err
    spec = load_registry([str(file)]).task("shear_step").spec
    assert (spec.in_channels, spec.out_channels, spec.scales["paper"].train) == (2 * 3 + 1, 3, 20)
    assert {record.status for record in Store(board).all()} == {"ok"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("well: shear\n", "name is missing"),
        ("name: a\nwell: shear\nfeilds: velocity\n", "unknown key 'feilds'. Did you mean 'fields'?"),
        ("name: a\nwell: shear\nfields: 3\n", "fields must be a name or a list of names, not 3"),
        ("name: a\nwell: shear\nstride: none\n", "stride must be a whole number of at least 1, not 'none'"),
        ("name: a\nwell: [shear]\n", "well must be text, not ['shear']"),
        ("name: A\nwell: shear\n", "name 'A': lower-case letters, digits and _"),
    ],
)
def test_task_files_that_say_something_else(well, tmp_path, content, message):
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    with pytest.raises(PdebenchError, match=r"task file .*bad\.yaml: ") as found:
        load_registry([str(file)], strict=True)
    assert message in str(found.value)
    assert "\n" not in str(found.value)


def test_errors_are_one_line_and_code_2(cli, well, tmp_path):
    for arguments, message in (
        (("nowhere",), "nowhere: no such directory"),
        ((str(well), "--fields", "vorticity"), "no field that varies in time 'vorticity'."),
        ((str(well), "--given", "velocity"), "It has: Reynolds"),
        ((str(well), "--steps", "9"), "have 5 steps with a stride of 1, and 9 are needed"),
    ):
        done = cli("data", "add-well", "mine", *arguments)
        assert (done.code, message in done.err, len(done.err.splitlines())) == (2, True, 1), done.err


def test_files_that_are_damaged_or_not_finite_when_they_are_read(cli, well, tmp_path):
    assert cli("data", "add-well", "mine", str(well), "--steps", "5").code == 0
    path = well / "data/train/part_0.hdf5"
    with h5py.File(path, "r+") as file:
        file["t0_fields/tracer"][1, 2, 0, 0] = float("inf")
    done = cli("data", "generate", "--tasks", "mine", "--scale", "smoke")
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert f"{path}: tracer is not finite in trajectory 1, frame 2" in done.err
    path.write_bytes(path.read_bytes()[:5000])
    done = cli("data", "generate", "--tasks", "mine", "--scale", "smoke")
    assert done.code == 2
    assert f"{path}: damaged, or not a file of The Well" in done.err
