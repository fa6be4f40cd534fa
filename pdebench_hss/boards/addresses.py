"""Addresses: where a board and each of its cells are on a site, made from what they are and from nothing else.

    boards/small-cpu/                                            a board, by its path below the folder of boards
    boards/submissions/unet/                                     a submission's, without the name of the folder inside
    boards/small-cpu/#cell=my_task/my_model/small/steps=400/n=64  a cell: task, model, scale, budget, train size

A size, a device, another draw of the data or held-out samples that were asked for follow (``params=300000``, ``cuda``,
``data_seed=7``, ``val=20``). Neither other rows nor results are part of an address, so it stays when rows are added and
when the cell is run again, on newer data too. An address may be cut short at a slash: it then names all cells below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pandas as pd

from .submissions import BOARD

FOLDER = "boards"
USUAL_DEVICE = "cpu"


def board_address(path: str) -> str:
    """The folder of a board's page, of its path below a folder of boards."""
    parts = path.split("/")
    if parts[0] == "submissions" and parts[-1] == BOARD:
        parts.pop()
    return "/".join([FOLDER, *(quote(part) for part in parts), ""])


def cell_path(row: Mapping[str, Any] | pd.Series) -> str:
    """What follows ``#cell=``, of a row of a leaderboard; as text, to be quoted in an address."""
    parts = [str(row["task"]), str(row["model"]), str(row["scale"]), str(row["budget"]), f"n={int(row['n_train'])}"]
    if not pd.isna(row["params_target"]):
        parts.append(f"params={int(row['params_target'])}")
    if row["device"] != USUAL_DEVICE:
        parts.append(str(row["device"]))
    if data_seed := row.get("data_seed"):
        parts.append(f"data_seed={data_seed}")
    if held_out := str(row["data_id"]).partition("+val")[2]:
        parts.append(f"val={held_out}")
    return "/".join(part.replace("/", "%2F") for part in parts)  # a slash inside of a name ends nothing


def cell_address(board: str, row: Mapping[str, Any] | pd.Series) -> str:
    return f"{board_address(board)}#cell={quote(cell_path(row), safe='/=,')}"
