"""Files that are written together: each whole, all on the disk before the first takes its place."""

from __future__ import annotations

import os
import stat

import pytest

from pdebench_hss.base import files


def test_files_are_there_whole_and_nothing_else(tmp_path):
    wanted = {tmp_path / "a.txt": b"a" * 100_000, tmp_path / "below" / "b.txt": memoryview(b"b"), tmp_path / "c": b""}
    files.write_files(wanted)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == {
        path: bytes(content) for path, content in wanted.items()
    }
    mask = os.umask(0)
    os.umask(mask)
    assert {stat.S_IMODE(path.stat().st_mode) for path in wanted} == {0o666 & ~mask}


def test_none_takes_its_place_before_all_are_on_the_disk(tmp_path, monkeypatch):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    flush, flushed = os.fsync, []

    def watched(handle):
        assert old.read_text() == "old"
        assert not new.exists()
        flush(handle)
        flushed.append(handle)

    def replace(source, target):
        assert len(flushed) == 2
        os.rename(source, target)

    monkeypatch.setattr(files.os, "fsync", watched)
    monkeypatch.setattr(files.os, "replace", replace)
    files.write_files({new: b"1", old: b"2"})
    assert (new.read_text(), old.read_text()) == ("1", "2")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_disk_that_fails_leaves_what_was_there(tmp_path, monkeypatch, place):
    old = tmp_path / "old"
    old.write_text("old")
    flush, calls = os.fsync, []

    def fails(handle):
        calls.append(handle)
        if len(calls) == place + 1:
            raise OSError(5, "Input/output error")
        flush(handle)

    monkeypatch.setattr(files.os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        files.write_files({tmp_path / "1": b"1", old: b"2", tmp_path / "3": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "old"
