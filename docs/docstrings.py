"""For the API reference: what is easy to read in a docstring becomes Markdown.

name        a column of names and meanings,         ->   a list
            over several lines
>>> run()  # doctest: +SKIP                         ->   a code block
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROW = re.compile(r"(?P<name>\*{0,2}[a-z_][\w, `]*?)\s{2,}(?P<meaning>\S.*)")


class ReadableDocstrings(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    lines: list[str] = []
    in_row = False
    for line in text.splitlines():
        row = ROW.fullmatch(line)
        if line.startswith(">>> "):
            lines += ["```python", line[4:].partition("  # doctest")[0], "```"]
        elif row:
            lines += ([] if in_row else [""]) + [f"- **{row['name'].strip('`')}**: {row['meaning']}"]
            in_row = True
        elif in_row and line.startswith("    "):
            lines.append(f"    {line.strip()}")
        else:
            lines += ["", line] if in_row and line.strip() else [line]
            in_row = False
    return "\n".join(lines)
