"""The collector is off while many objects are made, and on again whatever ended that."""

from __future__ import annotations

import gc

import pytest

from pdebench_hss.base.collector import collector_paused


def test_it_is_off_meanwhile_and_on_again_after_an_exception():
    seen = []
    with pytest.raises(KeyError), collector_paused():
        {}[seen.append(gc.isenabled())]
    assert (seen, gc.isenabled()) == ([False], True)


def test_a_pause_within_a_pause_does_not_end_it():
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_had_it_off_before_has_it_off_after():
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
