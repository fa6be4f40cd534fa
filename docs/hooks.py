"""What the site needs beyond the Markdown files, which are written to be read on their own as well.

* CONTRIBUTING.md becomes a page; each committed board a folder, boards/<path>/, with its report and its tables
  (`pdebench_hss.report.shelf`); and the list of them stands where all-boards.md has `LIST_MARK`.
* A list or table may follow its paragraph without a blank line, as everywhere but in Python-Markdown.
* Links to files outside docs/ lose their target: they are for readers of the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.report.shelf import Shelf

ROOT = Path(__file__).parents[1]
PAGES = {"../CONTRIBUTING.md": "contributing.md", "../README.md": "index.md"}
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
LIST_MARK = "<!-- the list of boards -->"
SHELF = Shelf(ROOT / "leaderboards")
STARTS_BLOCK = re.compile(r"([-*] |\d+\. |\|)")


def on_files(files: Files, config: Any) -> Files:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "contributing.md", content=text.replace("](docs/", "](")))
    registry = load_registry()
    for place, made in SHELF.pages(registry.reference_tables(), registry.metric_specs()):
        content = made.read_bytes() if isinstance(made, Path) else made
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    listed = markdown.replace(LIST_MARK, SHELF.listing()) if LIST_MARK in markdown else markdown
    return LINK.sub(lambda link: _link(link, files), _separate(listed))


def _link(link: re.Match[str], files: Files) -> str:
    text, target, anchor = link[1], PAGES.get(link[2], link[2]), link[3] or ""
    inside = not target.startswith("..") and files.get_file_from_path(posixpath.normpath(target)) is not None
    return f"[{text}]({target}{anchor})" if inside else text


def _separate(markdown: str) -> str:
    """A blank line between a paragraph and the list or table right below it, outside of code blocks."""
    lines: list[str] = []
    in_code = False
    for line in markdown.splitlines():
        before = lines[-1] if lines else ""
        starts = STARTS_BLOCK.match(line) and not STARTS_BLOCK.match(before)
        if starts and not in_code and before.strip() and not before.startswith(("  ", "#")):
            lines.append("")
        if line.lstrip().startswith("```"):
            in_code = not in_code
        lines.append(line)
    return "\n".join(lines)
