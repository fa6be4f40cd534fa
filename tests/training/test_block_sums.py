"""A normaliser fitted block by block has the bits of one that is fitted to the whole array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.training import block_sums
from pdebench_hss.training.normalization import BlockwiseFit, fit_affine

KINDS = ("max", "std", "zscore", "none")


def values(shape, dtype, seed=0):
    """Of very different sizes, so that every order of adding them has bits of its own."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * 10 ** rng.uniform(-3, 3, size=shape) + 1).astype(dtype)


def fitted_to_blocks(x, kind, step):
    fit = BlockwiseFit(kind, len(x))
    for number in range(fit.passes):
        for start in range(0, len(x), step):
            fit.see(x[start : start + step], number)
    return fit.affine()


def assert_same(x, kind, step):
    whole, blocks = fit_affine(x, kind), fitted_to_blocks(x, kind, step)
    np.testing.assert_array_equal(blocks.shift, whole.shift, strict=True)
    np.testing.assert_array_equal(blocks.scale, whole.scale, strict=True)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 40),
    channels=st.integers(1, 3),
    grid=st.lists(st.integers(1, 40), min_size=1, max_size=2),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(("float64", "float32")),
    step=st.integers(1, 50),
    seed=st.integers(0, 9),
)
def test_blocks_of_any_size_give_the_same_bits(n, channels, grid, kind, dtype, step, seed):
    leaf, block_sums.LEAF = block_sums.LEAF, 1000  # so that small arrays are halved, too
    try:
        assert_same(values((n, channels, *grid), dtype, seed), kind, step)
    finally:
        block_sums.LEAF = leaf


@pytest.mark.parametrize("kind", ["std", "zscore"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "shape", [(9, 1, 301, 97), (5, 2, 200, 90), (3, 3, 24, 24, 24), (2000, 1, 1031), (4000, 2, 3), (70, 1, 8192)]
)
def test_arrays_larger_than_numpys_buffer_and_a_leaf(shape, dtype, kind):
    assert_same(values(shape, dtype), kind, 4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_channels_cut_out_of_an_array(dtype):
    x = values((20, 4, 33, 17), dtype)
    for kind in KINDS:
        assert_same(x[:, :2], kind, 3)
        assert_same(x[..., ::2], kind, 3)


def test_one_channel_cut_out_of_an_array_is_refused_and_not_guessed():
    fit = BlockwiseFit("zscore", 5)
    with pytest.raises(ValueError, match="don't follow one another"):
        fit.see(values((5, 2, 7), "float64")[:, :1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_channel_is_not_scaled(kind):
    x = np.concatenate([np.full((6, 1, 5), 0.1), values((6, 1, 5), "float64")], axis=1)
    assert_same(x, kind, 2)
