"""The task contract passes what is built in and catches the mistakes that make a benchmark lie."""

from __future__ import annotations

import numpy as np
import pytest

from pdebench_hss import Recipe, Scale, TaskSpec
from pdebench_hss.base.errors import ContractError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.testing import tasks as contract


def fields(seeds, size, channels: int = 1) -> np.ndarray:
    return np.stack([np.random.default_rng(seed).standard_normal((channels, *size.grid)) for seed in seeds])


def good(seeds, size):
    x = fields(seeds, size)
    return x, np.roll(x, 1, axis=-1)


def shift(inputs, level, size):
    return np.roll(inputs, 1, axis=-1) * (1 + 0.1 * level)


def depends_on_the_batch(seeds, size):
    x = fields(seeds, size)
    return x, x - x.mean(axis=0)


def depends_on_the_order(seeds, size):
    rng = np.random.default_rng(sum(seeds) % 2**32)
    x = rng.standard_normal((len(seeds), 1, *size.grid))
    return x, x


def global_random_numbers(seeds, size):
    x = fields(seeds, size)
    return x, x + np.random.standard_normal(x.shape)  # noqa: NPY002


def ignores_the_seed(seeds, size):
    x = fields([0 for _ in seeds], size)
    return x, x


def constant_answer(seeds, size):
    x = fields(seeds, size)
    return x, np.ones_like(x)


def wrong_shape(seeds, size):
    x = fields(seeds, size)
    return x, x[..., :-1]


def not_finite(seeds, size):
    x = fields(seeds, size)
    return x, np.where(x > 1, np.nan, x)


def whole_numbers(seeds, size):
    x = fields(seeds, size)
    return x, np.rint(x).astype(int)


def squares(seeds, size):
    x = fields(seeds, size)
    return x, x**2


def square(inputs, level, size):
    return inputs**2


def task(generate, **more: object) -> TaskSpec:
    scale = Scale((16,), train=8, test=4, recipe=Recipe(batch=4, steps=4))
    settings = {"dim": 1, "in_channels": 1, "out_channels": 1, "linear": True, "scales": {"smoke": scale}, **more}
    return TaskSpec(name="subject", title="", equation="", generate=generate, **settings)


def broken_promises(spec: TaskSpec) -> set[str]:
    promises = [*contract.PROMISES]
    if spec.coarse:
        promises += [contract.coarse_solver_solves_the_same_problem, contract.linear_means_linear]
    broken = set()
    for promise in promises:
        try:
            contract.TaskCase(spec, promise).run()
        except ContractError:
            broken.add(promise.__name__)
    return broken


def test_a_good_task_keeps_every_promise():
    assert broken_promises(task(good, coarse=shift, coarse_levels=2)) == set()


@pytest.mark.parametrize(
    ("spec", "promise"),
    [
        (task(depends_on_the_batch), "a_sample_depends_on_its_seed_alone"),
        (task(depends_on_the_order), "a_sample_depends_on_its_seed_alone"),
        (task(global_random_numbers), "nothing_but_the_seeds_is_random"),
        (task(ignores_the_seed), "no_two_samples_are_the_same"),
        (task(constant_answer), "there_is_something_to_learn"),
        (task(wrong_shape), "samples_have_the_right_shape"),
        (task(not_finite), "samples_have_the_right_shape"),
        (task(whole_numbers), "samples_have_the_right_shape"),
        (task(good, coords=lambda grid: np.zeros(grid)), "grid_and_mask_fit_the_task"),
        (task(good, mask=lambda grid: np.zeros(grid, bool)), "grid_and_mask_fit_the_task"),
        (task(good, coarse=square, coarse_levels=1), "coarse_solver_solves_the_same_problem"),
        (task(squares, coarse=square, coarse_levels=1), "linear_means_linear"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value.generate, "__name__", ""),
)
def test_a_mistake_is_caught_by_the_promise_it_breaks(spec, promise):
    assert promise in broken_promises(spec)


@pytest.mark.parametrize("name", sorted(load_registry().tasks))
def test_every_built_in_task_keeps_the_contract(name):
    for case in contract.task_cases(name):
        case.run()


def test_the_command_checks_tasks_too(cli, toys):
    done = cli("check", "toy,toy_nan", "--plugin", toys)
    assert done.code == 1
    assert "✓ toy: 6 of 6 promises kept" in done.out
    assert "✗ toy_nan: samples_have_the_right_shape: outputs are not finite everywhere" in done.out
