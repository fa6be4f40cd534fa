"""The words for what can't be believed on a board."""

from __future__ import annotations

from ..base.files import BadFile


class Invalid(BadFile):
    """A record, or an entry of a plan, that can't be believed."""


class Newer(Invalid):
    """A record that a newer version wrote."""


class RecordWarning(UserWarning):
    """A record, or part of a plan, that can't be used."""
