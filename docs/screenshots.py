"""Pictures of a board's report for README and docs: a desktop, a trial in dark colours, a phone.

    python docs/screenshots.py leaderboards/small-cpu [#filter=...]     writes docs/images/report*.png

Needs playwright and a chromium on the path. The second argument is the part of a report's address after the #.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.report import write_report

IMAGES = Path(__file__).parent / "images"
COLOURS = 200  # of a palette: a third of the bytes, and no difference to the eye


def main(board: Path, choices: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        path = Path(folder) / "report.html"
        write_report([board], path, load_registry().reference_tables())
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        address = f"{path.as_uri()}#{choices}"
        desktop = open_page(browser, address, 1280, 1000, "light")
        save(desktop, "report.png")
        dark = open_page(browser, address, 1280, 1000, "dark")
        dark.locator("#leaderboard-body tbody a").first.click()
        dark.wait_for_selector("#trial img, #trial .curve svg")
        dark.wait_for_timeout(1000)
        save(dark, "report-dark.png")
        save(open_page(browser, address, 390, 844, "light"), "report-phone.png")
        browser.close()


def open_page(browser: Browser, address: str, width: int, height: int, theme: str) -> Page:
    size = {"width": width, "height": height}
    page = browser.new_context(viewport=size, color_scheme=theme).new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.wait_for_timeout(1000)
    return page


def save(page: Page, name: str) -> None:
    path = IMAGES / name
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"wrote {path.relative_to(IMAGES.parents[1])}, {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2].lstrip("#") if len(sys.argv) == 3 else "")
