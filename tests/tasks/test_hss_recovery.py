"""The random HSS operator of Theorem 2.3: its structure by SVD of the dense matrix, and its exact recovery."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.hss_recovery import HSS_RECOVERY
from pdebench_hss_tasks.hss_recovery.random_operator import generate, random_hss

import pdebench_hss as pb
from pdebench_hss.contract.registry import load_registry

SIZE = HSS_RECOVERY.scales["smoke"]
PARAMS = dict(HSS_RECOVERY.params)


@pytest.mark.parametrize(("levels", "rank"), [(2, 1), (3, 2), (2, 4), (1, 5)])
def test_every_off_diagonal_block_row_has_the_rank_and_no_less(levels, rank):
    matrix = random_hss(64, levels, rank, operator=0)
    for level in range(1, levels + 1):
        for rows in np.split(np.arange(64), 2**level):
            outside = np.setdiff1d(np.arange(64), rows)
            singular = np.linalg.svd(matrix[np.ix_(rows, outside)], compute_uv=False)
            assert singular[rank - 1] > 1e-3
            if rank < len(singular):
                assert singular[rank] < 1e-13


def test_the_operator_is_self_adjoint_of_moderate_norm_and_far_from_low_rank():
    matrix = random_hss(128, 4, 4, operator=0)
    assert np.abs(matrix - matrix.T).max() < 1e-14
    singular = np.linalg.svd(matrix, compute_uv=False)
    assert 1 < singular[0] < 12
    assert np.median(singular) > 0.05 * singular[0]


def test_operators_differ_by_number_and_size_and_repeat():
    first = random_hss(32, 3, 2, operator=0)
    np.testing.assert_array_equal(first, random_hss(32, 3, 2, operator=0))
    assert not np.allclose(first, random_hss(32, 3, 2, operator=1))


def test_samples_are_standard_gaussian_vectors_and_their_images():
    inputs, outputs = generate(range(4000), SIZE, **PARAMS)
    assert inputs.shape == outputs.shape == (4000, 1, 32)
    matrix = random_hss(32, PARAMS["levels"], PARAMS["rank"], PARAMS["operator"])
    np.testing.assert_allclose(outputs[7, 0], matrix @ inputs[7, 0], rtol=1e-12, atol=1e-13)
    covariance = inputs[:, 0].T @ inputs[:, 0] / 4000
    assert np.abs(covariance - np.eye(32)).max() < 0.1


def test_a_sample_depends_on_its_own_seed_alone():
    together, alone = generate([3, 4, 5], SIZE, **PARAMS), generate([4], SIZE, **PARAMS)
    for many, one in zip(together, alone):
        np.testing.assert_allclose(many[1], one[0], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("levels", "rank"), [(0, 1), (6, 1), (3, 5), (2, 0)])
def test_impossible_trees_are_refused_with_the_rule(levels, rank):
    with pytest.raises(ValueError, match="between 1 and the leaf size"):
        random_hss(32, levels, rank, operator=0)


def test_enough_samples_recover_the_operator_exactly_and_too_few_do_not(tmp_path):
    """Leaves of 4 points and rank 2: 6 samples determine the matrix; of 8, hss_fit keeps 2 back to choose with."""
    errors = {}
    for samples in (5, 8):
        board = pb.run(
            models="hss_fit[rank=2,levels=3],linear",
            tasks="hss_recovery[rank=2,levels=3]",
            scale="smoke",
            train_size=samples,
            executor="inline",
            out=str(tmp_path / "board"),
        ).results
        errors[samples] = board.set_index(board["model"].str.partition("[")[0])["test_err"]
    assert errors[5]["hss_fit"] > 0.1
    assert errors[8]["hss_fit"] < 1e-12
    assert errors[8]["linear"] > 0.1  # without the structure 8 samples of 32 points say little


def test_it_has_to_be_named():
    registry = load_registry()
    assert "hss_recovery" not in [choice.name for choice in registry.choose_tasks("all")]
    assert [choice.name for choice in registry.choose_tasks("hss_*")] == ["hss_recovery"]
