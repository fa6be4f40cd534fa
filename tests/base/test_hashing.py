"""Canonical JSON, of which hashes are made."""

from __future__ import annotations

import pytest

from pdebench_hss.base.hashing import HOLE, canonical, canonical_around

STRINGS = ["", HOLE, f'"{HOLE}"', f"{HOLE}{HOLE}", f'\\"{HOLE}', "ü"]


@pytest.mark.parametrize("value", STRINGS)
@pytest.mark.parametrize("name", ["a", "m", "z", HOLE, f'"{HOLE}'])
def test_a_table_with_known_texts_is_spelled_as_without(name, value):
    table = {"k": {"x": [1, 2.5, value]}, "n": 1e-300, name: value, "p": {value: None}}
    texts = {part: canonical(table[part]) for part in ("k", "p")}
    assert canonical_around(table, texts) == canonical(table)
    assert canonical_around(table, {**texts, "absent": "1"}) == canonical(table)
    assert canonical_around(table, {}) == canonical(table)


def test_what_json_does_not_know_is_refused_around_known_texts_too():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_around({"a": float("nan"), "b": 1}, {"b": "1"})
