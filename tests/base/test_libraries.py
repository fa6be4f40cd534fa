"""A plugin whose library is missing or of a version that it was not tested with is set aside with one line."""

from __future__ import annotations

import pytest

from pdebench_hss import needs_library
from pdebench_hss.base import libraries
from pdebench_hss.base.errors import PluginError


@pytest.mark.parametrize(
    ("found", "at_least", "below", "fits"),
    [
        ("2.0.0", "2.0", "3", True),
        ("2.0", "2.0.0", "3", True),
        ("2.10.1+cpu", "2.9", "3", True),
        ("1.99", "2.0", "3", False),
        ("3.0.0", "2.0", "3", False),
        ("0.10.2", "0.2", "0.11", True),
        ("nightly", "0.1", "1", False),
    ],
)
def test_versions_are_compared_by_their_numbers(monkeypatch, found, at_least, below, fits):
    monkeypatch.setattr(libraries, "version", lambda name: found)
    if fits:
        needs_library("some-library", at_least, below)
        return
    with pytest.raises(PluginError, match=f"was tested with some-library >= {at_least}, < {below}, not with") as caught:
        needs_library("some-library", at_least, below)
    assert found in str(caught.value)


def test_the_command_says_in_one_line_what_is_missing_and_goes_on(cli, tmp_path):
    (tmp_path / "needy.py").write_text(
        "from pdebench_hss import needs_library\nneeds_library('no-such-library', '1.2', '2')\n"
    )
    done = cli("list", "models", "--plugin", "needy.py")
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "needy" in line]
    assert line.endswith(
        "failed in import: needs no-such-library >= 1.2, < 2, which is not installed: "
        "pip install 'no-such-library>=1.2,<2'"
    )
