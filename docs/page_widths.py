"""Is any page of the built site wider than a phone?   python docs/page_widths.py site

Opens every page in one browser, 390 pixels wide, and prints those that can be scrolled sideways, with what sticks out.
Tables and code may scroll within themselves. Needs playwright and a chromium on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 390, 844
STICKS_OUT = """() => {
  const page = document.scrollingElement;
  if (page.scrollWidth <= innerWidth) return [];
  const inside = (element) => {
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement) {
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX)) return true;
    }
    return false;
  };
  const wide = [...document.body.querySelectorAll("*")].filter(
    (e) => e.getBoundingClientRect().right > innerWidth + 1 && !inside(e));
  const named = wide.slice(0, 3).map((e) => `${e.tagName.toLowerCase()} "${e.textContent.trim().slice(0, 40)}"`);
  return [`${page.scrollWidth} px`, ...named];
}"""


def too_wide(site: Path) -> list[str]:
    """A line for each page that is wider than the window."""
    found = []
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, is_mobile=True, has_touch=True)
        for path in sorted(site.rglob("*.html")):
            page.goto(path.resolve().as_uri())
            if problem := page.evaluate(STICKS_OUT):
                found.append(f"{path.relative_to(site)}: {', '.join(problem)}")
        browser.close()
    return found


if __name__ == "__main__":
    pages = too_wide(Path(sys.argv[1]))
    print("\n".join(pages) or f"no page is wider than {WIDTH} px")
    sys.exit(bool(pages))
