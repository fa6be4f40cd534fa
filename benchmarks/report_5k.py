"""A page about 5,000 trials: how long it takes to make, how large it is, how fast it opens and filters.

    python benchmarks/report_5k.py            makes the page and times the making
    python benchmarks/report_5k.py --browser  also opens it in Chromium (needs playwright and a chromium on the path)

Two boards of 25 models: 20 tasks with 10 seeds each (500 rows), and 200 tasks with one (5,000 rows). Each trial has 200
test errors, a learning curve and 32 x 32 pictures, none of it measured.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from pdebench_hss_studies.published import published_tables

from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.report.gallery import gallery
from pdebench_hss.report.page import render
from pdebench_hss.report.page_data import Board, page_data
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.trial import Trial

MODELS, SAMPLES, STEPS = 25, 200, 500


def make_board(tasks: int, seeds: int, rng: np.random.Generator) -> Board:
    records, errors, curves = [], {}, {}
    for task in range(tasks):
        for model in range(MODELS):
            for seed in range(seeds):
                record = make_record(f"task_{task:03}", f"model_{model:02}", seed, rng)
                records.append(record)
                if record.status is Status.OK:
                    errors[record.key] = record.metrics["test_err"] * rng.lognormal(0, 0.3, SAMPLES)
                    curves[record.key] = (np.arange(STEPS), np.exp(-np.arange(STEPS) / 100) + rng.random(STEPS) / 50)
    return Board("five-thousand", records, errors, curves)


def make_record(task: str, model: str, seed: int, rng: np.random.Generator) -> Record:
    trial = Trial(
        model=model, model_label=model, model_version="1", task=task, task_label=task,
        task_params={}, equation=f"{task} Eq.",
        hparams={"width": 32, "depth": 4, "seed_of_width": model}, optimizer=Optimizer(16, 1e-3, 1e-5, 0.0),
        data_id=f"data of {task}", data_seed=0, scale="small", budget=Budget("steps", 500), n_train=256,
        seed=seed, device="cpu", metric="relative_l2", training_free=model < "model_03",
    )  # fmt: skip
    key = f"{int(task[-3:]) * 1000 + int(model[-2:]) * 20 + seed:024x}"
    provenance = {"hardware": {"id": "machine"}, "versions": {"torch": "2"}, "source": {}, "threads": 1}
    if rng.random() < 0.03:
        return Record(key, trial, Status.FAILED, "RuntimeError: made to fail", provenance=provenance)
    error = float(rng.lognormal(-3 + int(model[-2:]) / 10, 0.2))
    return Record(
        key, trial, Status.OK, "",
        dict.fromkeys(("test_err", "relative_l2", "trajectory_l2", "rmse", "max_error"), error),
        {"real": 10_000 * (1 + int(model[-2:])), "numel": 10_000}, {"steps": 500, "flops": 1e12}, 1e9,
        {"fit": float(rng.lognormal(3, 0.5)), "total": 60.0}, float(rng.lognormal(0, 0.3)), 100_000_000,
        {"sha256": "0" * 64, "n_train": 256, "n_test": SAMPLES}, provenance,
    )  # fmt: skip


def make_pictures(trial: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(int(trial.rpartition("-")[2], 16))
    field = np.cumsum(np.cumsum(rng.standard_normal((3, 1, 32, 32)), axis=2), axis=3)
    return {"picture_index": np.arange(3), "picture_input": field, "picture_truth": field, "picture_error": field / 50}


def browse(path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("#leaderboard-body tbody tr")
        print(f"open     {time.perf_counter() - start:6.2f} s   until the leaderboard is there")
        for words in ("model_07", "task_011", "failed", ""):
            spent = page.evaluate(FILTER, words)
            print(f"filter   {spent:6.0f} ms  search for {words!r}, until the tables are drawn")
        spent = page.evaluate(SORT)
        print(f"sort     {spent:6.0f} ms  by skill")
        browser.close()


FILTER = """async (words) => {
  const box = document.forms.filters.elements.q;
  const start = performance.now();
  box.value = words;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.offsetHeight;  // layout is part of the wait
  return performance.now() - start;
}"""
SORT = """() => {
  const start = performance.now();
  document.querySelector('[data-sort="skill"]').click();
  document.body.offsetHeight;
  return performance.now() - start;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", action="store_true")
    arguments = parser.parse_args()
    for tasks, seeds in ((20, 10), (200, 1)):
        measure(make_board(tasks, seeds, np.random.default_rng(0)), arguments.browser)


def measure(board: Board, browser: bool) -> None:
    start = time.perf_counter()
    data = page_data([board], published_tables())
    shown = gallery(data["summary"]["rows"], make_pictures)
    text = render(data, shown, "5,000 trials")
    what = f"{len(board.records)} trials, {len(shown)} with pictures"
    print(f"make     {time.perf_counter() - start:6.2f} s   {what}")
    print(f"size     {len(text.encode()) / 1e6:6.2f} MB")
    if browser:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            path.write_text(text, encoding="utf-8")
            browse(path)


if __name__ == "__main__":
    main()
