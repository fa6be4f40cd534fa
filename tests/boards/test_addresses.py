"""Addresses of boards and cells: made from what they are, so that they stay."""

from __future__ import annotations

import pandas as pd
import pytest

from pdebench_hss.boards.addresses import board_address, cell_address, cell_path

ROW = {
    **{"task": "heat_1d", "model": "fno", "scale": "small", "budget": "steps=400", "n_train": 64},
    **{"params_target": None, "device": "cpu", "data_id": "abc", "test_err_mean": 0.1},
}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, "heat_1d/fno/small/steps=400/n=64"),
        ({"data_id": "other", "test_err_mean": 0.2}, "heat_1d/fno/small/steps=400/n=64"),
        ({"params_target": 3e5}, "heat_1d/fno/small/steps=400/n=64/params=300000"),
        ({"device": "cuda", "n_train": 64.0}, "heat_1d/fno/small/steps=400/n=64/cuda"),
        ({"data_seed": 7, "data_id": "abc+val20"}, "heat_1d/fno/small/steps=400/n=64/data_seed=7/val=20"),
        ({"data_seed": ""}, "heat_1d/fno/small/steps=400/n=64"),
        ({"model": "net[kind=a/b]"}, "heat_1d/net[kind=a%2Fb]/small/steps=400/n=64"),
    ],
)
def test_a_cell_is_named_by_what_was_asked_for(changes, path):
    row = {**ROW, **changes}
    assert cell_path(row) == cell_path(pd.Series(row)) == path


def test_an_address_can_be_written_anywhere():
    row = {**ROW, "model": "net[a=1, b=é]"}
    expected = "boards/small-cpu/#cell=heat_1d/net%5Ba=1,%20b=%C3%A9%5D/small/steps=400/n=64"
    assert cell_address("small-cpu", row) == expected


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("small-cpu", "boards/small-cpu/"),
        ("studies/timing-small", "boards/studies/timing-small/"),
        ("submissions/unet/board", "boards/submissions/unet/"),
        ("board", "boards/board/"),
    ],
)
def test_a_board_is_named_by_its_path(path, address):
    assert board_address(path) == address
