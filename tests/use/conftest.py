"""A small board of toy models, made once for all tests here; each test gets a copy that it may damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pdebench_hss import run

FILES = [str(Path(__file__).parents[1] / "toys" / name) for name in ("toy_plugin.py", "kept_plugin.py")]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """With the real executor: weights cross two process boundaries."""
    folder = tmp_path_factory.mktemp("made")
    before = os.environ.get("PDEBENCH_HSS_CACHE")
    os.environ["PDEBENCH_HSS_CACHE"] = str(folder / "cache")
    try:
        options = {"scale": "smoke", "out": str(folder / "board"), "plugins": FILES}
        kept = "kept_mixed,kept_sized,kept_solver,kept_hidden,kept_words"
        run(models=f"toy_conv,toy_conv[width=2],mean,{kept}", tasks="toy", seeds=2, **options)
        run(models="toy_conv,linear", tasks="toy_rollout,toy_rollout[history=2]", **options)
    finally:
        os.environ["PDEBENCH_HSS_CACHE"] = before or ""
    return folder


@pytest.fixture
def board(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(made / "cache"))
    return Path(shutil.copytree(made / "board", tmp_path / "board"))


@pytest.fixture
def plugins() -> list[str]:
    return FILES
