"""The listing of the package is the architecture: these tests keep it so, and each fails on a tree that breaks it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import architecture
import pytest

import pdebench_hss
from pdebench_hss.contract.registry import BUILT_IN, load_registry

ROOT = Path(__file__).parents[2]
PLUGINS = [ROOT / "plugins", ROOT / "tasks", ROOT / "studies", ROOT / "examples", ROOT / "zoo"]
PLAIN_WORDS = {"mean", "linear", "persistence"}  # names of models that are also words
PAPER = ["neural-hss", "neural hss", "semi-separable", "hierarchical", "sittoni"]
EQUATIONS = [
    *("poisson", "helmholtz", "burgers", "gray-scott", "gray--scott", "navier-stokes", "heat equation", "heat eq"),
    *("advection-diffusion", "green learning"),
]


def words() -> list[str]:
    registry = load_registry()
    found = {**registry.models, **registry.tasks}
    names = {name for name, spec in found.items() if spec.origin.distribution == BUILT_IN}
    return [*(names - PLAIN_WORDS), *PAPER, *EQUATIONS]


def test_every_folder_is_a_room():
    assert architecture.rooms_that_do_not_exist(ROOT) == []


def test_imports_go_down_the_list_of_rooms_and_never_up():
    assert architecture.upward_imports(ROOT) == []


def test_no_room_takes_what_is_private_to_another():
    assert architecture.private_imports(ROOT) == []


def test_the_light_rooms_import_neither_torch_nor_scipy():
    assert architecture.heavy_imports(ROOT) == []
    names = [path.relative_to(ROOT).with_suffix("").parts for path in architecture.light_files(ROOT)]
    modules = [".".join(parts).removesuffix(".__init__") for parts in names]
    program = "import importlib, sys\n"
    program += f"for name in {modules}:\n    importlib.import_module(name)\n"
    program += f"    assert not sys.modules.keys() & {set(architecture.HEAVY)}, name\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_core_names_no_model_no_equation_and_no_paper():
    assert architecture.words_of_plugins(ROOT, words()) == []


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda path: path.name)
def test_plugins_import_only_the_public_surface(folder):
    assert architecture.beyond_the_surface(folder, pdebench_hss.__all__) == []


def test_templates_import_only_the_public_surface(tmp_path):
    for path in (ROOT / "pdebench_hss" / "contract" / "templates").rglob("*.py.tmpl"):
        lines = [line for line in path.read_text().splitlines() if "pdebench_hss" in line and "import" in line]
        (tmp_path / f"{path.parent.name}_{path.stem}").write_text("\n".join(line.strip() for line in lines))
    assert len(list(tmp_path.iterdir())) >= 4
    assert architecture.beyond_the_surface(tmp_path, pdebench_hss.__all__) == []


def test_every_public_name_is_there_and_listed():
    assert set(pdebench_hss.__all__) <= set(dir(pdebench_hss))
    assert all(hasattr(pdebench_hss, name) for name in pdebench_hss.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pdebench_hss.nothing


# ---------------------------------------------------------------- and each of them fails where it should


def tree(folder: Path, path: str, code: str) -> Path:
    """A small core with one wrong file in it."""
    for room in ("boards", "runs", "trials", "contract"):
        (folder / "pdebench_hss" / room).mkdir(parents=True)
        (folder / "pdebench_hss" / room / "__init__.py").touch()
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(code)
    return folder


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("pdebench_hss/boards/page.py", "from ..runs.runner import Run"),
        ("pdebench_hss/boards/page.py", "from pdebench_hss.runs import runner"),
        ("pdebench_hss/boards/page.py", "import pdebench_hss.runs.runner"),
        ("pdebench_hss/boards/page.py", "def draw():\n    from ..runs import runner"),
        ("pdebench_hss/boards/deep/page.py", "from ...runs import runner"),
        ("pdebench_hss/boards/page.py", "from .. import api"),
        ("pdebench_hss/boards/page.py", "from pdebench_hss import run"),
    ],
)
def test_an_upward_import_is_found_however_it_is_written(tmp_path, path, code):
    (complaint,) = architecture.upward_imports(tree(tmp_path, path, code))
    assert "page.py:" in complaint
    assert "above boards" in complaint


@pytest.mark.parametrize("code", ["from ..boards.page import Page", "from .plan import Plan\nimport torch"])
def test_a_downward_import_is_not(tmp_path, code):
    assert architecture.upward_imports(tree(tmp_path, "pdebench_hss/runs/runner.py", code)) == []


def test_a_private_import_is_found(tmp_path):
    wrong = tree(tmp_path, "pdebench_hss/runs/runner.py", "from ..boards.page import _secret\nfrom .plan import _own")
    assert ["_secret" in complaint for complaint in architecture.private_imports(wrong)] == [True]


@pytest.mark.parametrize("code", ["import torch", "from scipy.linalg import svd", "class A:\n    import torch.nn"])
def test_a_heavy_import_is_found(tmp_path, code):
    (complaint,) = architecture.heavy_imports(tree(tmp_path, "pdebench_hss/contract/spec.py", code))
    assert "is light" in complaint


@pytest.mark.parametrize("code", ["def f():\n    import torch", "if TYPE_CHECKING:\n    import torch"])
def test_what_a_light_module_imports_on_demand_is_allowed(tmp_path, code):
    assert architecture.heavy_imports(tree(tmp_path, "pdebench_hss/contract/spec.py", code)) == []


@pytest.mark.parametrize("code", ["DEFAULT = 'fno'", "def poisson_1d(): ...", "# as in Neural-HSS", "'''Burgers.'''"])
def test_a_name_of_a_plugin_is_found(tmp_path, code):
    assert len(architecture.words_of_plugins(tree(tmp_path, "pdebench_hss/boards/page.py", code), words())) == 1


def test_a_command_to_type_may_name_one_and_the_scale_is_a_scale(tmp_path):
    code = "'''Example:  pdebench-hss run --tasks poisson_1d'''\nscale = 'paper'\nurl = 'pdebench-hss'"
    assert architecture.words_of_plugins(tree(tmp_path, "pdebench_hss/boards/page.py", code), words()) == []


@pytest.mark.parametrize(
    "code", ["from pdebench_hss.boards import frames", "import pdebench_hss.api", "from pdebench_hss import boards"]
)
def test_a_plugin_that_reaches_behind_the_surface_is_found(tmp_path, code):
    (tmp_path / "plugin.py").write_text(f"from pdebench_hss import hookimpl\n{code}\n")
    assert len(architecture.beyond_the_surface(tmp_path, pdebench_hss.__all__)) == 1


def test_a_folder_that_is_no_room_is_found(tmp_path):
    (complaint,) = architecture.rooms_that_do_not_exist(tree(tmp_path, "pdebench_hss/corridor/__init__.py", ""))
    assert "corridor" in complaint
