"""The page in a real browser: what a reader does with it, and what must never happen in it."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from factories.boards import held_out_record, page_record, page_trial, usual_board, write_board
from pdebench_hss_studies.published import published_tables

from pdebench_hss import leaderboard
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.report import write_report
from pdebench_hss.report.server import Server

AXE = Path(__file__).parent / "axe" / "axe.min.js"
EVIL = "<img src=x onerror=hacked()></script><script>hacked()</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report([usual_board(folder / "board")], folder / "report.html", published_tables())
    return (folder / "report.html").as_uri()


def until(page, expression: str) -> None:
    """Wait until an expression is true. (The page's policy forbids Playwright's own way, which is good to know.)"""
    for _ in range(150):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never true: {expression}")


def column(page, number: int) -> list[str]:
    cells = page.locator(f"#leaderboard-body tbody tr:not(.group-line) td:nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def models(page) -> list[str]:
    return page.locator("#leaderboard-body tbody a").all_inner_texts()


def choices(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).fragment)


def test_the_leaderboard_has_every_row_with_result_or_reason(page, report):
    page.goto(report)
    assert models(page) == [
        *("Neural-HSS", "FNO", "mean"),
        *("Neural-HSS", "FNO", "mean", "DeepONet", "Green Learning", "ResNet"),
    ]
    text = page.locator("#leaderboard-body").inner_text()
    assert "0.1050 ± 0.0071" in text
    assert "+88 %" in text
    for reason in ("missing: not run yet", "skipped: needs a linear PDE", "failed: ValueError: the kernel is too wide"):
        assert reason in text


def test_the_header_says_what_speaks_against_the_board(page, report):
    page.goto(report)
    box = page.locator("#caveats")
    assert "Read with care" in box.locator("summary").inner_text()
    box.locator("summary").click()
    assert any("options were not tuned" in line for line in box.locator("li").all_inner_texts())


def test_a_click_on_a_column_sorts_a_second_turns_and_a_third_restores(page, report):
    page.goto(report)
    page.get_by_role("button", name="Error", exact=True).click()
    ordered = [float(text.split()[0]) for text in column(page, 4)[:6]]
    assert ordered == [0.0105, 0.0205, 0.09, 0.105, 0.205, 0.9]
    header = page.locator("th", has=page.get_by_role("button", name="Error", exact=True))
    assert header.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="Error", exact=True).click()
    assert column(page, 4)[0].startswith("0.9000")
    assert header.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Error", exact=True).click()
    assert "sort" not in choices(page)


def test_filters_narrow_every_section_and_stand_in_the_address(page, report):
    page.goto(report)
    page.select_option("select[name=task]", "heat_1d")
    assert models(page) == ["Neural-HSS", "FNO", "mean"]
    assert page.locator("#count").inner_text() == "3 of 9 rows"
    assert choices(page) == {"task": ["heat_1d"]}
    assert "poisson_2d" not in page.locator("#overview-body").inner_text()
    assert "Poisson" not in page.locator("#paper-body").inner_text()
    page.fill("input[name=q]", "fno")
    assert models(page) == ["FNO"]
    page.get_by_role("button", name="Clear").click()
    assert len(models(page)) == 9


def test_a_shared_link_shows_the_same_rows_order_and_trial(page, browser, report):
    page.goto(report)
    page.select_option("select[name=task]", "poisson_2d")
    page.get_by_role("button", name="Skill", exact=True).click()
    page.locator("#leaderboard-body").get_by_role("link", name="FNO").click()
    page.locator("#trial").wait_for()
    other = browser.new_page()
    other.goto(page.url)
    assert other.locator("#trial-title").inner_text() == "FNO on poisson_2d"
    other.keyboard.press("Escape")
    other.locator("#trial").wait_for(state="hidden")
    assert models(other) == models(page)
    assert choices(other) == {"task": ["poisson_2d"], "sort": ["skill"]}
    other.close()


def test_a_trial_opens_with_charts_pictures_settings_and_provenance_and_back_closes_it(page, report):
    page.goto(report)
    page.locator("#leaderboard-body").get_by_role("link", name="FNO").first.click()
    dialog = page.get_by_role("dialog")
    assert "FNO on heat_1d" in dialog.inner_text()
    until(page, "document.querySelectorAll('#trial .chart svg.main-svg').length >= 2")
    until(page, "document.querySelectorAll('#trial img').length === 14")
    assert page.evaluate(
        "[...document.querySelectorAll('#trial img')].every((i) => i.complete && i.naturalWidth === 16)"
    )
    for fact in ("hparams.width", "optimizer.lr", "a cpu", "abc", "0.020000000000000004"):
        assert fact in dialog.inner_text()
    dialog.get_by_role("link", name="seed 1").click()
    assert "0.021" in dialog.locator("[aria-current]").inner_text()
    page.go_back()
    page.go_back()
    page.locator("#trial").wait_for(state="hidden")


def test_charts_are_drawn_when_they_come_into_view(page, report):
    page.goto(report)
    for section in ("pareto", "learning"):
        page.locator(f"#{section}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#{section} .chart svg.main-svg")
    page.select_option("#cost", "params_real")
    page.wait_for_selector("#pareto .chart svg.main-svg")
    label = page.locator("#pareto .chart").first.get_attribute("aria-label")
    assert "Error against parameters on heat_1d" in label
    assert "Not beaten in both: Neural-HSS" in label


def test_a_trial_shows_quantiles_of_its_errors_where_they_are_and_how_fast_it_answers(page, report):
    page.goto(report)
    page.locator("#leaderboard-body").get_by_role("link", name="FNO").last.click()
    until(page, "document.querySelectorAll('#trial img').length === 14")
    maps = page.locator("#trial figure").filter(has_text="all test samples").locator("img")
    assert [text.split(",")[0] for text in maps.evaluate_all("images => images.map(image => image.alt)")] == [
        "mean |error| of all test samples",
        "worst |error| of all test samples",
    ]
    facts = page.locator("#trial .facts").inner_text()
    assert re.search(r"median\s+0.2\b", facts)
    assert re.search(r"90 % below\s+0.276\b", facts)  # of 0.1, 0.16, 0.2, 0.24, 0.3
    assert re.search(r"latency of one input / ms\s+0.7 \(0.6 to 0.9\)", facts)
    assert re.search(r"answers a second\s+2500 \(2000 to 2600\)", facts)


def test_several_train_sizes_make_a_study(page, tmp_path):
    records = [page_record(page_trial(n_train=n), 1 / n) for n in (16, 32, 64)]
    write_report([write_board(tmp_path / "board", records)], tmp_path / "report.html", published_tables())
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#studies").scroll_into_view_if_needed()
    page.wait_for_selector("#studies .chart svg.main-svg")
    label = page.locator("#studies .chart").get_attribute("aria-label")
    assert label == "Error on poisson_2d against training samples: 16, 32, 64."


def tuned_board(folder: Path) -> Path:
    """Samples were held out; one model has its own loss, one was tuned, one trains itself and has no curve."""
    tuned = {"tries": 12, "seconds": 612.0, "options": {"lr": 0.0043, "rank": 12, "levels": 2, "outer_rank": 31}}
    records = [
        held_out_record(page_trial("fno", val=16, training="own loss, own optimiser"), [0.5, 0.3, 0.2], 0.21),
        held_out_record(page_trial("neural_hss", val=16, tuned=tuned), [0.4, 0.2, 0.1], 0.11),
        held_out_record(page_trial("mean", val=16, training_free=True), [0.9], 0.9),
    ]
    other = page_record(page_trial("resnet", "heat_1d", training="trains itself"))
    return write_board(folder, [*records, other])


def test_a_row_shows_own_training_and_tuning_and_charts_show_the_held_out_error(page, tmp_path):
    write_report([tuned_board(tmp_path / "board")], tmp_path / "report.html", published_tables())
    page.goto((tmp_path / "report.html").as_uri())
    notes = page.locator("#leaderboard-body td.name .note").all_inner_texts()
    tuning = "12 tries, 612 s: lr=0.0043 rank=12 levels=2 outer_rank=31"
    assert notes == ["trains itself", tuning, "own loss, own optimiser"]
    settings = page.locator("#leaderboard-body .group-line").all_inner_texts()
    assert ["n=64 + 16 held out" in text for text in settings] == [False, True]
    page.locator("#learning").scroll_into_view_if_needed()
    until(page, "document.querySelectorAll('#learning .chart:has(svg.main-svg)').length === 3")
    labels = [chart.get_attribute("aria-label") for chart in page.locator("#learning .chart").all()]
    assert labels == [
        "Training loss on heat_1d against steps, 1 model.",
        "Training loss on poisson_2d against steps, 2 models.",
        "Error on held-out samples on poisson_2d against steps, 2 models.",
    ]
    drawn = page.evaluate("[...document.querySelectorAll('#learning .chart')][2].data.map((line) => [...line.y])")
    assert drawn == [[0.4, 0.2, 0.1], [0.5, 0.3, 0.2]]
    page.locator("#leaderboard-body").get_by_role("link", name="Neural-HSS").click()
    dialog = page.get_by_role("dialog")
    until(page, "document.querySelectorAll('#trial .chart:has(svg.main-svg)').length === 3")
    summary = "Relative_l2 of held-out samples from 0.4000 to 0.1000."
    assert dialog.locator(".chart").nth(2).get_attribute("aria-label") == summary
    for fact in ("12 tries, 612 s", "held-out", "samples held out", "tuned.outer_rank"):
        assert fact in dialog.inner_text()


def test_words_find_rows_by_their_training(page, tmp_path):
    write_report([tuned_board(tmp_path / "board")], tmp_path / "report.html", published_tables())
    page.goto((tmp_path / "report.html").as_uri())
    page.fill("input[name=q]", "own loss")
    assert models(page) == ["FNO"]


def test_nothing_a_plugin_says_runs_in_the_page(browser, tmp_path):
    evil = page_trial(EVIL, EVIL, equation=EVIL, hparams={EVIL: EVIL})
    records = [page_record(evil), page_record(page_trial("fno", EVIL, equation=EVIL), None, "failed", EVIL)]
    records += [page_record(page_trial(EVIL, EVIL, n_train=32, equation=EVIL))]
    write_report([write_board(tmp_path / "board", records)], tmp_path / "report.html", published_tables())
    page = browser.new_page()
    page.add_init_script("window.hacks = 0; window.hacked = () => { window.hacks += 1; };")
    page.goto((tmp_path / "report.html").as_uri())
    for section in ("pareto", "studies", "learning"):
        page.locator(f"#{section}").scroll_into_view_if_needed()
    page.wait_for_selector("#studies .chart svg.main-svg")
    page.locator("#leaderboard-body tbody a").first.click()
    page.wait_for_selector("#trial .chart svg.main-svg")
    assert EVIL in page.locator("#leaderboard-body").inner_text()
    assert page.evaluate("window.hacks") == 0
    assert page.evaluate("document.querySelectorAll('img[src=x], [onerror]').length") == 0
    page.close()


def test_an_empty_board_says_so(page, tmp_path):
    write_report([write_board(tmp_path / "board", [])], tmp_path / "report.html", published_tables())
    page.goto((tmp_path / "report.html").as_uri())
    assert "The board has no records yet" in page.locator("#empty").inner_text()
    assert not page.locator("#leaderboard").is_visible()


def test_an_unknown_trial_in_a_link_is_explained(page, report):
    page.goto(f"{report}#trial=0-nobody")
    assert "This page has no trial 0-nobody" in page.locator("#trial").inner_text()


def test_a_live_board_grows_by_itself_and_keeps_the_open_trial(page, tmp_path):
    board = write_board(tmp_path / "board", [page_record(page_trial("fno"), 0.2)], [page_trial("resnet")])
    with Server(board, "127.0.0.1", 0, published_tables()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(server.address)
        page.locator("#leaderboard-body").get_by_role("link", name="FNO").click()
        until(page, "document.querySelectorAll('#trial img').length === 14")
        assert "missing: not run yet" in page.locator("#leaderboard-body").inner_text()
        write_board(board, [page_record(page_trial("resnet"), 0.1)])
        until(page, "document.querySelector('#leaderboard-body').innerText.includes('0.1000')")
        assert page.locator("#trial-title").is_visible()
        page.keyboard.press("Escape")
        assert models(page) == ["ResNet", "FNO"]
        assert page.locator("#live").inner_text() == "● live"
        page.goto("about:blank")
        server.shutdown()


def test_a_reader_without_a_mouse_can_filter_sort_and_open_a_trial(page, report):
    page.goto(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the leaderboard"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "leaderboard"
    page.keyboard.press("Tab")  # the scrollable region
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.sort") == "rank"
    page.keyboard.press("Enter")
    assert choices(page) == {"sort": ["rank"]}
    assert page.evaluate("document.activeElement.dataset.sort") == "rank"
    page.locator("#leaderboard-body tbody a").first.focus()
    page.keyboard.press("Enter")
    page.locator("#trial").wait_for()
    assert page.evaluate("document.activeElement.id") == "trial-title"
    page.keyboard.press("Escape")
    page.locator("#trial").wait_for(state="hidden")


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing(browser, report, theme, width):
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme, bypass_csp=True)
    page = context.new_page()
    page.goto(report)
    for state in ("", "trial"):
        if state:
            page.locator("#leaderboard-body tbody a").first.click()
            until(page, "document.querySelectorAll('#trial img').length === 14")
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run()")
        assert len(found["passes"]) > 15
        assert [(v["impact"], v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]] == []
    context.close()


def test_a_phone_shows_the_page_without_scrolling_sideways(browser, report):
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    page = context.new_page()
    page.goto(report)
    page.wait_for_selector("#leaderboard-body tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#leaderboard-body").get_by_role("link", name="FNO").first.is_visible()
    context.close()


def test_printing_draws_every_chart_in_light_colours(browser, report):
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(report)
    page.wait_for_selector("#learning .chart", state="attached")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    until(
        page,
        "[...document.querySelectorAll('main .chart')].every((chart) => chart.querySelector('svg.main-svg'))",
    )
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    context.close()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A board whose models stand in another order by each of its metrics, one of them better the higher it is."""
    spread, records = [0.8, 0.9, 1.0, 1.1, 1.2], []
    values = {"fno": (0.1, 0.4, 3.0), "resnet": (0.2, 0.3, 6.0), "mean": (0.9, 1.0, 2.0), "deeponet": (0.5, None, None)}
    for model, (error, *further) in values.items():
        for seed in (0, 1):
            trial = page_trial(model, seed=seed, training_free=model == "mean")
            usual = page_record(trial, error)
            own = {n: v * (1 + 0.1 * seed) for n, v in zip(("vrmse", "correlation_time"), further) if v is not None}
            arrays = {f"error_{name}": mean * np.array(spread) for name, mean in own.items()}
            samples = {**usual.samples, **arrays, "step_relative_l2": np.array([0.1, 0.2, 0.4])}
            records.append(page_record(trial, error, metrics={**usual.metrics, **own}, samples=samples))
    records.append(page_record(page_trial("fno", "heat_1d"), 0.1))
    folder = tmp_path_factory.mktemp("measured")
    path = write_board(folder / "board", records)
    specs = load_registry().metric_specs()
    write_report([path], folder / "report.html", published_tables(), specs)
    return path, (folder / "report.html").as_uri()


@pytest.mark.parametrize("name", ["vrmse", "correlation_time", "rmse"])
def test_a_chosen_metric_gives_the_table_that_the_command_line_gives(page, measured, name):
    path, address = measured
    page.goto(address)
    page.select_option("select[name=metric]", name)
    expected = leaderboard(path, name)
    expected = expected[expected["n_seeds"] > 0]
    ranks = [text for text in column(page, 1) if text != "–"]
    assert ranks == [str(rank) for rank in expected["rank"]]
    shown = [text.split(" ±")[0] for text in column(page, 3)][: len(expected)]
    assert [float(text) for text in shown] == pytest.approx(list(expected["test_err_mean"]), rel=1e-3)
    assert choices(page) == {"metric": [name]}
    note = page.locator("#metric-note").inner_text()
    assert ("Higher" if name == "correlation_time" else "Lower") + " is better" in note


def test_a_metric_marks_its_own_best_and_says_what_it_lacks(page, measured):
    page.goto(measured[1])
    best = "#overview-body td.best"
    assert page.locator(best).first.inner_text() == "0.1000"
    page.select_option("select[name=metric]", "correlation_time")
    assert models(page) == ["ResNet", "FNO", "mean", "DeepONet"]
    text = page.locator("#leaderboard-body").inner_text()
    assert "missing: correlation_time was not measured" in text
    assert "heat_1d" not in text
    assert "+200 %" in text  # 6 steps against the 2 of the baseline
    assert "own metric" in page.locator("#paper-body").inner_text()
    page.locator("#leaderboard-body").get_by_role("link", name="ResNet").click()
    dialog = page.get_by_role("dialog")
    assert "correlation_time" in dialog.inner_text()
    assert "Error at each step" in dialog.inner_text()
    until(page, "document.querySelectorAll('#trial .chart svg.main-svg').length >= 3")


def test_a_page_that_was_told_of_no_metrics_offers_none(page, report):
    page.goto(report)
    assert page.locator("select[name=metric]").is_hidden()
