"""``--max-memory``: a batch that does not fit is computed in pieces that do, to the same errors but for rounding."""

from __future__ import annotations

import pytest

import pdebench_hss as pb
from pdebench_hss.trials.store import Store

# Wide as a large network's activations, without its arithmetic: four arrays of 5.8 MB for each sample.
WIDE = """
import torch
from torch import nn
from pdebench_hss import ModelSpec, hookimpl

class Wide(nn.Module):
    def __init__(self, task):
        super().__init__()
        self.first, self.last = nn.Conv1d(task.in_channels, 45_000, 1), nn.Conv1d(45_000, task.out_channels, 1)

    def forward(self, x):
        z = self.first(x)
        for _ in range(4):
            z = torch.tanh(z)
        return self.last(z)

class Normed(Wide):
    def __init__(self, task):
        super().__init__(task)
        self.norm = nn.BatchNorm1d(task.in_channels)

    def forward(self, x):
        return super().forward(self.norm(x))

@hookimpl
def pdebench_hss_models():
    return [ModelSpec(name=cls.__name__.lower(), title=cls.__name__, build=cls) for cls in (Wide, Normed)]
"""
MB = 10**6
LIMIT = 190 * MB


def run(folder, models, **options):
    (folder / "wide.py").write_text(WIDE)
    shape = {"tasks": "poisson_1d", "scale": "smoke", "budget": "steps=2", "plugins": [str(folder / "wide.py")]}
    out = folder / "-".join(map(str, ("board", *options.values())))
    pb.run(models=models, out=str(out), **shape, **options)
    return {record.trial.model: record for record in Store(out).all()}


@pytest.mark.cold  # a fork shares memory with what it was made from
@pytest.mark.timeout(200)
def test_a_batch_that_does_not_fit_is_computed_in_pieces_that_do(tmp_path):
    free = run(tmp_path, "wide")["wide"]
    bound = run(tmp_path, "wide,normed,mean", max_memory=LIMIT)
    wide, normed = bound["wide"], bound["normed"]
    assert wide.peak_memory < LIMIT < free.peak_memory
    assert wide.peak_memory < free.peak_memory - 30 * MB
    assert (free.provenance["pieces"]["samples"], wide.provenance["pieces"]["samples"]) == (4, 2)
    assert "for --max-memory: a batch of 4 takes" in wide.provenance["pieces"]["why"]
    assert wide.key == free.key  # the same trial: it may be looked up, or continued, either way
    assert wide.metrics["test_err"] == pytest.approx(free.metrics["test_err"], rel=1e-4)
    assert wide.flops_step == free.flops_step
    assert normed.status == "out_of_memory"  # and not one that would be something else
    assert "can't be computed in pieces: its forward pass changes buffer 'norm.running_" in normed.reason
    assert bound["mean"].status == "ok"
    assert "pieces" not in bound["mean"].provenance  # nobody trained it
    readme = (tmp_path / f"board-{LIMIT}" / "README.md").read_text()
    assert "Batches: in pieces of 2 of 4 samples" in readme


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("4X", "error: --max-memory: '4X' is not a number (examples: 300, 300k, 1.5M)"),
        ("0", "error: --max-memory: must be positive, not 0"),
    ],
)
def test_a_limit_that_is_no_size_is_refused(cli, limit, message):
    done = cli("run", "--models", "mean", "--tasks", "poisson_1d", "--scale", "smoke", "--max-memory", limit)
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_limit_below_what_the_data_take_is_a_row_with_its_reason(tmp_path):
    record = run(tmp_path, "wide", max_memory="10M")["wide"]
    assert record.status == "out_of_memory"
    assert "of --max-memory 10.0 MB: raise it" in record.reason
