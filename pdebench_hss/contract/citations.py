"""BibTeX: what a spec's ``citation`` holds, taken apart into entries so that each is printed once.

A citation that is plain text is allowed: it is printed as a comment, which BibTeX ignores and a reader does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..base.version import __version__

SOFTWARE = f"""@software{{pdebench_hss,
  title   = {{pdebench-hss: a plugin-based benchmark for neural {{PDE}} solvers}},
  author  = {{{{the pdebench-hss contributors}}}},
  year    = {{2026}},
  url     = {{https://github.com/pdebench-hss/pdebench-hss}},
  version = {{{__version__}}}
}}"""

_ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)


def entries(citation: str) -> dict[str, str]:
    """The BibTeX entries of a text by their keys; each starts with ``@`` at the beginning of a line."""
    starts = [*_ENTRY.finditer(citation)]
    ends = [*(match.start() for match in starts), len(citation)][1:]
    return {match[1]: citation[match.start() : end].strip() for match, end in zip(starts, ends, strict=True)}


def bibliography(citations: Iterable[tuple[str, str]]) -> str:
    """One BibTeX file for ``(name, citation)`` pairs: which name needs which entry, and each entry once."""
    comments, found = [], {}
    for name, citation in citations:
        own = entries(citation)
        found.update(own)
        comments.append(f"% {name}: {', '.join(own) or citation or 'nothing to cite'}")
    return "\n".join([*comments, "", *(f"{entry}\n" for entry in found.values())])


def in_words(citation: str) -> str:
    """A citation on one line: ``He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016)``."""
    found = entries(citation)
    return "; ".join(map(_entry_in_words, found.values())) if found else citation


def _entry_in_words(entry: str) -> str:
    people = re.split(r"\s+and\s+", _field(entry, "author"))
    names = ", ".join("et al." if person == "others" else person.partition(",")[0] for person in people)
    return f"{names}: {_field(entry, 'title')} ({_field(entry, 'year')})"


def _field(entry: str, name: str) -> str:
    """A field's value without braces and TeX accents."""
    match = re.search(rf"^\s*{name}\s*=\s*\{{(.*?)\}},?$", entry, re.MULTILINE | re.DOTALL)
    text = match[1] if match else ""
    return " ".join(re.sub(r"\\['\"`^~]|[{}]", "", text).split())
