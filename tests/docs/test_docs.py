"""What the documents say is so: every code block in README, CONTRIBUTING, docs/ and examples/ is executed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "tests" / "support" / "run_documents.py"
PATTERNS = (
    *("README.md", "CONTRIBUTING.md", "docs/**/*.md"),
    *("examples/**/README.md", "examples/*.py", "zoo/*/README.md"),
)

WRONG = {
    "```python\nassert 1 == 2\n```": "AssertionError",
    "```python\n# wrong.py\ndef f(:\n```": "SyntaxError",
    "```bash\npdebench-hss show nothing\n```": "'nothing'. Did you mean",
    "```console\n$ pdebench-hss --version\npdebench-hss 99\n```": "does not print",
    "```console\n$ pdebench-hss --version\nerror: it must fail\n```": "ended with code 0",
    "```bash\nmake nothing\n```": "No rule to make target",
    "```toml\n[broken\n```": "TOMLDecodeError",
    "```\nwhat is this\n```": "a block has the language ''",
}


def run(documents: list[Path], folder: Path) -> list[dict]:
    """What became of each document; the first outcome is that of the board that documents read."""
    done = subprocess.run(
        [sys.executable, RUNNER, folder / "readers", *documents],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_code_block_of_every_document_works_and_a_wrong_one_would_be_noticed(tmp_path):
    """One test, because all documents share one process that has imported torch."""
    documents = [path for path in all_documents() if not installs_from_the_zoo(path)]
    assert len(documents) > 10
    wrong = [tmp_path / f"wrong{number}.md" for number in range(len(WRONG))]
    for path, text in zip(wrong, WRONG):
        path.write_text(f"Some text.\n\n{text}\n")
    made, *outcomes = run([*documents, *wrong], tmp_path)
    assert made["code"] == 0, made["output"]
    failed = [outcome for outcome in outcomes[: len(documents)] if outcome["code"]]
    assert not failed, "\n".join(f"{outcome['document']}:\n{outcome['output']}" for outcome in failed)
    for outcome, complaint in zip(outcomes[len(documents) :], WRONG.values(), strict=True):
        assert outcome["code"] == 1
        assert complaint in outcome["output"]


def test_every_code_block_about_the_zoo_works(tmp_path):
    """Apart, because these import other libraries, and their time has a limit of its own."""
    documents = [path for path in all_documents() if installs_from_the_zoo(path)]
    assert len(documents) > 4
    made, *outcomes = run(documents, tmp_path)
    failed = [outcome for outcome in (made, *outcomes) if outcome["code"]]
    assert not failed, "\n".join(f"{outcome['document']}:\n{outcome['output']}" for outcome in failed)


def all_documents() -> list[Path]:
    return sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))


def installs_from_the_zoo(path: Path) -> bool:
    return "pip install ./zoo/" in path.read_text(encoding="utf-8")


def prose(text: str) -> list[tuple[int, str]]:
    """The numbered lines of a document outside code blocks, tables and pictures."""
    fence, found = "", []
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        elif not fence and not line.startswith("    ") and not line.lstrip().startswith(("|", "![")):
            found.append((number, line))
    return found


def test_documents_are_wrapped_at_100_columns():
    documents = [path for pattern in (*PATTERNS, "CHANGELOG.md") for path in ROOT.glob(pattern) if path.suffix == ".md"]
    generated = {ROOT / "docs" / "triton_report.md"}
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted({*documents} - generated)
        for number, line in prose(path.read_text(encoding="utf-8"))
        if len(line) > 100
    ]
    assert not wide
    assert prose("a b\n```\nx y\n```\n| c d |\n    e f\ng") == [(1, "a b"), (7, "g")]


def torn(text: str) -> list[int]:
    """Lines of tables that stand under no heading, as after an empty line: a page shows them as text with bars."""
    lines, fenced, found = text.splitlines(), False, []
    for number, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        begins = line.startswith("|") and not (number and lines[number - 1].startswith("|"))
        if begins and not fenced and not re.match(r"\|[\s:|-]+$", (*lines, "")[number + 1]):
            found.append(number + 1)
    return found


def test_tables_are_in_one_piece():
    documents = [path for path in all_documents() if path.suffix == ".md"]
    assert not {str(path): lines for path in documents if (lines := torn(path.read_text(encoding="utf-8")))}
    assert torn("| a |\n|---|\n| b |\n\n| c |\n```\n| d |\n```\n") == [5]
