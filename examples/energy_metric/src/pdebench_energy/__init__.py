"""A metric: how wrong the energy of a field is. Light: what it is called and what it means."""

from __future__ import annotations

from pdebench_hss import MetricSpec, hookimpl


@hookimpl
def pdebench_hss_metrics() -> list[MetricSpec]:
    return [
        MetricSpec(
            name="energy_error",
            title="Error of the energy",
            formula="|mean p^2 - mean t^2| / mean t^2",
            compute="pdebench_energy.energy:energy_error",  # imported by the scorer
            direction="lower",
            undefined="a target that is zero: no value",
        )
    ]
