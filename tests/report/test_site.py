"""The boards as pages of the site: the list, each board, every cell under an address that stays, on a phone too."""

from __future__ import annotations

import functools
import json
import shutil
import threading
import urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin

import pytest
from factories.boards import page_record, page_trial, usual_board, write_board
from mkdocs.commands.build import build
from mkdocs.config import load_config

from pdebench_hss.boards.index import write_index
from pdebench_hss.contract.budget import Budget
from pdebench_hss.report import make_report
from pdebench_hss.report.shelf import Shelf
from pdebench_hss.trials.store import Store

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("all-boards.md", "leaderboards.md", "boards.md", "submit.md", "trust.md")
EVIL = "<img src=x onerror=hacked()>[x](https://example.org)"
PHONE = {"width": 360, "height": 740}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass


def shelf(folder: Path) -> Path:
    """Three boards in three kinds of places; the contact of the submission is that of somebody with ideas."""
    usual_board(folder / "small-cpu")
    steps = {n: page_trial("fno", model_label="fno[modes=4]", budget=Budget("steps", n)) for n in (100, 400)}
    write_board(folder / "studies" / "ladder-small", [page_record(trial, 1 / n) for n, trial in steps.items()])
    submission = folder / "submissions" / "mine"
    write_board(submission / "board", [page_record(page_trial("net"), 0.5)])
    for board in ("small-cpu", "submissions/mine/board"):
        (folder / board / "leaderboard.csv").write_text(f"task,model\n{board},x\n")
    manifest = {"schema": 1, "name": "mine", "licence": "MIT", "contact": EVIL, "plugins": {}}
    (submission / "submission.json").write_text(json.dumps(manifest))
    (submission / "verification.json").write_text('{"schema": 1}')
    write_index(folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The site with its own theme, hooks and strictness, of some of the documents and a shelf of three boards."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "docs").mkdir()
    for name in DOCUMENTS:
        shutil.copy(ROOT / "docs" / name, folder / "docs" / name)
    (folder / "docs" / "index.md").write_text("# Start\n\nSee [all boards](all-boards.md).\n")
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        docs_dir=str(folder / "docs"),
        site_dir=str(folder / "site"),
        nav=["index.md", "contributing.md", *DOCUMENTS],
        plugins=["search"],
        strict=True,
    )
    config.hooks["docs/hooks.py"].SHELF = Shelf(shelf(folder / "leaderboards"))
    config.hooks["docs/generated.py"].gallery = lambda: ("# Gallery\n", {})  # figures are no part of this
    build(config)
    return folder


@pytest.fixture(scope="module")
def site(built):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def cells(built) -> list[dict]:
    return json.loads((built / "leaderboards" / "index.json").read_text())["cells"]


def test_the_list_names_every_board_and_all_that_it_leads_to_is_there(page, site, built):
    page.goto(f"{site}all-boards/")
    titles = page.locator("article h3").all_inner_texts()
    assert [title.rstrip("¶") for title in titles] == ["small-cpu", "studies/ladder-small", "submissions/mine"]
    text = page.locator("article").inner_text()
    assert "6 models on 2 tasks · 15 trials, 12 with a result · scale small" in text
    assert "Trust: 12 self-reported." in text
    assert EVIL in text.replace("\\", "")
    places = page.locator("article a[href]").evaluate_all("links => links.map(link => link.href)")
    own = {place.split("#")[0] for place in places if place.startswith(site)}
    assert {f"{site}boards/submissions/mine/{name}" for name in ("leaderboard.csv", "verification.json")} <= own
    assert not [place for place in places if "example.org" in place]
    for place in own:
        assert urllib.request.urlopen(place).status == 200
    got = urllib.request.urlopen(f"{site}boards/small-cpu/leaderboard.csv").read()
    assert got == (built / "leaderboards" / "small-cpu" / "leaderboard.csv").read_bytes()
    assert urllib.request.urlopen(f"{site}boards/index.json").status == 200


def test_from_the_list_to_a_board_and_back(page, site):
    page.goto(f"{site}all-boards/")
    page.get_by_role("link", name="Report").first.click()
    page.wait_for_url(f"{site}boards/small-cpu/")
    assert "small-cpu · 15 trials" in page.locator("#subtitle").inner_text()
    levels = page.locator("#leaderboard-body tbody tr td:last-child").all_inner_texts()
    assert "self-reported\nmachine-a, 2023-11-14" in levels
    assert page.get_by_role("link", name="leaderboard.csv").get_attribute("href") == "leaderboard.csv"
    page.get_by_role("link", name="All boards").click()
    page.wait_for_url(f"{site}all-boards/")
    assert page.locator("article h1").inner_text().startswith("All boards")


def test_every_address_of_the_index_opens_its_cell(page, site, built):
    titles = {"fno": "FNO", "neural_hss": "Neural-HSS", "green_learning": "Green Learning", "resnet": "ResNet"}
    titles |= {"deeponet": "DeepONet", "fno[modes=4]": "FNO (modes=4)"}  # as the paper prints them
    found = cells(built)
    assert len(found) == 12
    for cell in found:
        page.goto(urljoin(site, cell["address"]))
        model = titles.get(cell["model"], cell["model"])
        assert page.locator("#trial-title").inner_text() == f"{model} on {cell['task']}"
        link = page.locator("#trial .address a")
        assert urljoin(page.url, link.get_attribute("href")) == urljoin(site, cell["address"])
        assert cell["budget"].replace("steps=", "") in page.locator("#trial-body").inner_text()


def test_an_address_cut_short_shows_all_below_it_and_one_of_nothing_says_so(page, site):
    page.goto(f"{site}boards/studies/ladder-small/#cell=poisson_2d/fno%5Bmodes=4%5D")
    assert not page.locator("#trial").is_visible()
    assert page.locator("#count").inner_text() == "2 rows"
    page.goto(f"{site}boards/small-cpu/#cell=heat_1d")
    assert page.locator("#count").inner_text() == "3 of 9 rows"
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#count").inner_text() == "9 rows"
    page.goto(f"{site}boards/small-cpu/#cell=heat_1d/fn")
    assert page.locator("#trial-title").inner_text() == "No such cell"
    page.get_by_role("button", name="Close").click()
    assert page.url.endswith("#")
    assert page.locator("#count").inner_text() == "9 rows"


def test_an_address_stays_when_rows_are_added_and_the_cell_is_run_again(page, site, built, tmp_path):
    """In the file that somebody keeps, too: nothing of the address is the server's."""
    board = shutil.copytree(built / "leaderboards" / "small-cpu", tmp_path / "board")
    newer = [page_trial("fno", "heat_1d", seed, model_version="2", data_id="newer data") for seed in (0, 1)]
    others = [page_trial("unet", "heat_1d"), page_trial("fno", "heat_1d", n_train=17)]
    others.append(page_trial("fno", "heat_1d", data_seed=7, data_id="another draw"))
    Store(board).add_to_plan([*newer, *others])
    for trial in (*newer, *others):
        Store(board).put(page_record(trial, 0.003))
    (tmp_path / "report.html").write_text(make_report([board])[0])
    (address,) = (c["address"] for c in cells(built) if (c["board"], c["task"], c["model"]) == (0, "heat_1d", "fno"))
    page.goto((tmp_path / "report.html").as_uri() + "#" + address.split("#")[1])
    assert page.locator("#trial-title").inner_text() == "fno on heat_1d"
    assert "seed 0: 3.00e−3" in page.locator("#trial .seeds").inner_text()
    page.goto((tmp_path / "report.html").as_uri() + "#" + address.split("#")[1] + "/data_seed=7")
    assert page.locator("#trial-title").inner_text() == "fno on heat_1d"
    assert "data seed 7" in page.locator("#trial-body").inner_text()


def test_no_page_is_wider_than_a_phone(page, site):
    page.set_viewport_size(PHONE)
    for place in ("all-boards/", "boards/", "boards/small-cpu/", "boards/submissions/mine/"):
        page.goto(f"{site}{place}")
        assert fits(page), place
    page.goto(f"{site}boards/small-cpu/#cell=poisson_2d/neural_hss")
    assert page.locator("#trial").is_visible()
    assert fits(page)
    box = page.locator("#trial .address").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
