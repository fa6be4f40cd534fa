"""The rooms of neural_hss: imports go one way, and the light modules stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pdebench_hss_models.neural_hss as package

HERE = Path(package.__file__).parent
ALLOWED = {"matrix": {"matrix"}, "triton": {"triton"}, "apply": {"apply", "matrix", "triton"}, "fit": {"fit", "matrix"}}


def rooms_imported(source: str, room: str) -> set[str]:
    """Rooms that a module of ``room`` imports from; the top of the package counts as ``top``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found.add(room)
        elif isinstance(node, ast.ImportFrom) and node.level == 2:
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            found |= {name if name in ALLOWED else "top" for name in names}
    return found


def test_no_room_imports_from_one_above_it() -> None:
    modules = [path for room in ALLOWED for path in (HERE / room).glob("*.py")]
    assert len(modules) > 15
    wrong = {
        str(path.relative_to(HERE)): imported
        for path in modules
        if (imported := rooms_imported(path.read_text(), path.parent.name) - ALLOWED[path.parent.name])
    }
    assert wrong == {}


def test_a_wrong_import_is_seen() -> None:
    assert rooms_imported("from ..layer import HSSMap", "matrix") == {"top"}
    assert rooms_imported("def f():\n    from .. import apply", "matrix") == {"apply"}


def test_sizes_and_costs_need_no_torch() -> None:
    name = package.__name__
    code = f"import sys, {name}.hparams, {name}.matrix.tree, {name}.apply.cost, {name}.apply.measured; "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
