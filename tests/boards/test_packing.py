"""A packed board is the same board in three files: nothing that a table is made of changes, and nothing is lost."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from factories.boards import page_record, page_trial, usual_board, write_board
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdebench_hss.base.errors import StoreError, UsageError
from pdebench_hss.boards import writing
from pdebench_hss.boards.merging import merge
from pdebench_hss.boards.packing import pack
from pdebench_hss.boards.reading import read_board
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.report import make_report
from pdebench_hss.trials import packed_records
from pdebench_hss.trials.lock import BoardLock
from pdebench_hss.trials.small_pictures import PICTURE, shrink
from pdebench_hss.trials.status import STORED
from pdebench_hss.trials.store import Store

ROOT = Path(__file__).parents[2]
PACK = {"packed.jsonl.gz", "packed.samples.npz", "packed.pictures.npz"}


@pytest.fixture
def board(tmp_path) -> Path:
    return usual_board(tmp_path / "board")


def everything(folder: Path, pictures: bool = False) -> dict[str, object]:
    """All that a board says of its records: fields, and arrays to the last bit."""
    store = Store(folder)
    said: dict[str, object] = {"current": store.current(), "plan": store.plan(), "commands": store.commands()}
    for key in sorted(store.live.keys() | store.packed.keys()):
        said[key] = store.get(key)
        for name, array in store.samples(key).items():
            if pictures or name not in PICTURE:
                said[f"{key} {name}"] = (array.dtype.name, array.shape, array.tobytes())
    return said


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "records").iterdir()) if path.is_file()}


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in writing.write_board(Store(folder), load_registry())[1]}


# --- the same board ---------------------------------------------------------------------------------------------------

error = st.floats(1e-300, 1e300)
curve = st.lists(st.floats(width=64, allow_nan=True), max_size=5)
a_trial = st.tuples(
    st.sampled_from(["mean", "fno"]), st.integers(0, 3), st.sampled_from(STORED),
    st.lists(error, min_size=5, max_size=5), curve, st.booleans(), st.text(max_size=20),
)  # fmt: skip


def random_records(trials) -> list:
    records = {}
    for model, seed, status, errors, losses, pictures, reason in trials:
        trial = page_trial(model, seed=seed)
        if status not in ("ok", "diverged"):
            records[trial.key] = page_record(trial, None, status, reason)
            continue
        record = page_record(trial, float(np.mean(errors)), status, reason, pictures=pictures)
        samples = {
            **record.samples,
            "error_test_err": np.array(errors),
            "test_group": np.arange(5, dtype=np.int32) // 2,
        }
        samples |= {"curve_steps": np.arange(len(losses)), "curve_losses": np.array(losses, float)}
        records[trial.key] = dataclasses.replace(record, samples=samples)
    return list(records.values())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(a_trial, min_size=1, max_size=6), st.booleans(), st.integers(0, 6))
def test_a_pack_gives_back_what_it_was_made_of(tmp_path_factory, trials, pictures, cut):
    folder = tmp_path_factory.mktemp("packing")
    records = random_records(trials)
    board = write_board(folder / "board", records)
    before, text = everything(board), tables(board)
    assert pack(Store(board), pictures).records == len(records)
    assert set(files(board)) <= PACK
    assert everything(board) == before
    assert tables(board) == text
    once = files(board)
    pack(Store(board), pictures)
    assert files(board) == once
    # in two steps, the second with newer records beside the pack of the first
    steps = write_board(folder / "steps", records[:cut], [record.trial for record in records])
    if records[:cut]:
        pack(Store(steps), pictures=False)
    for record in records[cut:]:
        Store(steps).put(record)
    pack(Store(steps), pictures=False)
    pack(Store(board), pictures=False)
    assert files(steps) == files(board)
    shutil.rmtree(folder)


def test_a_packed_board_has_a_handful_of_files_and_says_what_was_saved(board):
    done = pack(Store(board))
    assert set(files(board)) == PACK
    assert done.records == 14
    assert done.pictures == 6  # three models on two tasks, one seed each
    assert done.before == (26, done.before[1])  # 14 records, 12 of them with arrays
    assert done.after == (3, sum(map(len, files(board).values())))


def test_every_reader_reads_both_forms(board, tmp_path):
    live = shutil.copytree(board, tmp_path / "live" / "board")
    pack(Store(board))
    assert read_board(board).summary.equals(read_board(live).summary)
    (_, counts), (_, before) = make_report([board]), make_report([live])
    assert counts == before


def test_arrays_that_are_alike_are_stored_once(tmp_path):
    records = [page_record(page_trial(seed=seed), pictures=False) for seed in range(40)]
    alike = {name: np.linspace(0.05, 0.15, 5) for name in ("error_test_err", "error_relative_l2")}
    records = [dataclasses.replace(record, samples={**record.samples, **alike}) for record in records]
    sizes = []
    for name, some in {"one": records[:1], "all": records}.items():
        pack(Store(write_board(tmp_path / name, some)))
        sizes.append(len(files(tmp_path / name)["packed.samples.npz"]))
    assert sizes[0] == sizes[1]


def test_pictures_keep_the_range_and_are_right_to_half_a_colour(board):
    store = Store(board)
    before = {record.key: store.samples(record.key) for record in store.all()}
    pack(store)
    shown = 0
    for key, arrays in before.items():
        after = store.samples(key)
        if "picture_truth" not in after:
            continue
        shown += 1
        for name in PICTURE[1:]:
            span = np.ptp(arrays[name])
            assert np.abs(after[name] - arrays[name]).max() <= 0.5001 * span / 126
            assert (after[name].min(), after[name].max()) == (arrays[name].min(), arrays[name].max())
    assert shown == 6


def test_pictures_are_small_and_know_what_is_outside_the_domain():
    field = np.random.default_rng(0).random((3, 2, 100, 64)).astype(np.float32)
    field[:, 1, :10] = np.nan
    field[0, 0] = 7.0
    small = shrink({"picture_index": np.array([4, 0, 2]), **dict.fromkeys(PICTURE[1:], field)}).arrays()
    assert small["picture_truth"].shape == (3, 2, 25, 32)
    assert (np.isnan(small["picture_truth"]) == np.isnan(field[:, :, ::4, ::2])).all()
    assert (small["picture_truth"][0, 0] == 7.0).all()
    assert list(small["picture_index"]) == [4, 0, 2]


def test_of_further_metrics_the_means_alone_may_be_kept_and_tables_stay(tmp_path):
    record = page_record(page_trial(), 0.1, pictures=False)
    samples = {**record.samples, "error_vrmse": np.linspace(1, 3, 5)}
    record = dataclasses.replace(record, samples=samples, metrics={**record.metrics, "vrmse": 2.0})
    board = write_board(tmp_path / "board", [record])
    before = tables(board)
    pack(Store(board))
    whole = shutil.copytree(board, tmp_path / "whole")
    pack(Store(board), all_errors=False)
    assert Store(board).get(record.key).metrics == record.metrics
    assert {*Store(board).samples(record.key)} == {"error_test_err", "curve_steps", "curve_losses"}
    assert tables(board) == before
    packed = files(board)
    for again in (True, False):  # what is gone stays gone, and is known to be
        pack(Store(board), all_errors=again)
        assert files(board) == packed
    for name, order in {"a": (board, whole), "b": (whole, board)}.items():  # of two copies the whole one counts
        merge(order, tmp_path / name, load_registry())
        assert "error_vrmse" in Store(tmp_path / name).samples(record.key)
        assert files(tmp_path / name) == files(tmp_path / "a")


def test_without_pictures_there_is_no_file_of_them_and_the_page_has_none(board):
    pack(Store(board))
    done = pack(Store(board), pictures=False)
    assert (set(files(board)), done.pictures) == (PACK - {"packed.pictures.npz"}, 0)
    assert make_report([board])[1]["pictures"] == 0


# --- newer records beside a pack --------------------------------------------------------------------------------------


def test_a_live_record_wins_over_the_pack_and_is_taken_in_by_the_next(board):
    pack(Store(board))
    new = page_record(page_trial("fno", "poisson_2d", 0), 0.05)
    Store(board).put(new)
    assert Store(board).get(new.key) == new
    pack(Store(board))
    assert set(files(board)) == PACK
    assert Store(board).get(new.key) == new


def test_a_record_that_ended_worse_does_not_replace_a_packed_one(board):
    pack(Store(board))
    worse = page_record(page_trial("fno", "poisson_2d", 0), None, "failed", "oh")
    kept = Store(board).put(worse)
    assert kept.status == "ok"
    assert set(files(board)) == PACK
    assert (board / "attempts" / f"{worse.key}.json").exists()


def test_a_live_record_that_cant_be_believed_is_named_and_stays(board):
    pack(Store(board))
    key = page_trial("fno", "poisson_2d", 0).key
    (board / "records" / f"{key}.json").write_text("{")
    with pytest.warns(UserWarning, match=f"record {key}.json in .* can't be used"):
        assert Store(board).get(key) is None  # which of the two is meant nobody knows
    with pytest.warns(UserWarning, match="can't be packed .* it stays where it is"):
        pack(Store(board))
    assert (board / "records" / f"{key}.json").read_text() == "{"
    (board / "records" / f"{key}.json").unlink()
    assert Store(board).get(key).metrics["test_err"] == 0.2


def test_a_store_that_is_open_sees_a_board_being_packed_and_changed(board):
    store = Store(board)
    before = store.all()
    pack(Store(board))
    assert store.all() == before
    new = page_record(page_trial("late"), 0.3)
    Store(board).put(new)
    pack(Store(board))
    assert store.get(new.key) == new


# --- nothing is lost --------------------------------------------------------------------------------------------------


def killed_at(step: int, board: Path) -> bool:
    """Pack in a process of its own that ends, without any last word, before its n-th change of a name."""
    child = os.fork()
    if child == 0:
        left = [step]
        for name in ("replace", "unlink"):
            change = getattr(os, name)

            def counted(*arguments, change=change, **options):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)
                return change(*arguments, **options)

            setattr(os, name, counted)
        try:
            pack(Store(board))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("packed_before", [False, True])
def test_killed_at_any_step_nothing_is_lost_and_the_next_pack_is_the_same(tmp_path, packed_before):
    records = [page_record(page_trial(seed=seed), 0.1 + seed) for seed in range(3)]
    start = write_board(tmp_path / "start", records)
    if packed_before:
        pack(Store(start))
        Store(start).put(page_record(page_trial(seed=1), 0.05))
        Store(start).put(page_record(page_trial(seed=7), 0.07))
    expected = everything(start)
    pack(Store(shutil.copytree(start, tmp_path / "calm")))
    step, was_killed = 0, True
    while was_killed:
        step += 1
        board = shutil.copytree(start, tmp_path / f"killed-{step}")
        was_killed = killed_at(step, board)
        assert everything(board) == expected, f"killed before change {step}"
        pack(Store(board))
        assert files(board) == files(tmp_path / "calm"), f"killed before change {step}"
        assert everything(board) == expected
    assert step > 12  # three files written, three put in place, live files removed


def test_who_packs_waits_for_no_run_and_no_run_for_him(board):
    with BoardLock(board), pytest.raises(StoreError, match="another run is writing"):
        pack(Store(board))
    assert not set(files(board)) & PACK


def test_a_pack_that_would_be_too_large_to_read_is_not_written(board, monkeypatch):
    before = files(board)
    monkeypatch.setattr("pdebench_hss.trials.pack_writer.LARGEST", 1000)
    with pytest.raises(StoreError, match="at most 1000 are read"):
        pack(Store(board))
    assert files(board).items() >= before.items()
    monkeypatch.undo()
    pack(Store(board))
    assert set(files(board)) == PACK


def test_a_board_without_records_is_refused(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError, match="holds no records"):
            pack(Store(folder))
    assert not list(tmp_path.iterdir())


def test_arrays_can_be_read_with_numpy_alone_as_the_module_says(board):
    key = page_trial("neural_hss", "heat_1d", 1).key
    expected = Store(board).samples(key, "curve_losses")["curve_losses"]
    pack(Store(board))
    dtype, (count,), start = packed_records.PackedRecords(board / "records")._line(key)["samples"]["curve_losses"]
    with np.load(board / "records" / "packed.samples.npz", allow_pickle=False) as found:
        values = found[dtype].T.copy().view("<f8").ravel()[start : start + count]
    np.testing.assert_array_equal(values, expected)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_what_was_saved_and_run_goes_on_beside_the_pack(cli, toys, tmp_path):
    chosen = ("--models", "toy_conv", "--tasks", "toy", "--scale", "smoke")
    run = ("run", "--plugin", toys, *chosen, "--executor", "inline")
    assert cli(*run, "--out", "board").code == 0
    packed = cli("pack", "board")
    assert (packed.code, packed.err) == (0, "")
    assert packed.out.startswith("packed board: 1 records in 3 files, ")
    assert "(was 2 files, " in packed.out
    assert "; pictures of 1 trials kept, models of 1, " in packed.out
    more = cli(*run, "--out", "board", "--seeds", "2")
    assert "1 to run, 1 cached" in more.out, more.err
    assert len(list((tmp_path / "board" / "records").glob("*.json"))) == 1
    merged = cli("pack", "board", "--no-pictures")
    assert merged.out.startswith("packed board: 2 records in 2 files, ")
    assert "; pictures of 0 trials kept, models of 2, " in merged.out


# --- the boards of this repository ------------------------------------------------------------------------------------


def tracked(folder: str) -> list[Path]:
    """Files in git; without git all that are there, as in a source distribution."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=False)
    found = [ROOT / name for name in listed.stdout.split("\0") if name] or [*(ROOT / folder).rglob("*")]
    return [path for path in found if path.is_file()]


def test_the_committed_boards_are_few_small_files():
    """Those of this repository, and each submission: how many others add is not for it to say."""
    shelf = ROOT / "leaderboards" / "submissions"
    own = [path for path in tracked("leaderboards") if shelf not in path.parents]
    assert len(own) <= 150
    assert sum(path.stat().st_size for path in own) <= 12_000_000
    for submission in (folder for folder in shelf.iterdir() if folder.is_dir()):
        files = tracked(f"leaderboards/submissions/{submission.name}")
        assert len(files) <= 40
        assert sum(path.stat().st_size for path in files) <= 3_000_000
