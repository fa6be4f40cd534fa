"""Which training samples are held out by ``--val``: a share of train, never of test.

They are drawn by task, data seed and seed alone, so every model has the same ones. Samples of one group (several cases
of one start) are held out together, as they are never split between train and test.
"""

from __future__ import annotations

import re

import numpy as np

from ..base.errors import UsageError
from ..base.hashing import seed_from

_SHARE = re.compile(r"(?P<percent>\d+(\.\d+)?)\s*%|(?P<count>\d+)")


def parse_share(text: str | int) -> tuple[float, int]:
    """``10%`` as (0.1, 0), ``16`` as (0, 16)."""
    match = _SHARE.fullmatch(str(text).strip())
    if not match:
        raise UsageError(f"--val {text}: write a share of the training samples (10%) or a number of them (16)")
    share, count = float(match["percent"] or 0.0) / 100, int(match["count"] or 0)
    if not (0 < share < 1 or count > 0):
        raise UsageError(f"--val {text}: at least one training sample, and not all of them")
    return share, count


def held_out_count(text: str | int, n_train: int, cases: int, task: str) -> int:
    """How many of ``n_train`` samples are held out: whole groups of ``cases``, at least one of them."""
    share, count = parse_share(text)
    groups = max(1, round(share * n_train / cases)) if share else -(-count // cases)
    held = groups * cases
    if held >= n_train:
        group = f" (in groups of {cases})" if cases > 1 else ""
        raise UsageError(
            f"--val {text}: {held} of {n_train} training samples of task {task!r} would be held out{group}, "
            "none is left to train on"
        )
    return held


def held_out(n: int, count: int, cases: int, task: str, data_seed: int, seed: int) -> np.ndarray:
    """True for the samples among the first ``n`` of train that are held out."""
    random = np.random.default_rng(seed_from("val", task, data_seed, seed))
    chosen = random.permutation(n // cases)[: count // cases]  # of whole groups
    return np.isin(np.arange(n) // cases, chosen)
