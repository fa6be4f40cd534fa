"""The studies of the Neural-HSS paper, one YAML file each (the keys: `pdebench_hss.contract.study`)."""

from __future__ import annotations

from pathlib import Path

from pdebench_hss import hookimpl
from pdebench_hss.contract.study import Study, read_study


@hookimpl
def pdebench_hss_studies() -> list[Study]:
    return [read_study(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))]
