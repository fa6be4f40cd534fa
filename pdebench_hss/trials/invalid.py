"""The errors and warnings about records and plans that can't be trusted."""

from __future__ import annotations

from ..base.files import BadFile


class Invalid(BadFile):
    """A record, or an entry of a plan, that can't be trusted."""


class Newer(Invalid):
    """A record that a newer version wrote."""


class RecordWarning(UserWarning):
    """A record, or part of a plan, that can't be used."""
