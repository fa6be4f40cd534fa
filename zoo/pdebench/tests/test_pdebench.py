"""Readers against files written here by hand, solvers against exact solutions, and the contract. Install it first."""

from __future__ import annotations

import itertools

import h5py
import numpy as np
import pytest
from pdebench_hss_pdebench import TASKS, darcy, diffusion_reaction, readers, synthetic

from pdebench_hss import Recipe, Scale
from pdebench_hss.testing import task_cases

BY_NAME = {spec.name.removeprefix("pdebench_"): spec for spec in TASKS}


def size(grid: tuple[int, ...], train: int = 3, test: int = 2, steps: int = 1, **options) -> Scale:
    return Scale(
        grid=grid,
        train=train,
        test=test,
        steps=steps,
        recipe=Recipe(batch=1, steps=1),
        options={"stride": 1, **options},
    )


def whole(blocks) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The splits that a reader gives in blocks."""
    return {split: tuple(map(np.concatenate, zip(*pairs))) for split, pairs in blocks.items()}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    synthetic.write_all(folder / "below" / "it")  # a download has folders
    return folder


@pytest.mark.parametrize("case", [c for spec in TASKS if spec.generate for c in task_cases(spec.name)], ids=str)
def test_generators_keep_the_contract(case):
    case.run()


@pytest.mark.parametrize("name", BY_NAME)
def test_readers_keep_the_contract(name, files):
    found = [case for case in task_cases(f"pdebench_{name}", data_dir=files) if case.files]
    assert len(found) >= 4
    for case in found:
        case.run()


def test_an_array_is_taken_every_fifth_frame_and_the_last_samples_for_testing(tmp_path):
    tensor = np.random.default_rng(0).standard_normal((7, 21, 16)).astype(np.float32)
    with h5py.File(tmp_path / "1D_Advection_Sols_beta0.4.hdf5", "w") as file:
        file["tensor"] = tensor
    asked = size((8,), steps=3, file="1D_Advection_Sols_beta{beta}.hdf5", stride=5)
    data = whole(readers.one_array(tmp_path, asked, beta=0.4))
    inputs, outputs = data["train"]
    assert np.array_equal(inputs[:, 0], tensor[:3, 0, ::2])
    assert np.array_equal(outputs[:, :, 0], tensor[:3, [5, 10, 15], ::2])
    assert np.array_equal(data["test"][0][:, 0], tensor[5:, 0, ::2])


def test_darcy_pairs_permeability_with_pressure(tmp_path):
    rng = np.random.default_rng(0)
    nu, tensor = rng.random((5, 8, 8)), rng.random((5, 1, 8, 8))
    with h5py.File(tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5", "w") as file:
        file["nu"], file["tensor"] = nu, tensor
    data = whole(readers.darcy(tmp_path, size((4, 4), file="2D_DarcyFlow_beta{beta}_Train.hdf5"), beta=1.0))
    assert np.array_equal(data["train"][0][:, 0], nu[:3, ::2, ::2])
    assert np.array_equal(data["test"][1], tensor[3:, :, ::2, ::2])


def test_fields_become_channels_in_their_order(tmp_path):
    rng = np.random.default_rng(0)
    fields = {name: rng.random((5, 4, 8, 4)) for name in ("Vx", "density")}
    with h5py.File(tmp_path / "gas_M0.1.hdf5", "w") as file:
        for name, array in fields.items():
            file[name] = array
    asked = size((4, 4), steps=3, file="gas_M{mach}.hdf5", fields=("density", "Vx"))
    inputs, outputs = whole(readers.array_per_field(tmp_path, asked, mach=0.1))["test"]
    assert np.array_equal(inputs, np.stack([fields["density"][3:, 0, ::2], fields["Vx"][3:, 0, ::2]], axis=1))
    assert np.array_equal(outputs[:, 2, 1], fields["Vx"][3:, 3, ::2])


def test_groups_have_their_channels_moved_forward(tmp_path):
    data = np.random.default_rng(0).random((5, 31, 8, 8, 2))
    with h5py.File(tmp_path / "2D_diff-react_NA_NA.h5", "w") as file:
        for number, sample in enumerate(data):
            file[f"{number:04d}/data"] = sample
    asked = size((8, 8), steps=2, file="2D_diff-react_NA_NA.h5", first=10, stride=10)
    inputs, outputs = whole(readers.group_per_sample(tmp_path, asked))["test"]
    assert np.array_equal(inputs, np.moveaxis(data[3:, 10], -1, 1))
    assert np.array_equal(outputs[:, 1, 1], data[3:, 30, :, :, 1])


def test_blocks_are_the_samples_in_their_order_however_large(tmp_path, monkeypatch):
    tensor = np.random.default_rng(0).random((9, 3, 16))
    with h5py.File(tmp_path / "one.hdf5", "w") as file:
        file["tensor"] = tensor
    asked = size((16,), train=5, test=4, steps=2, file="one.hdf5")
    monkeypatch.setattr(readers, "BLOCK_BYTES", 2 * 8 * 3 * 16)
    blocks = {split: list(pairs) for split, pairs in readers.one_array(tmp_path, asked).items()}
    assert [len(inputs) for inputs, _ in blocks["train"]] == [2, 2, 1]
    assert np.array_equal(whole(blocks)["train"][0][:, 0], tensor[:5, 0])
    assert np.array_equal(whole(blocks)["test"][1][:, :, 0], tensor[5:, 1:])


@pytest.mark.parametrize("text", ["0.01", "1e-2", "1.e-2", "0.010"])
def test_a_parameter_is_found_however_its_number_is_written(tmp_path, text):
    (tmp_path / "deep").mkdir()
    for name in (f"gas_Eta{text}_Train.hdf5", "gas_Eta0.1_Train.hdf5", "gas_Eta-_Train.hdf5"):
        (tmp_path / "deep" / name).touch()
    assert readers.find(tmp_path, "gas_Eta{eta}_Train.hdf5", {"eta": 0.01}).name == f"gas_Eta{text}_Train.hdf5"
    with pytest.raises(ValueError, match=r"no file gas_Eta0.02_Train.hdf5; found gas_Eta-_Train.hdf5, gas_Eta0"):
        readers.find(tmp_path, "gas_Eta{eta}_Train.hdf5", {"eta": 0.02})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.pop("tensor"), "no dataset 'tensor'; found nothing"),
        (lambda file: _replace(file, np.zeros((4, 21, 16))), "4 samples, expected 3 for training and 2 for testing"),
        (lambda file: _replace(file, np.zeros((9, 21, 15))), "no multiple of"),
        (lambda file: _replace(file, np.zeros((9, 12, 16))), "12 frames are too few: 3 steps of 5 need 16"),
        (lambda file: _replace(file, np.zeros((9, 21))), "expected 3 axes"),
    ],
)
def test_a_file_that_does_not_fit_is_named_with_the_reason(tmp_path, change, message):
    path = tmp_path / "one.hdf5"
    with h5py.File(path, "w") as file:
        file["tensor"] = np.zeros((9, 21, 16))
        change(file)
    with pytest.raises(ValueError, match=message) as caught:
        readers.one_array(tmp_path, size((8,), steps=3, file="one.hdf5", stride=5))
    assert str(path) in str(caught.value)


def _replace(file: h5py.File, array: np.ndarray) -> None:
    del file["tensor"]
    file["tensor"] = array


def exact_poisson(points: int) -> np.ndarray:
    """-Lap u = 1 on the unit square: u = sum of 16 / (pi^4 m n (m^2 + n^2)) sin(m pi x) sin(n pi y), m, n odd."""
    m = np.arange(1, 400, 2)
    waves = np.sin(np.pi * m[:, None] * (np.arange(points) + 0.5) / points)  # (modes, points)
    return waves.T @ (16 / (np.pi**4 * np.outer(m, m) * (m[:, None] ** 2 + m**2))) @ waves


def test_darcy_with_one_permeability_is_poissons_equation():
    errors = [np.sqrt(np.mean((darcy.solve(np.ones((n, n)), 1.0) - exact_poisson(n)) ** 2)) for n in (16, 32, 64)]
    orders = [np.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]
    np.testing.assert_allclose(orders, 2, atol=0.05)
    np.testing.assert_allclose(darcy.solve(np.full((8, 8), 0.1), 1.0), 10 * darcy.solve(np.ones((8, 8)), 1.0))


def test_diffusion_reaction_converges_with_second_order():
    start = diffusion_reaction.start(0, 16)
    ends = [diffusion_reaction.trajectory(start, 1, dt)[-1] for dt in (0.05, 0.025, 0.0125)]
    first, second = (np.linalg.norm(a - b) for a, b in itertools.pairwise(ends))
    assert 1.7 < np.log2(first / second) < 2.4


def test_diffusion_factors_are_those_of_the_heat_equation():
    """The lowest cosines of [-1, 1] decay as exp(-D (k pi / 2)^2 t)."""
    found = diffusion_reaction.diffusion_factors(128, 0.1)[:, :4, 0]
    k = np.pi / 2 * np.arange(4)
    exact = np.exp(-np.array([[0.001], [0.005]]) * k**2 * 0.1)
    np.testing.assert_allclose(found, exact, rtol=1e-5)
