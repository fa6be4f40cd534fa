"""The page as one file with template, style, scripts, library and data; it fetches nothing.

Names, reasons and settings come from plugins and are not trusted:

* data are JSON inside ``<script type="application/json">``, with every ``<`` written as an escape, so that nothing in
  them can end the element;
* the page's own scripts put them on screen as text, never as markup;
* a content security policy allows only scripts with the listed hashes, and no connections (for a served page: only to
  its own server).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..base.files import human_bytes
from .gallery import PICTURE_BYTES
from .packing import pack

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("state.js", "metrics.js", "format.js", "tables.js", "charts.js", "figures.js", "trial.js", "main.js")
LIBRARY = "plotly-basic.min.js"


def render(
    data: dict[str, Any] | None, gallery: dict[str, Any] | None, title: str, links: Mapping[str, str] | None = None
) -> str:
    """The page. Without data it is a live page, which requests them from its server. ``links`` leads to what lies
    beside it, by what to write: other pages, and files to download."""
    packed = pack(data) if data else None
    scripts = [_asset(LIBRARY), page_script()]
    parts = {
        "policy": policy(scripts, live=data is None),
        "title": escape_text(title),
        "style": _asset("style.css"),
        "links": _links(links or {}),
        "limit": human_bytes(PICTURE_BYTES),
        "mode": "live" if data is None else "file",
        "summary": embed(packed and packed["summary"]),
        "details": embed(packed and packed["details"]),
        "pictures": embed(gallery),
        "library": scripts[0],
        "script": scripts[1],
    }
    head, *rest = _asset("page.html").split("{{")
    return head + "".join(parts[name] + text for name, _, text in (piece.partition("}}") for piece in rest))


@lru_cache
def page_script() -> str:
    """The page's own scripts as one, in a scope of its own."""
    return '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"


def policy(scripts: list[str], live: bool) -> str:
    """Inline styles are allowed because the chart library sets them; scripts only by hash."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def embed(value: Any) -> str:
    """JSON that is safe inside a script element, whatever strings it holds."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _links(links: Mapping[str, str]) -> str:
    made = (f'<a href="{escape_text(place)}">{escape_text(name)}</a>' for name, place in links.items())
    return f'<p class="links">{" ".join(made)}</p>' if links else ""


def escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


@lru_cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
