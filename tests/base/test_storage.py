"""Bytes at a path or an address: whole or not there."""

from __future__ import annotations

import pytest

from pdebench_hss.base import storage
from pdebench_hss.base.errors import UsageError


@pytest.fixture(params=["path", "file", "memory"])
def place(request, tmp_path) -> str:
    return {"path": str(tmp_path), "file": tmp_path.as_uri(), "memory": f"memory://{tmp_path.name}"}[request.param]


def test_what_was_written_is_read_and_can_be_replaced_and_removed(place):
    there = storage.join(place, "checkpoints", "a.pt")
    assert storage.read(there) is None
    storage.remove(there)  # nothing there is fine
    storage.write(there, b"one")
    storage.write(there, b"two")
    assert storage.read(there) == b"two"
    storage.remove(there)
    assert storage.read(there) is None


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    from fsspec.implementations.local import LocalFileSystem

    there = storage.join(tmp_path.as_uri(), "a.pt")
    storage.write(there, b"good")

    def broken(self, path, value, **_):
        with open(path, "wb") as file:
            file.write(value[:1])
        raise OSError("the line is dead")

    monkeypatch.setattr(LocalFileSystem, "pipe_file", broken)
    with pytest.raises(OSError, match="the line is dead"):
        storage.write(there, b"newer")
    assert storage.read(there) == b"good"


@pytest.mark.parametrize("place", ["nowhere://bucket", "/proc/nowhere", "file:///proc/nowhere"])
def test_a_place_that_can_not_be_written_is_refused_before_anything_starts(place):
    with pytest.raises(UsageError, match=f"--storage {place}"):
        storage.check_writable(place)
