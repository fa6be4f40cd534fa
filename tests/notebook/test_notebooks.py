"""The notebooks of examples/ run from beginning to end in a real kernel, and are committed as they ran."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def pages(notebook: nbformat.NotebookNode) -> str:
    found = [output["data"].get("text/html", "") for output in outputs(notebook) if "data" in output]
    return "".join("".join(page) for page in found)


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["first_steps", "my_model"]


@pytest.mark.early
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert 'class="best' in pages(notebook)  # a board that shows itself
    assert "trials run in" in pages(notebook)  # what the bar left


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_with_what_it_printed(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for output in outputs(notebook) if output.output_type == "error"]
    assert 'class="best' in pages(notebook)
