"""The file of a record's arrays: what numpy reads, and what our own reader reads, are the arrays that were written."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from pdebench_hss.base.files import BadFile
from pdebench_hss.trials.array_files import read_arrays
from pdebench_hss.trials.array_writer import SMALL, npz

KINDS = st.one_of(arrays_of.floating_dtypes(), arrays_of.integer_dtypes(), arrays_of.unsigned_integer_dtypes())
ARRAYS = arrays_of.arrays(KINDS, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z_0-9]{1,20}", fullmatch=True), ARRAYS, max_size=5))
def test_what_is_written_is_read_again_to_the_bit(arrays):
    content = npz(arrays)
    with np.load(io.BytesIO(content)) as theirs:
        found = {name: theirs[name] for name in theirs.files}
    for read in (found, read_arrays(content)):
        assert list(read) == list(arrays)
        for name, array in arrays.items():
            assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
            assert read[name].tobytes() == array.tobytes()


def test_large_arrays_are_deflated_and_small_ones_are_not():
    content = npz({"small": np.zeros(8), "large": np.zeros(SMALL)})
    methods = {member.filename: member.compress_type for member in zipfile.ZipFile(io.BytesIO(content)).infolist()}
    assert methods == {"small.npy": zipfile.ZIP_STORED, "large.npy": zipfile.ZIP_DEFLATED}
    assert len(content) < 2000


def test_equal_arrays_are_equal_files():
    assert npz({"a": np.arange(3.0)}) == npz({"a": np.arange(3.0)})


def test_the_order_in_memory_does_not_matter():
    square = np.arange(6.0).reshape(2, 3)
    assert npz({"a": np.asfortranarray(square)}) == npz({"a": square})


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_a_changed_byte_is_found_or_does_not_matter(place):
    arrays = {"error_test_err": np.arange(4.0), "other": np.arange(3)}
    content = bytearray(npz(arrays))
    content[place % len(content)] ^= 0x40
    try:
        found = read_arrays(bytes(content), ["error_test_err"])
    except BadFile:
        return
    assert found == {} or np.array_equal(found["error_test_err"], arrays["error_test_err"])


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="object"):
        npz({"a": np.array([{}], dtype=object)})
