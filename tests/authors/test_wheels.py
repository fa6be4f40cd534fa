"""What an author ships works where only wheels are: pdebench-hss and plugins, built and installed as strangers do.

The environment is fresh and has no source tree in it; the packages that pdebench-hss depends on are borrowed from the
environment that runs the tests, because installing torch again would take minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
EXAMPLES = ("unet", "tensorboard_tracker", "printed_table", "relative_l2", "muon", "two_stage", "energy_metric")
PACKAGES = [*(ROOT / "examples" / name for name in EXAMPLES), *sorted((ROOT / "zoo").iterdir())]


@dataclass(frozen=True)
class Environment:
    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "venv" / "bin"

    def run(self, *command: str, cwd: Path, fails: bool = False) -> str:
        """The output of a command of this environment, with nothing of the tests' own environment in reach."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=cwd,
            env={**kept, "PDEBENCH_HSS_CACHE": str(self.folder / "cache")},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def install(self, *wheels: Path) -> None:
        pip("--python", str(self.bin / "python"), "install", "--no-deps", "--no-index", *map(str, wheels))


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True, timeout=250)


def build_wheels(into: Path, *projects: Path) -> list[Path]:
    """Wheels by the build backend of each project; it is installed here, so nothing is downloaded."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(into), *map(str, projects))
    return sorted(into.glob("*.whl"))


def borrow(folder: Path) -> None:
    """Links to every installed package but pdebench-hss itself, whose editable install must not be found."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("pdebench_hss", "_pdebench_hss", "__editable__", "_editable_impl")):
            (folder / entry.name).symlink_to(entry)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Made once, also where tests run side by side."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made = Environment(shared / "wheel-environment")
    with FileLock(shared / "wheel-environment.lock"):
        if not (made.folder / "ready").exists():
            made.folder.mkdir()
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", made.folder / "venv"], check=True)
            borrow(made.folder / "borrowed")
            (site,) = (made.folder / "venv" / "lib").glob("python*/site-packages")
            (site / "borrowed.pth").write_text(f"{made.folder / 'borrowed'}\n")
            made.install(*build_wheels(made.folder / "wheels", ROOT, *PACKAGES))
            (made.folder / "ready").touch()
    return made


def test_everything_comes_from_wheels_and_is_found(environment, tmp_path):
    program = "import pdebench_hss, pdebench_hss_models, pdebench_hss_tasks, pdebench_unet, pdebench_hss_pdebench\n"
    program += "print(*(m.__file__ for m in (pdebench_hss, pdebench_hss_models, pdebench_hss_tasks)), sep='\\n')\n"
    program += "print(*(m.__file__ for m in (pdebench_unet, pdebench_hss_pdebench)), sep='\\n')"
    for line in environment.run("python", "-c", program, cwd=tmp_path).splitlines():
        assert Path(line).is_relative_to(environment.folder / "venv"), line
    plugins = json.loads(environment.run("pdebench-hss", "list", "plugins", "--format", "json", cwd=tmp_path))
    found = {row["distribution"]: row["status"] for row in plugins}
    assert {row["status"] for row in plugins} == {"ok"}
    assert {"pdebench-hss", "pdebench-unet", "pdebench-hss-pdebench", "tensorboard-tracker", "printed-table"} <= set(
        found
    )
    assert "pdebench-unet 0.1.0 (entry point pdebench_unet)" in environment.run(
        "pdebench-hss", "show", "unet", cwd=tmp_path
    )


def test_the_source_distribution_holds_no_boards_and_stays_small(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 2_000_000
    with tarfile.open(path) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "pdebench_hss/__init__.py", "tests/conftest.py"} <= names
    assert not any(name.startswith("leaderboards") for name in names)


def test_a_model_and_tasks_from_packages_run_on_the_command_line(environment, tmp_path):
    environment.run("python", "-m", "pdebench_hss_pdebench.synthetic", "files", cwd=tmp_path)
    environment.run(
        *("pdebench-hss", "run", "--models", "unet,mean", "--scale", "smoke", "--data-dir", "files", "--out", "board"),
        *("--tasks", "pdebench_advection,pdebench_compressible_1d,pdebench_darcy"),
        cwd=tmp_path,
    )
    board = pd.read_csv(tmp_path / "board" / "leaderboard.csv")
    assert sorted(board["task"].unique()) == ["pdebench_advection", "pdebench_compressible_1d", "pdebench_darcy"]
    assert set(board["status"]) == {"ok"}
    assert len(board) == 6
    # The tracker, which nobody asked for by name, heard of every trial.
    assert len({events.parent for events in tmp_path.glob("runs/*/*/events.*")}) == 6
    # So did the printed table: it stands beside ours, and one that has no row here does not.
    table = pd.read_csv(tmp_path / "board" / "made_up.csv").set_index("task")
    assert table.loc["pdebench_darcy", "mean_ratio"] == table.loc["pdebench_darcy", "mean_test_err"] / 0.25
    assert not (tmp_path / "board" / "table_2d.csv").exists()
    bibtex = environment.run("pdebench-hss", "cite", "board", cwd=tmp_path)
    for key in ("ronneberger2015unet", "takamoto2022pdebench"):
        assert bibtex.count(f"{{{key},") == 1


def test_new_packages_install_keep_their_contracts_and_run(environment, tmp_path):
    for kind, name in (("model", "my_solver"), ("task", "my_pde")):
        environment.run("pdebench-hss", "new", kind, name, cwd=tmp_path)
    projects = [tmp_path / "my_solver", tmp_path / "my_pde"]
    environment.install(*build_wheels(tmp_path / "wheels", *projects))
    tests = environment.run("python", "-m", "pytest", "-q", *(f"{p}/tests" for p in projects), cwd=tmp_path)
    assert "passed" in tests
    assert "skipped" not in tests
    assert "promises kept" in environment.run("pdebench-hss", "check", "my_pde", cwd=tmp_path)
    environment.run(
        *("pdebench-hss", "run", "--models", "my_solver,linear", "--tasks", "my_pde", "--scale", "smoke"),
        *("--out", "board"),
        cwd=tmp_path,
    )
    board = pd.read_csv(tmp_path / "board" / "leaderboard.csv")
    assert dict(zip(board["model"], board["status"])) == {"my_solver": "ok", "linear": "ok"}
    # A generated package is not overwritten, and a name that is taken is refused.
    assert "exists already" in environment.run("pdebench-hss", "new", "model", "my_solver", cwd=tmp_path, fails=True)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_tests_of_the_packages_pass(environment, tmp_path, package):
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={tmp_path}"]
    assert "passed" in environment.run("python", "-m", "pytest", *options, str(package / "tests"), cwd=tmp_path)
