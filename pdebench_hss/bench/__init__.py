"""Time and memory side by side: ``pdebench-hss bench NAME``. Plugins bring further benches by the same hook."""

from __future__ import annotations

from ..contract.hookspecs import hookimpl


@hookimpl
def pdebench_hss_benches() -> dict[str, str]:
    return {"models": "pdebench_hss.bench.models:bench_models"}
