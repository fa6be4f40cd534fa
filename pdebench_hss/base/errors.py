"""Errors that the user can fix: one line that says what is wrong, where, and what to do.

The command line prints them without a traceback (``--debug`` shows it) and exits with ``exit_code``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PdebenchError(Exception):
    """An error that the user can fix. Its message is complete by itself."""

    exit_code = 2


class UsageError(PdebenchError):
    """A wrong name, option or value."""


class PluginError(PdebenchError):
    """A plugin that can't be used."""


class DataError(PdebenchError):
    """Data that could not be made or can't be trusted."""

    exit_code = 1


class StoreError(PdebenchError):
    """A results directory that can't be used."""


class ContractError(AssertionError):
    """A promise that a model or a task does not keep, with a hint at the cause (`pdebench_hss.testing`)."""


class Interrupted(Exception):
    """A trial was asked to stop; its state is saved."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`` Did you mean 'net'?`` or nothing."""
    close = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
