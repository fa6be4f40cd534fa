"""What every steady linear task promises: shapes, seeds, coarse solver, recorded moments, the paper's sizes."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks import advection_diffusion, helmholtz, poisson

from pdebench_hss.base.references import call_target
from pdebench_hss.contract.task import TaskSpec
from pdebench_hss.data.cache import sample_seeds

TASKS = {spec.name: spec for room in (poisson, helmholtz, advection_diffusion) for spec in room.pdebench_hss_tasks()}
every_task = pytest.mark.parametrize("spec", TASKS.values(), ids=TASKS)

# Of f and u from seeds 100..103 at scale smoke: mean and standard deviation of f, the same of u, greatest |u|.
# A change here is a change of the data: raise the task's data_version with it.
MOMENTS = {
    "poisson_1d": (0.0, 1.417114944, 0.0, 1.199614745e-02, 2.234745344e-02),
    "poisson_1d_neumann": (0.0, 1.417114944, 3.970106341e-03, 8.538846275e-02, 1.627816906e-01),
    "poisson_1d_grf": (1.961866923e-02, 1.105553143, -5.861701156e-04, 2.348385025e-02, 4.202974215e-02),
    "advection_diffusion_1d": (1.961866923e-02, 1.105553143, -5.438219261e-05, 1.274732877e-02, 2.715986131e-02),
    "poisson_2d": (0.0, 1.554901825, 0.0, 5.106342650e-03, 1.620419301e-02),
    "poisson_2d_mixed": (0.0, 1.519925406, 0.0, 5.279436825e-03, 1.636518923e-02),
    "poisson_2d_lshape": (-1.168860595e-01, 1.341501924, -8.152163102e-04, 4.346432308e-03, 1.620419301e-02),
    "poisson_2d_grf": (1.729253998e-02, 1.020866007, 4.229027518e-06, 8.971950059e-03, 2.593579491e-02),
    "poisson_3d": (5.582949949e-02, 5.931830443, 7.987285407e-05, 5.846254408e-03, 6.431055814e-02),
    "helmholtz_2d": (0.0, 1.554901825, 0.0, 3.932844932e-04, 2.498652294e-03),
}

# grid, solve, train, test, (epochs or steps), batch, lr, lr_min, weight decay: the paper's text and tables.
PAPER = {
    "poisson_1d": ((256,), 1024, 1000, 1000, "epochs=500", 256, 1e-3, 1e-5, 1e-3),
    "poisson_1d_neumann": ((256,), 1024, 1000, 1000, "epochs=1000", 256, 1e-3, 1e-5, 1e-3),
    "poisson_2d": ((64, 64), 128, 4200, 800, "epochs=500", 128, 8e-4, 1e-5, 1e-5),
    "poisson_2d_mixed": ((64, 64), 128, 2250, 250, "epochs=500", 128, 8e-4, 1e-5, 1e-5),
    "poisson_2d_lshape": ((64, 64), 128, 2250, 250, "epochs=500", 128, 8e-4, 1e-5, 1e-5),
    "poisson_3d": ((128,) * 3, 128, 256, 200, "steps=16000", 16, 5e-3, 1e-3, 0.0),
    "helmholtz_2d": ((64, 64), 128, 2250, 250, "epochs=1000", 64, 8e-4, 1e-5, 1e-5),
}


def generate(spec: TaskSpec, scale: str, seeds: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return call_target(spec.generate)(seeds, spec.scales[scale], **spec.params)


@every_task
def test_shapes_are_the_contract_and_everything_is_finite(spec: TaskSpec) -> None:
    for scale in ("smoke", "small"):
        for fields in generate(spec, scale, [1, 2, 3]):
            assert fields.shape == (3, 1, *spec.scales[scale].grid)
            assert np.isfinite(fields).all()


@every_task
def test_a_sample_is_the_same_bit_by_bit_whatever_is_generated_around_it(spec: TaskSpec) -> None:
    seeds = [2**63 + 11, 5, 0, 77, 5]
    together = generate(spec, "small", seeds)
    for i, seed in enumerate(seeds):
        for fields, alone in zip(together, generate(spec, "small", [seed])):
            np.testing.assert_array_equal(fields[i], alone[0])
    for fields in together:
        np.testing.assert_array_equal(fields[1], fields[4])
        assert not np.array_equal(fields[0], fields[1])


@every_task
def test_train_and_test_are_different_samples(spec: TaskSpec) -> None:
    size = spec.scales["small"]
    train, test = (sample_seeds(spec, split, 0, getattr(size, split)) for split in ("train", "test"))
    assert len({*train, *test}) == size.train + size.test
    f_train, f_test = (generate(spec, "smoke", seeds[:4])[0] for seeds in (train, test))
    assert np.abs(f_train[:, None] - f_test[None]).reshape(16, -1).max(axis=1).min() > 0.1


@every_task
def test_the_coarse_solver_is_the_datasets_own_at_level_0_and_worse_below(spec: TaskSpec) -> None:
    task = spec.info("small")
    inputs, outputs = generate(spec, "small", [3, 4])
    errors = []
    for level in range(task.coarse_levels + 1):
        solution = task.coarse(inputs, level)
        assert solution.shape == outputs.shape
        errors.append(np.linalg.norm(solution - outputs) / np.linalg.norm(outputs))
    assert errors[0] < (1e-12 if spec.dtype == "float64" else 1e-6)
    if spec.name == "helmholtz_2d":  # near resonance any coarse grid is far off; the order holds until then
        assert min(errors[1:]) > 0.1
    else:
        assert errors == sorted(errors)
        assert errors[2] > 3 * errors[1] > 9 * errors[0]


@pytest.mark.parametrize("name", ["poisson_2d_lshape", "poisson_2d_mixed"])
def test_the_coarse_solver_is_zero_outside_the_domain(name: str) -> None:
    task = TASKS[name].info("smoke")
    inputs, _ = generate(TASKS[name], "smoke", [3])
    for level in range(task.coarse_levels + 1):
        assert np.all(task.coarse(inputs, level)[..., ~task.mask] == 0)


@every_task
def test_the_moments_are_those_on_record(spec: TaskSpec) -> None:
    f, u = (a.astype(np.float64) for a in generate(spec, "smoke", [100, 101, 102, 103]))
    found = (f.mean(), f.std(), u.mean(), u.std(), np.abs(u).max())
    assert found == pytest.approx(MOMENTS[spec.name], rel=1e-6 if spec.dtype == "float32" else 1e-8, abs=1e-12)


@pytest.mark.parametrize("name", PAPER)
def test_scale_paper_is_the_papers(name: str) -> None:
    scale = TASKS[name].scales["paper"]
    recipe = scale.recipe
    assert (
        scale.grid,
        scale.options["solve"][0],
        scale.train,
        scale.test,
        str(recipe.budget),
        recipe.batch,
        recipe.lr,
        recipe.lr_min,
        recipe.weight_decay,
    ) == PAPER[name]


@every_task
def test_coordinates_are_those_of_the_grid_points(spec: TaskSpec) -> None:
    """x_j = j / n: the left end is a point, the right end is one spacing beyond the last."""
    coords = spec.info("smoke").coords
    n = spec.scales["smoke"].grid[0]
    assert coords.shape == (spec.dim, *spec.scales["smoke"].grid)
    for axis in range(spec.dim):
        np.testing.assert_array_equal(np.moveaxis(coords[axis], axis, 0).reshape(n, -1)[:, 0], np.arange(n) / n)


@pytest.mark.parametrize("name", ["poisson_1d_grf", "poisson_2d_grf", "advection_diffusion_1d"])
@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_random_fields_have_more_modes_than_there_are_training_samples(name: str, scale: str) -> None:
    size = TASKS[name].scales[scale]
    assert size.train < np.prod([n - 1 for n in size.grid])


@pytest.mark.parametrize(("name", "samples"), [("poisson_1d", 20), ("poisson_2d", 120)])
def test_a_linear_fit_of_few_samples_is_exact_on_the_papers_forcing(name: str, samples: int) -> None:
    """10 and 100 dimensions: known, and the reason for the random fields."""
    assert linear_fit_error(TASKS[name], samples) < 1e-9


@pytest.mark.parametrize("name", ["poisson_1d_grf", "poisson_2d_grf", "advection_diffusion_1d"])
def test_a_linear_fit_of_the_whole_training_set_is_not_exact_on_random_fields(name: str) -> None:
    assert linear_fit_error(TASKS[name], TASKS[name].scales["small"].train) > 5e-3


def linear_fit_error(spec: TaskSpec, samples: int) -> float:
    """Mean relative error on test samples of the minimum-norm linear map through the training samples."""
    (f, u), (f_test, u_test) = (
        [fields.reshape(count, -1) for fields in generate(spec, "small", sample_seeds(spec, split, 0, count))]
        for split, count in (("train", samples), ("test", 20))
    )
    weights, *_ = np.linalg.lstsq(f.T, f_test.T, rcond=1e-12)
    error = np.linalg.norm(weights.T @ u - u_test, axis=1) / np.linalg.norm(u_test, axis=1)
    return float(error.mean())
