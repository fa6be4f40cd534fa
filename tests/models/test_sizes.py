"""Default sizes between smoke and paper: all models of a table are about equally large, or docs/models.md says why."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from pdebench_hss_models.sizes import AIM, nearest

from pdebench_hss.boards.text import size_note
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.training.parameters import count_on_meta

MODELS = ("deeponet", "factformer", "fno", "green_learning", "neural_hss", "resnet")
TOO_DEAR = {("green_learning", 2)}  # of this dimension
DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


def counts(task, scale: str) -> dict[str, int]:
    """At the task's small size, unless it has this one."""
    info = task.info(scale if scale in task.scales else "small")
    able = [m for name in MODELS if (m := load_registry().model(name).spec).unsupported(info) is None]
    return {m.name: count_on_meta(m, info, m.hparams(info, scale)).real for m in able}


@pytest.mark.parametrize("scale", sorted(AIM))
def test_all_models_of_a_table_are_within_a_factor_of_three(scale):
    for task in (found.spec for found in load_registry().tasks.values()):
        found = counts(task, scale)
        alike = [count for name, count in found.items() if (name, task.dim) not in TOO_DEAR]
        assert max(alike) <= 3 * min(alike), (task.name, found)


def test_a_size_that_is_too_dear_is_explained():
    section = re.split(r"^## ", DOCUMENT.read_text(), flags=re.M)
    (sizes,) = (text for text in section if text.startswith("Sizes\n"))
    for name, dim in TOO_DEAR:
        assert f"`{name}` in {dim}D" in sizes


def test_the_nearest_size_is_nearest_by_ratio():
    assert nearest(lambda n: n**2, 100) == 10
    assert nearest(lambda n: n**2, 109) == 10  # 109/100 < 121/109
    assert nearest(lambda n: n**2, 112) == 11  # 112/100 > 121/112
    assert nearest(lambda n: n**2, 1000, step=8) == 32
    assert nearest(lambda n: n**2, 1000, step=8, largest=16) == 16
    assert nearest(lambda n: 5 + n, 1) == 1


def test_a_table_of_unequal_sizes_has_a_footnote():
    rows = {"model": ["a", "b", "c", "mean"], "training_free": [False, False, False, True]}
    even = pd.DataFrame({**rows, "params_real": [50_000, 80_000, 100_000, 64]})
    assert size_note(even) == ""
    uneven = pd.DataFrame({**rows, "params_real": [1_366, 80_000, 100_000, 64]})
    assert size_note(uneven) == "Sizes differ by more than a factor of three: a 1.37K, median 80K parameters."
