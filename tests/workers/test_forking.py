"""Large pages change what a fork costs, and nothing else."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import hashlib, os
from pdebench_hss.workers.forking import use_large_pages

held = [str(number) * 50 for number in range(200_000)]
before = hashlib.sha256("".join(held).encode()).hexdigest()
use_large_pages()
child = os.fork()
held[::1000] = ["changed"] * len(held[::1000])
if child == 0:
    held[1::1000] = ["other"] * len(held[1::1000])
    os._exit(0 if held[0] == "changed" and held[1] == "other" else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
held[::1000] = [str(number) * 50 for number in range(0, 200_000, 1000)]
assert hashlib.sha256("".join(held).encode()).hexdigest() == before
"""


def test_what_a_process_holds_stays_as_it_is_there_and_in_its_forks():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
