"""What a run looks like on a terminal: the program runs under a pseudo-terminal, and its screen is what is tested."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pyte
import pytest
from rich.console import Console

from pdebench_hss.cli import display

pytestmark = [pytest.mark.cold, pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")]
COLUMNS, LINES = 80, 200  # so many lines that nothing scrolls away


@pytest.fixture(scope="module")
def watched(toys, tmp_path_factory):
    """The last screen of a run, and everything that was on the screen in between."""
    import pty

    folder = tmp_path_factory.mktemp("terminal")
    inside, outside = pty.openpty()
    command = [sys.executable, "-m", "pdebench_hss", "run", "--plugin", str(toys), "--tasks", "toy"]
    command += ["--models", "toy_conv,mean,toy_raise", "--scale", "smoke", "--seeds", "2", "--jobs", "2"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    environment |= {"PDEBENCH_HSS_CACHE": str(folder / "cache")}
    run = subprocess.Popen(command, cwd=folder, env=environment, stdin=outside, stdout=outside, stderr=outside)
    os.close(outside)
    screen, seen = pyte.Screen(COLUMNS, LINES), set()
    stream = pyte.ByteStream(screen)
    while True:
        try:
            content = os.read(inside, 1 << 16)
        except OSError:  # the other side was closed
            break
        if not content:
            break
        stream.feed(content)
        seen.update(line.strip() for line in screen.display)
    run.wait()
    return [line.rstrip() for line in screen.display if line.strip()], seen


def test_every_finished_trial_has_its_mark(watched):
    lines, _ = watched
    finished = [line for line in lines if "seed 0 " in line or "seed 1 " in line]
    assert len(finished) == 5, lines  # two seeds, but for `mean`, which no seed changes
    assert all(line[:2] == ("✗ " if "toy_raise" in line else "✓ ") for line in finished), finished


def test_a_bar_over_all_trials_counts_them_and_is_gone_at_the_end(watched):
    lines, seen = watched
    assert any("all trials" in line and "/5" in line for line in seen), seen
    assert not any("all trials" in line for line in lines)


def test_what_is_too_long_for_a_line_goes_on_to_the_right_of_its_label(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(display, "console", Console(file=written, force_terminal=True, width=30, highlight=False))
    display.print_prose("plan   1 trial: 1 to run, 0 cached, 0 skipped")
    assert written.getvalue().splitlines() == ["plan   1 trial: 1 to run, 0", "       cached, 0 skipped"]


def test_one_is_not_plural():
    assert [display.plural(n, "job") for n in (1, 2, 1000)] == ["1 job", "2 jobs", "1,000 jobs"]
