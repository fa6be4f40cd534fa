"""A board is checked by somebody who did not make it: what was edited is found, and what can't be checked is said."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from factories.records import make_record

from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards import trust
from pdebench_hss.boards.findings import CONFIRMED, CONTRADICTED, UNCHECKED, Finding
from pdebench_hss.boards.packing import pack
from pdebench_hss.boards.table_checks import compare_text
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.runs.config import make_config
from pdebench_hss.runs.runner import Run
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store
from pdebench_hss.use.rerunning import BIT, ROUNDING, SEEDS, compare, line
from pdebench_hss.use.verification import Verification, to_json, to_markdown
from pdebench_hss.use.verifying import Request, parse_sample, verify


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two models, two seeds of the one that seeds change; models and predictions are kept."""
    folder = tmp_path_factory.mktemp("verifying")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDEBENCH_HSS_CACHE", str(folder / "cache"))
        config = {"models": "mean,toy_conv", "tasks": "toy", "scale": "smoke", "seeds": 2, "jobs": 1}
        toys = str(Path(__file__).parents[1] / "toys" / "toy_plugin.py")
        Run(
            make_config({**config, "plugins": [toys], "keep_predictions": True, "out": str(folder / "board")})
        ).execute()
    return folder


@pytest.fixture
def board(made, tmp_path, monkeypatch) -> Store:
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(made / "cache"))
    return Store(shutil.copytree(made / "board", tmp_path / "board"))


def found(store: Store, toys: str, **request) -> list:
    chosen = {"data": "0", "rescore": False, "plugin_files": (toys,), **request}
    return verify(store, load_registry([toys]), Request(**chosen))


def contradictions(store: Store, toys: str, **request) -> set[tuple[str, str]]:
    return {(f.check, f.subject) for f in found(store, toys, **request) if f.verdict == CONTRADICTED}


def record_of(store: Store, model="toy_conv", seed=1):
    return next(r for r in store.current() if (r.trial.model, r.trial.seed) == (model, seed))


def resealed(store: Store, record, **changes) -> str:
    """A careful forger hashes again what was edited; returns the words for the trial."""
    samples = changes.pop("samples", store.samples(record.key))
    store.live.write(dataclasses.replace(record, **changes, samples=samples))
    write_board(store, load_registry())
    return f"{record.trial.task_label} {record.trial.model_label} seed {record.trial.seed}"


# --- an honest board --------------------------------------------------------------------------------------------------


def test_all_of_an_honest_board_is_confirmed_and_the_report_says_what(board, toys, cli, tmp_path):
    options = ("--rerun", "50%", "--data", "all", "--report", "reports", "--seed", "5")
    result = cli("verify", "board", "--plugin", toys, *options, timeout=280)
    assert result.code == 0, result.err
    assert "training 2 of 3 trials again" in result.err
    report = json.loads((tmp_path / "reports" / "verification.json").read_text())
    assert (report["verdict"], report["seed"], report["schema"]) == (CONFIRMED, 5, 1)
    counts = {check: list(numbers.values()) for check, numbers in report["counts"].items()}
    assert counts["records"] == [3, 0, 0]
    assert counts["files"] == [6, 0, 0]  # three models, three files of predictions
    assert counts["data"] == [1, 0, 0]
    assert counts["scores"] == [3, 0, 0]
    assert counts["runs"] == [2, 0, 1]  # the one that is not in the sample
    assert counts["tables"][1:] == [0, 0]
    text = (tmp_path / "reports" / "verification.md").read_text()
    assert result.out == text
    assert "Nothing contradicts it" in text
    assert f"- runs: {BIT}: 2" in text
    assert not (board.path / trust.FILE).exists()  # nothing in the board changed


def test_a_packed_board_is_checked_like_a_live_one(board, toys):
    pack(board)
    assert contradictions(Store(board.path), toys, rescore=True) == set()
    samples = board.path / "records" / "packed.samples.npz"
    samples.write_bytes(samples.read_bytes()[:-1] + b"x")
    assert ("files", "records") in contradictions(Store(board.path), toys)


def test_samples_are_drawn_by_the_stated_seed():
    assert [parse_sample(text, "--rerun", 495) for text in ("5%", "0.1%", "0%", "0", "12", "1000", "all", "100 %")] == [
        *(25, 1, 0, 0, 12, 495, 495, 495)
    ]
    for wrong in ("", "5 percent", "-1", "101%", "half"):
        with pytest.raises(UsageError, match="--rerun"):
            parse_sample(wrong, "--rerun", 10)


# --- what was edited --------------------------------------------------------------------------------------------------


def test_an_edited_error_is_found_by_its_hash(board, toys):
    path = board.records_dir / f"{record_of(board).key}.json"
    path.write_text(path.read_text().replace('"test_err": 0.', '"test_err": 0.0'))
    assert contradictions(Store(board.path), toys) == {("records", f"toy toy_conv seed 1 {path.stem}")}


def test_an_error_edited_with_all_that_depends_on_it_is_found_by_scoring_again(board, toys):
    record = record_of(board)
    samples = {n: a * 0.9 if n.startswith("error_") else a for n, a in board.samples(record.key).items()}
    cell = resealed(board, record, metrics={n: v * 0.9 for n, v in record.metrics.items()}, samples=samples)
    assert contradictions(Store(board.path), toys) == set()  # reading does not show it
    assert contradictions(Store(board.path), toys, rescore=True) == {("scores", cell)}


def test_the_same_is_found_by_running_again_where_nothing_was_kept(board, toys):
    record = record_of(board, "mean", seed=0)  # nothing in it is random, so that it is found on any machine
    samples = {n: a * 0.9 if n.startswith("error_") else a for n, a in board.samples(record.key).items()}
    metrics = {n: v * 0.9 for n, v in record.metrics.items()}
    cell = resealed(board, record, metrics=metrics, samples=samples, artefacts={})
    assert contradictions(Store(board.path), toys, rescore=True, rerun="all") == {("runs", cell)}


def test_an_edited_array_is_found_by_its_hash_and_if_hashed_again_by_the_means(board, toys):
    record, other = record_of(board), record_of(board, seed=0)
    samples = dict(board.samples(record.key))
    samples["error_test_err"] = samples["error_test_err"] * np.array([0.5, 1, 1, 1])
    board.live.write(dataclasses.replace(record, samples=samples))
    assert ("records", f"toy toy_conv seed 1 {record.key}") in contradictions(Store(board.path), toys)
    path = board.records_dir / f"{other.key}.npz"
    path.write_bytes(path.read_bytes()[:-30] + bytes(30))
    assert ("records", f"toy toy_conv seed 0 {path.stem}") in contradictions(Store(board.path), toys)


def test_arrays_of_another_trial_are_found(board, toys):
    keys = [record_of(board, seed=seed).key for seed in (0, 1)]
    shutil.copy(board.records_dir / f"{keys[0]}.npz", board.records_dir / f"{keys[1]}.npz")
    assert ("records", f"toy toy_conv seed 1 {keys[1]}") in contradictions(Store(board.path), toys)


def test_a_record_under_another_key_is_found(board, toys):
    keys = [record_of(board, seed=seed).key for seed in (0, 1)]
    for suffix in (".json", ".npz"):
        shutil.copy(board.records_dir / f"{keys[0]}{suffix}", board.records_dir / f"{keys[1]}{suffix}")
    assert ("records", f"toy toy_conv seed 1 {keys[1]}") in contradictions(Store(board.path), toys)


def test_an_edited_data_hash_is_found_beside_others_and_if_all_were_edited_by_making_the_data(board, toys):
    record = record_of(board)
    cell = resealed(board, record, data={**record.data, "sha256": "0" * 64})
    assert ("provenance", cell) in contradictions(Store(board.path), toys)
    for other in Store(board.path).current():
        resealed(board, other, data={**other.data, "sha256": "0" * 64})
    assert contradictions(Store(board.path), toys) == set()
    assert contradictions(Store(board.path), toys, data="all") == {("data", "toy (scale smoke, data seed 0)")}


def test_an_edited_provenance_is_found_by_its_hash_by_the_tables_and_by_what_must_agree(board, toys):
    record = record_of(board)
    path = board.records_dir / f"{record.key}.json"
    honest = path.read_text()
    path.write_text(honest.replace('"cores": ', '"cores": 9'))
    assert ("records", f"toy toy_conv seed 1 {record.key}") in contradictions(Store(board.path), toys)
    path.write_text(honest)
    machine = {**record.provenance["hardware"], "cores": 99}
    cell = resealed(board, record, provenance={**record.provenance, "hardware": machine})
    assert contradictions(Store(board.path), toys) == {("provenance", cell)}
    resealed(board, record, provenance={**record.provenance, "ended": record.provenance["started"] - 1})
    assert contradictions(Store(board.path), toys) == {("provenance", cell)}
    versions = {**record.provenance["versions"], "torch": "9.9"}
    provenance = {**record.provenance, "versions": versions}
    board.live.write(dataclasses.replace(record, provenance=provenance, samples=board.samples(record.key)))
    write_board(board, load_registry())
    (board.path / "README.md").write_text((board.path / "README.md").read_text().replace("torch 9.9", "torch 1.1"))
    assert contradictions(Store(board.path), toys) == {("tables", "README.md")}


@pytest.mark.parametrize("name", ["results.csv", "leaderboard.csv", "leaderboard.md"])
def test_an_edited_table_is_found_with_the_line(board, toys, name):
    path = board.path / name
    error = pd.read_csv(board.path / "leaderboard.csv")["test_err_mean"].min()
    spelled = f"{error:.4f}" if name.endswith(".md") else repr(board.current()[0].metrics["test_err"])
    text = path.read_text() if name != "leaderboard.csv" else path.read_text().replace("toy_conv", "toy_conw")
    path.write_text(text.replace(spelled, "0.0001"))
    (finding,) = (f for f in found(Store(board.path), toys) if f.verdict == CONTRADICTED)
    assert (finding.check, finding.subject) == ("tables", name)
    assert "line" in finding.detail
    assert "the records give" in finding.detail


def test_a_table_of_another_version_is_compared_by_the_columns_that_both_have(board, toys):
    table = pd.read_csv(board.path / "results.csv", dtype=str, keep_default_na=False)
    table.drop(columns="peak_memory_mb").to_csv(board.path / "results.csv", index=False)
    verdicts = {f.subject: f.verdict for f in found(Store(board.path), toys) if f.check == "tables"}
    assert verdicts["results.csv"] == UNCHECKED
    table.drop(columns="peak_memory_mb").assign(seed="7").to_csv(board.path / "results.csv", index=False)
    assert ("tables", "results.csv") in contradictions(Store(board.path), toys)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("| fit ", "| zeit ", UNCHECKED),  # a column by another name
        ("Read with care", "Mind", UNCHECKED),
        ("toy_conv", "toy_conw", CONTRADICTED),
        ("2 of 2", "2 of 3", CONTRADICTED),
    ],
)
def test_a_text_in_the_words_of_another_version_is_no_contradiction_but_other_cells_are(old, new, verdict):
    made = "Read with care: 2 of 2\n\n| # | model | error | fit |\n|---|---|---|---|\n| 1 | toy_conv | 0.1 | 2 s |\n"
    assert compare_text(made.replace(old, new), made)[0] == verdict


def test_edited_predictions_and_weights_are_found(board, toys):
    record, other = record_of(board), record_of(board, seed=0)
    with h5py.File(board.predictions.path(record), "r+") as file:
        file["prediction"][0] *= 1.5
    weights = board.models.folder / f"{other.key}.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))
    expected = {("files", f"predictions/{record.key}.h5"), ("files", f"models/{other.key}")}
    assert contradictions(Store(board.path), toys) == expected


def test_what_was_not_published_is_not_checked_and_contradicts_nothing(board, toys):
    for folder in ("models", "predictions"):
        for path in (board.path / folder).iterdir():
            path.unlink()
    findings = [f for f in found(board, toys) if f.check == "files"]
    assert {f.verdict for f in findings} == {UNCHECKED}
    assert {f.subject.split("/")[0] for f in findings} == {"models", "predictions"}
    assert all("not there" in f.detail for f in findings)


def test_a_link_is_found_and_nothing_else_is_read(board, toys):
    (board.path / "notes").mkdir()
    (board.path / "notes" / "passwords").symlink_to("/etc/passwd")
    findings = found(board, toys, rerun="all")
    assert [(f.verdict, f.subject, f.detail) for f in findings] == [
        (CONTRADICTED, "notes/passwords", "it is a symbolic link")
    ]


def test_what_cant_be_checked_has_a_reason(board):
    findings = verify(board, load_registry(), Request(data="all", rerun="all"))  # without the plugin
    assert {f.verdict for f in findings if f.check in ("data", "runs")} == {UNCHECKED}
    reasons = " ".join(f.detail for f in findings if f.verdict == UNCHECKED)
    assert "task 'toy' is not installed" in reasons
    assert "comes from the file toy_plugin.py; give it with --plugin" in reasons


# --- the same or not --------------------------------------------------------------------------------------------------


def pair(a: float, b: float, **provenance):
    """A record, and another of its trial; arrays of both."""
    first, second = make_record(error=a), make_record(error=b)
    second = dataclasses.replace(second, provenance={**second.provenance, **provenance})
    arrays = [{"error_test_err": np.full(4, e), "error_relative_l2": np.full(4, e)} for e in (a, b)]
    return first, second, *arrays


def test_on_the_same_machine_with_the_same_versions_only_the_bit_counts():
    assert compare(*pair(0.1, 0.1), [0.1, 0.2]).how == BIT
    again = compare(*pair(0.1, np.nextafter(0.1, 1)), [0.1, 0.2])
    assert again.verdict == CONTRADICTED
    assert "not the same" in line(again)


def test_elsewhere_the_interval_of_seeds_decides():
    """By hand: logs of 1, 2, 4 have mean log 2 and deviation log 2; t(0.975, 2) = 4.3027; sqrt(4/3) = 1.1547."""
    seeds, end = [1.0, 2.0, 4.0], 2 * np.exp(4.30265 * np.log(2) * np.sqrt(4 / 3))
    inside, outside = (compare(*pair(2.0, f * end, threads=2), seeds) for f in (0.999, 1.001))
    assert (inside.verdict, inside.how) == (CONFIRMED, SEEDS)
    assert outside.verdict == CONTRADICTED
    assert "threads (1, here 2)" in outside.reason
    assert compare(*pair(2.0, 1.001 * end, threads=2), seeds, trials=20).verdict == CONFIRMED  # of twenty at once
    assert compare(*pair(2.0, 2.0 * (1 + 1e-6), threads=2), [2.0]).how == ROUNDING
    assert compare(*pair(2.0, 3.0, threads=2), [2.0]).verdict == UNCHECKED
    record, *others = pair(2.0, 3.0, threads=2)
    closed = dataclasses.replace(record, trial=dataclasses.replace(record.trial, training_free=True))
    assert compare(closed, *others, [2.0, 2.0]).verdict == CONTRADICTED  # nothing in it is random


def test_a_failure_here_says_nothing_and_another_ending_contradicts_only_on_the_same_machine():
    record, again, *arrays = pair(0.1, 0.1)
    failed = dataclasses.replace(again, status=Status.FAILED, reason="no memory")
    assert compare(record, failed, *arrays, [0.1]).verdict == UNCHECKED
    diverged = dataclasses.replace(again, status=Status.DIVERGED, metrics={})
    assert compare(record, diverged, *arrays, [0.1]).verdict == CONTRADICTED
    elsewhere = dataclasses.replace(diverged, provenance={**diverged.provenance, "threads": 2})
    assert compare(record, elsewhere, *arrays, [0.1]).verdict == UNCHECKED
    assert compare(diverged, diverged, {}, {}, []).verdict == CONFIRMED


# --- levels of trust --------------------------------------------------------------------------------------------------


def day_of(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d")


def test_levels_of_trust_stand_in_the_tables_and_lapse_with_the_result(board, toys, cli):
    before = pd.read_csv(board.path / "results.csv", keep_default_na=False)
    days = {day_of(record.provenance["ended"]) for record in board.current()}
    assert set(before["trust"]) == {"self-reported"}  # by whom and when: as the records say
    assert (set(before["trust_machine"]), set(before["trust_when"])) == (set(before["hardware"]), days)
    page = (board.path / "leaderboard.md").read_text()
    assert "- every row is self-reported: nobody has scored or trained it again" in page
    words = ["verify", "board", "--data", "0", "--no-rescore", "--rerun", "1", "--seed", "5", "--write", "--plugin"]
    assert cli(*words, toys).code == 0
    results = pd.read_csv(board.path / "results.csv", keep_default_na=False)
    assert sorted(results["trust"]) == ["re-run", *["self-reported"] * 2]
    (row,) = results[results["trust"] == "re-run"].to_dict("records")
    assert row["trust_machine"] == row["hardware"]
    assert row["trust_when"][:2] == "20"
    leaderboard = pd.read_csv(board.path / "leaderboard.csv", keep_default_na=False)
    assert sorted(leaderboard["trust"]) == ["re-run 1, self-reported 1", "self-reported"]
    page = (board.path / "leaderboard.md").read_text()
    assert f"re-run 1, self-reported 1 ({row['trust_machine']}, {row['trust_when']})" in page
    assert "- 1 of 2 rows are self-reported: nobody has scored or trained them again" in page
    record = board.read(row["key"], ())[0]
    samples = {n: a * 0.9 if n.startswith("error_") else a for n, a in board.samples(record.key).items()}
    resealed(board, record, metrics={n: v * 0.9 for n, v in record.metrics.items()}, samples=samples)
    assert "re-run" not in (board.path / "results.csv").read_text()


def test_a_contradiction_stands_on_the_board(board, toys, cli):
    record = record_of(board)
    samples = {n: a * 0.9 if n.startswith("error_") else a for n, a in board.samples(record.key).items()}
    resealed(board, record, metrics={n: v * 0.9 for n, v in record.metrics.items()}, samples=samples)
    result = cli("verify", "board", "--plugin", toys, "--data", "0", "--write", "--format", "json")
    assert result.code == 3
    assert json.loads(result.out)["verdict"] == CONTRADICTED
    results = pd.read_csv(board.path / "results.csv", keep_default_na=False).set_index("key")
    assert results.loc[record.key, "trust"] == "contradicted"
    assert sorted(results["trust"]) == ["contradicted", *["re-scored"] * 2]


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"schema": 1}', '{"schema": 2, "checks": []}', '{"schema": 1, "checks": [{"level": "re-run"}]}'],
)
def test_checks_that_cant_be_read_count_for_nothing(board, content):
    (board.path / trust.FILE).write_text(content)
    with pytest.warns(UserWarning, match=r"verified.json can't be used .*count as self-reported"):
        assert trust.read_checks(board.path) == []


def test_a_report_lists_what_contradicts_before_what_was_not_checked(board, toys):
    (board.path / "results.csv").write_text("edited")
    report = Verification("board", found(board, toys), seed=3)
    text = to_markdown(report)
    assert text.index("## Contradicted") < text.index("## Not checked")
    assert "results.csv" in text
    assert json.loads(to_json(report))["counts"]["tables"]["contradicted"] >= 1


def test_a_report_has_one_line_for_one_reason():
    details = [f"predictions/{digit * 24}.h5 is not there any more" for digit in "abc"]
    findings = [Finding("scores", UNCHECKED, f"toy net seed {n}", detail) for n, detail in enumerate(details)]
    findings.append(Finding("runs", UNCHECKED, "9 trials", "none was trained again (--rerun)"))
    lines = [line for line in to_markdown(Verification("board", findings, seed=3)).splitlines() if line[:2] == "- "]
    assert lines == [
        f"- scores: toy net seed 0 and 2 others: {details[0]}",
        "- runs: 9 trials: none was trained again (--rerun)",
    ]
    assert len(json.loads(to_json(Verification("board", findings, seed=3)))["findings"]) == 4


# --- one cell ---------------------------------------------------------------------------------------------------------


def test_one_cell_is_reproduced_in_one_line(board, toys, cli):
    arguments = ("reproduce", "board", "--task", "toy", "--model", "toy_conv", "--seed", "1", "--plugin", toys)
    result = cli(*arguments)
    assert result.code == 0, result.err
    *_, last = result.out.splitlines()
    assert last.startswith(f"toy toy_conv seed 1: the same, {record_of(board).metrics['test_err']!r}, {BIT}")
    record = record_of(board, "mean", seed=0)
    samples = {n: a * 0.9 if n.startswith("error_") else a for n, a in board.samples(record.key).items()}
    resealed(board, record, metrics={n: v * 0.9 for n, v in record.metrics.items()}, samples=samples)
    result = cli(*("mean" if word == "toy_conv" else word for word in arguments))
    assert result.code == 3
    assert "not the same. stated " in result.out


def test_what_cant_be_reproduced_says_why(board, toys, cli):
    result = cli("reproduce", "board", "--task", "toy", "--model", "toy_conf", "--plugin", toys)
    assert result.code == 2
    assert "no model 'toy_conf' in board. Did you mean 'toy_conv'?" in result.err
    result = cli("reproduce", "board", "--task", "toy", "--model", "toy_conv")
    assert result.code == 1
    assert "can't tell. model 'toy_conv' comes from the file toy_plugin.py" in result.out
