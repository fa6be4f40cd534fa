"""What is said in several places about the project as a whole agrees: versions, addresses, pinned tools."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import pdebench_hss
from pdebench_hss.contract.citations import SOFTWARE

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.fixture(scope="module")
def citation() -> dict:
    return yaml.safe_load(text("CITATION.cff"))


def test_the_citation_file_is_what_cite_prints(citation):
    assert citation["version"] == pdebench_hss.__version__
    assert f"url     = {{{citation['repository-code']}}}" in SOFTWARE
    assert f"year    = {{{citation['date-released'][:4]}}}" in SOFTWARE
    assert f"author  = {{{{{citation['authors'][0]['name']}}}}}" in SOFTWARE
    assert citation["title"].replace("PDE ", "{PDE} ") in SOFTWARE


def test_one_address(citation):
    addresses = re.findall(r'^(?:Source|Issues|Changelog) = "(.*)"', text("pyproject.toml"), re.MULTILINE)
    assert len(addresses) == 3
    assert all(address.startswith(citation["repository-code"]) for address in addresses)


def test_the_version_is_in_one_place():
    assert 'dynamic = ["version"]' in text("pyproject.toml")
    assert f'__version__ = "{pdebench_hss.__version__}"' in text("pdebench_hss/base/version.py")


def test_commits_are_checked_with_the_ruff_that_ci_uses():
    pinned = re.search(r"^ruff==\S+", text("constraints.txt"), re.MULTILINE)[0]
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert [hook["additional_dependencies"] for hook in hooks] == [[pinned], [pinned]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_write_nothing_by_default(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_every_supported_python_is_tested_on_every_system():
    strategy = yaml.safe_load(text(".github/workflows/tests.yml"))["jobs"]["platforms"]["strategy"]
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text("pyproject.toml"))
    assert strategy["matrix"]["python"] == named
    assert {name.split("-")[0] for name in strategy["matrix"]["os"]} == {"ubuntu", "macos", "windows"}


def test_types_are_published():
    assert (Path(pdebench_hss.__file__).parent / "py.typed").exists()


def test_what_is_pinned_can_be_installed_with_the_oldest_python():
    """CI's matrix begins there, and a pin that needs a newer Python would stop it before the first test."""
    oldest = re.search(r'^requires-python = ">=(.*)"', text("pyproject.toml"), re.MULTILINE)[1]
    lines = [line.partition("#")[0].strip() for line in text("constraints.txt").splitlines()]
    pins, checked = [Requirement(line) for line in lines if line], 0
    for pin in pins:
        try:
            needs = metadata(pin.name)["Requires-Python"]
        except PackageNotFoundError:  # for another platform
            continue
        checked += 1
        taken = pin.marker is None or pin.marker.evaluate({"python_version": oldest})
        assert not taken or not needs or SpecifierSet(needs).contains(f"{oldest}.99"), f"{pin}: needs Python {needs}"
    assert checked > 100
