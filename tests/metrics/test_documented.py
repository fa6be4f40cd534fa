"""docs/metrics.md says of each built-in metric what its spec says."""

from __future__ import annotations

from pathlib import Path

from pdebench_hss.contract.registry import BUILT_IN, load_registry

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_every_metric_stands_in_the_table_with_formula_direction_and_source():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `") and "| lower |" in line]
    rows += [line for line in PAGE.read_text().splitlines() if line.startswith("| `") and "| higher |" in line]
    expected = []
    for name, found in load_registry().metrics.items():
        if found.origin.distribution == BUILT_IN:
            metric = found.spec
            formula = metric.formula.replace("|", "\\|")
            expected.append(f"| `{name}` | {formula} | {metric.direction} | {metric.undefined} | {metric.source} |")
    assert sorted(rows) == sorted(expected)
