"""A batch in pieces is the whole batch to rounding; how large a piece is follows from sizes alone."""

from __future__ import annotations

import contextlib
import math
import multiprocessing

import numpy as np
import pytest
import torch
from factories.training import GRID, make_network, make_train, same_state, train_once
from hypothesis import given
from hypothesis import strategies as st
from test_loop import countdown
from test_objective import rollout
from test_optimizers import WithOptimizer, lbfgs
from torch import Tensor, nn

from pdebench_hss.base.errors import Interrupted
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.traits import is_closed_form
from pdebench_hss.training import footprint, loop, pieces
from pdebench_hss.training.footprint import Footprint, Line, Peak
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.objective import Objective
from pdebench_hss.training.peers import ProcessGroup
from pdebench_hss.training.splitting import why_not_split
from pdebench_hss.training.warmup import batch_sizes
from pdebench_hss.training.windows import TrainSet, prepare

CPU = torch.device("cpu")
REGISTRY = load_registry()
TASKS = ("heat_1d", "poisson_2d_lshape", "gray_scott_inverse", "poisson_3d")
MB = 2**20


def trained_models() -> list[str]:
    return sorted(
        name
        for name, found in REGISTRY.models.items()
        if not found.spec.training_free and not is_closed_form(found.spec.model_class())
    )


def problem(model: str, task: str, n: int = 6, dtype=torch.float64) -> tuple[nn.Module, TrainSet] | None:
    """A built-in model with random pairs of a task's shape; None if it can't do the task."""
    info, spec = REGISTRY.task(task).spec.info("smoke"), REGISTRY.model(model).spec
    if spec.unsupported(info):
        return None
    torch.manual_seed(0)
    module = spec.make(info, spec.hparams_for(info)).to(dtype).train()
    inputs, outputs = (torch.randn(n, c, *info.grid, dtype=dtype) for c in (info.in_channels, info.out_channels))
    ones = [Affine(np.zeros(c), np.ones(c)) for c in (info.in_channels, info.out_channels)]
    return module, TrainSet(inputs, outputs, Normalizer(*ones), info)


def gradient(module: nn.Module, objective: Objective, train: TrainSet, samples: int | None) -> tuple[Tensor, Tensor]:
    def step(x: Tensor, y: Tensor, weight: float) -> Tensor:
        loss = weight * objective(x, y)
        loss.backward()
        return loss.detach()

    module.zero_grad(set_to_none=True)
    loss = pieces.in_pieces(step, samples, contextlib.nullcontext)(train.inputs, train.outputs, 1.0)
    found = [p.grad for p in module.parameters()]
    return loss, torch.cat([(torch.view_as_real(g) if g.is_complex() else g).flatten() for g in found])


# --- the same step ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", trained_models())
def test_every_built_in_model_in_pieces_has_the_gradient_of_the_whole_batch(model, task):
    if (found := problem(model, task)) is None:
        return
    module, train = found
    objective = Objective(module, train, CPU)
    if reason := why_not_split(objective, train.inputs, train.outputs, CPU):
        assert model == "green_learning" and "random numbers" in reason  # noqa: PT018
        return
    loss, whole = gradient(module, objective, train, None)
    for samples in (1, 4):  # six pieces, and two of three
        part_loss, parts = gradient(module, objective, train, samples)
        assert abs(part_loss - loss) <= 1e-13 * loss
        assert (parts - whole).norm() <= 1e-12 * whole.norm()
    single, train32 = problem(model, task, dtype=torch.float32)
    counts = [loop.count_step_flops(single, train32, 6, piece=piece) for piece in (None, 2, 4)]
    assert counts[0] == counts[1] == counts[2] > 0  # a budget of FLOPs buys as many steps


@given(st.integers(1, 40), st.integers(1, 40))
def test_pieces_cover_the_batch_in_order_and_their_weights_make_its_mean(n, samples):
    seen: list[Tensor] = []

    def step(x, y, weight):
        assert torch.equal(2 * x, y)
        seen.append(x)
        return weight * x.mean()

    x = torch.arange(n, dtype=torch.float64)
    mean = pieces.in_pieces(step, samples, contextlib.nullcontext)(x, 2 * x, 1.0)
    assert torch.equal(torch.cat(seen), x)
    sizes = {len(piece) for piece in seen}
    assert max(sizes) <= samples
    assert max(sizes) - min(sizes) <= 1
    assert sizes == pieces.sizes_in(n, samples)
    assert mean.item() == pytest.approx(x.mean().item())


@pytest.mark.parametrize("detach", [False, True])
def test_windows_of_a_rollout_are_pieces_of_samples_and_not_of_time(detach):
    train = prepare(rollout(), torch.float64, 3)
    torch.manual_seed(0)
    module = nn.Conv1d(train.inputs.shape[1], train.outputs.shape[2], 3, padding=1).double()
    objective = Objective(module, train, CPU, detach=detach)
    _, whole = gradient(module, objective, train, None)
    _, parts = gradient(module, objective, train, 2)
    assert (parts - whole).norm() <= 1e-12 * whole.norm()


# --- the loop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "complex"])
def test_a_training_in_pieces_is_the_training_in_whole_batches(kind):
    """Seven samples in batches of four, clipped: the last batch of an epoch is of another size."""
    whole, parts, ones = (make_network(kind) for _ in range(3))
    expected = train_once(whole)
    for module, piece in ((parts, 3), (ones, 1)):
        run = train_once(module, piece=piece)
        assert np.allclose(run.curve.losses, expected.curve.losses, rtol=1e-5)
        assert (run.spent.steps, run.spent.samples, run.spent.flops) == (
            *(expected.spent.steps, expected.spent.samples, expected.spent.flops),
        )
        for a, b in zip(module.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert same_state(train_in_turns(kind, piece=3), parts)  # and it is repeated to the bit


def train_in_turns(kind, **options) -> nn.Module:
    module = make_network(kind)
    train_once(module, **options)
    return module


def test_a_piece_as_large_as_the_batch_changes_no_bit():
    assert same_state(train_in_turns("plain", piece=4), train_in_turns("plain"))


def test_stopped_it_goes_on_in_the_same_pieces_to_the_same_bits(tmp_path):
    path, module = tmp_path / "state.pt", make_network("plain")
    with pytest.raises(Interrupted):
        train_once(module, checkpoint=path, should_stop=countdown(4), piece=2)
    survivor = make_network("plain")
    train_once(survivor, checkpoint=path, piece=2)
    assert same_state(survivor, train_in_turns("plain", piece=2))


def test_a_line_search_sees_the_whole_set_in_pieces():
    train = make_train()
    expected, run = (
        train_once(WithOptimizer(lbfgs, make_network("plain")), train, Budget("steps", 20), piece=piece)
        for piece in (None, 2)
    )
    assert run.spent.steps == expected.spent.steps
    assert np.allclose(run.curve.losses[:5], expected.curve.losses[:5], rtol=1e-3)


def train_as_peer(number, folder) -> None:
    group, module = ProcessGroup(number, 2, f"file://{folder / 'meeting'}", CPU), make_network("plain")
    with group.together():
        train_once(module, peers=group, piece=1)
    torch.save(module.state_dict(), folder / f"peer_{number}.pt")


def test_two_processes_add_up_the_pieces_of_their_shares_and_share_gradients_once(tmp_path):
    """Shares of two samples in pieces of one; a last batch of three, so one share is a single piece."""
    peers = [multiprocessing.get_context("spawn").Process(target=train_as_peer, args=(n, tmp_path)) for n in range(2)]
    for peer in peers:
        peer.start()
    for peer in peers:
        peer.join(120)
    first, second = (torch.load(tmp_path / f"peer_{number}.pt", weights_only=True) for number in range(2))
    alone = train_in_turns("plain").state_dict()
    for name, weight in alone.items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], weight, rtol=1e-4, atol=1e-6)


def test_sizes_to_warm_up_are_those_of_the_pieces():
    assert batch_sizes(100, 32) == [32, 4]
    assert batch_sizes(100, 32, piece=5) == [5, 4]
    assert batch_sizes(100, 32, processes=2, piece=8) == [8, 2]


# --- the rule --------------------------------------------------------------------------------------------------------


def takes(sample: float, *, peak=None, flops=Line(0.0, 1.0), fixed=0.0) -> Footprint:  # noqa: B008
    return Footprint(Line(fixed, sample), Peak((Line(fixed, peak or sample),)), flops)


@pytest.mark.parametrize(
    ("footprint", "batch", "weights", "samples"),
    [
        (takes(MB), 96, 0, None),  # a batch that is not large stays whole
        (takes(MB), 97, 0, 32),  # 48 fit, and 32 is a power of two
        (takes(MB), 97, 16 * MB, 64),  # large weights are worth large pieces
        (takes(100 * MB), 16, 0, 2),  # never one sample for the cache
        (takes(MB, flops=Line(2.0, 1.0)), 256, 0, 32),  # a sixteenth of 32 may be computed again
        (takes(MB, flops=Line(2.1, 1.0)), 256, 0, None),  # more may not
        (takes(MB, flops=Line(0.0, 0.0)), 256, 0, 32),  # nothing that is counted
        (takes(0.0), 256, 0, None),
        (takes(0.01 * MB, fixed=1000 * MB), 256, 0, None),  # pieces would not make that part smaller
    ],
)
def test_the_size_of_a_piece_for_the_cache(footprint, batch, weights, samples):
    assert pieces.size_of(footprint, batch, weights, CPU, None)[0] == samples


@pytest.mark.parametrize(
    ("room", "samples"),
    [(64 * MB, None), (63 * MB, 16), (15 * MB, 4), (4 * MB, 2)],
)
def test_the_size_of_a_piece_for_a_limit_of_memory(room, samples):
    """A batch of 32 that keeps 16 MB and takes 64 at most: no more than a limit asks for is split."""
    found, why = pieces.size_of(takes(0.5 * MB, peak=2 * MB), 32, 0, CPU, room)
    assert found == samples
    assert (samples is None) or "for --max-memory: a batch of 32 takes 67.1 MB" in why
    assert pieces.size_of(takes(0.5 * MB, peak=2 * MB), 32, 0, torch.device("cuda"), room)[0] == samples


def test_no_piece_fits_says_what_the_smallest_takes():
    with pytest.raises(MemoryError, match=r"a batch of 2 takes 4.2 MB and there is room for 4.0 MB; raise"):
        pieces.size_of(takes(MB, peak=2 * MB), 32, 0, CPU, 4_000_000)


def test_both_limits_hold_at_once():
    large = takes(MB, peak=2 * MB)
    assert [pieces.size_of(large, 256, 0, CPU, room)[0] for room in (None, 64 * MB, 63 * MB)] == [32, 32, 16]


class Twice(nn.Module):
    """Keeps the result of each of two tanh, 4 width bytes, and little besides."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(GRID[0], width), nn.Linear(width, GRID[0])

    def forward(self, x):
        return self.last(torch.tanh(torch.tanh(self.first(x))))


def test_a_footprint_is_what_the_arrays_take():
    train = make_train()
    objective = Objective(Twice(1024), train, CPU)
    found = footprint.measure(objective, train.inputs[:4], train.outputs[:4])
    assert found.kept.each == pytest.approx(2 * 4 * 1024, rel=0.01)
    assert 3 * 4 * 1024 <= found.peak.at(1000) / 1000 <= 5 * 4 * 1024  # a gradient or two of that size besides
    products = 2 * GRID[0] * 1024
    assert found.flops == Line(0.0, 2 * products + 3 * products)  # no gradient for the input
    assert all(p.grad is None for p in objective.module.parameters())


def test_a_peak_is_the_largest_of_its_moments_at_every_size():
    peak = Peak((Line(10.0, 1.0), Line(0.0, 3.0)))
    assert [peak.at(n) for n in (1, 5, 10)] == [11, 15, 30]
    assert [peak.most(room) for room in (9, 13, 30)] == [0, 3, 10]
    assert Peak((Line(10.0, 0.0),)).most(10) == math.inf


def test_a_footprint_repeats_itself_to_the_byte():
    module, train = problem("fno", "gray_scott_inverse", dtype=torch.float32)
    objective = Objective(module, train, CPU)
    footprint.kept_bytes(objective, train.inputs[:2], train.outputs[:2])
    one, other = (footprint.measure(objective, train.inputs[:4], train.outputs[:4]) for _ in range(2))
    assert one == other


# --- who stays whole -------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_cache(monkeypatch):
    """In which two samples of a toy fit."""
    monkeypatch.setattr(pieces, "CACHE", 800)
    monkeypatch.setattr(pieces, "LARGE", 1000)


def choose(module: nn.Module, batch: int = 16, **options) -> pieces.Pieces:
    return pieces.choose(Objective(module, make_train(batch), CPU), batch, CPU, **options)


class Influenced(nn.Module):
    """Each sample sees the mean of its batch, and no buffer tells."""

    def __init__(self) -> None:
        super().__init__()
        self.net = make_network("plain")

    def forward(self, x):
        return self.net(x - x.mean(0))


class Trunk(nn.Module):
    """Most of the work is the same for every sample, and done once for all."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.trunk = nn.Linear(GRID[0], GRID[0]), nn.Linear(GRID[0], GRID[0])

    def forward(self, x):
        basis = self.trunk(torch.ones(100, GRID[0])).mean(0)
        return torch.tanh(torch.tanh(self.branch(x))) * basis


class OwnLoss(Twice):
    def loss(self, prediction, target, batch):
        return (prediction - target).square().mean()


class Declared(OwnLoss):
    pieces = True


class WronglyDeclared(Declared):
    def loss(self, prediction, target, batch):
        return (prediction - target).square().mean().sqrt()


class Never(Twice):
    pieces = False


@pytest.mark.parametrize(
    ("make", "samples", "why"),
    [
        (Twice, 8, "for the cache: a sample keeps"),
        (lambda: make_network("dropout"), None, "draws random numbers"),
        (lambda: make_network("batchnorm"), None, "changes buffer '1.running_mean'"),
        (Influenced, None, "samples of a batch influence each other"),
        (Trunk, None, "% of the arithmetic of 8 samples does not depend on how many there are"),
        (OwnLoss, None, "own loss, and does not say pieces = True"),
        (Declared, 8, "for the cache"),
        (WronglyDeclared, None, "loss is not a mean over the samples"),
        (Never, None, "the model says pieces = False"),
    ],
)
def test_a_batch_is_split_only_where_its_parts_add_up_to_it(tiny_cache, make, samples, why):
    torch.manual_seed(3)
    module = make()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    random = torch.get_rng_state()
    found = choose(module)
    assert (found.samples, why in found.why) == (samples, True), found
    assert found == choose(module)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())


def test_only_limits_split_on_a_gpu_and_few_samples_are_not_split(tiny_cache):
    assert choose(Twice(), batch=3).why == "whole: 3 samples are too few to split"
    objective = Objective(Twice(), make_train(), CPU)
    assert pieces.choose(objective, 64, torch.device("cuda")).why == "whole: a cuda has no cache to fit"


def test_a_limit_is_no_reason_to_split_what_can_not_be_split():
    assert choose(make_network("batchnorm"), room=10**6).samples is None  # it fits
    with pytest.raises(MemoryError, match="can't be computed in pieces: its forward pass changes buffer"):
        choose(make_network("batchnorm"), room=2000)
    with pytest.raises(MemoryError, match="can't be computed in pieces: the model says pieces = False"):
        choose(Never(), room=2000)


def test_a_limit_that_data_and_weights_exceed_says_so():
    objective = Objective(Twice(), make_train(), CPU)
    with pytest.raises(MemoryError, match=r"take 100.7 MB of --max-memory 50.0 MB: raise it"):
        pieces.room_in(50_000_000, objective, 0, CPU)
