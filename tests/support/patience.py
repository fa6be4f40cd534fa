"""Limits of time for slow machines: ``PDEBENCH_HSS_PATIENCE=5 pytest ...`` makes all of them five times as long.

Limits are there so that what hangs is noticed. They are chosen for a machine that does nothing else and forks its
workers; where others compute, or every process imports torch by itself (spawn), they need a factor.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, settings

PATIENCE = float(os.environ.get("PDEBENCH_HSS_PATIENCE", "1"))
LIMIT = 300.0  # of a test without one of its own, as in pyproject.toml

if PATIENCE != 1:  # before tests are imported: their own settings are made from this profile
    settings.register_profile("patient", suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")


def be_patient(items: list[pytest.Item]) -> None:
    """Stretch the limits of tests, and of what they wait for."""
    if PATIENCE == 1:
        return
    for item in items:
        mark = item.get_closest_marker("timeout")
        item.add_marker(pytest.mark.timeout((mark.args[0] if mark else LIMIT) * PATIENCE), append=False)

    class Patient(subprocess.Popen):
        def wait(self, timeout=None):
            return super().wait(timeout and timeout * PATIENCE)

        def communicate(self, input=None, timeout=None):
            return super().communicate(input, timeout and timeout * PATIENCE)

    subprocess.Popen = Patient
