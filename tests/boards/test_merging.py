"""Boards join to one: nothing is lost, nothing counts twice, and neither order nor grouping changes a byte."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from factories.boards import page_record, page_trial, usual_board, write_board
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdebench_hss.base.errors import StoreError, UsageError
from pdebench_hss.boards import merging, writing
from pdebench_hss.boards.packing import pack
from pdebench_hss.contract.registry import Registry
from pdebench_hss.trials.plan_file import joined_shards, missing_shards
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store

REGISTRY = Registry()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def merged(out: Path, *boards: Path) -> Path:
    merging.merge(boards, out, REGISTRY)
    return out


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in writing.write_board(Store(folder), REGISTRY)[1]}


def made_on(record: Record, machine: str, started: float = 1_700_000_000.0) -> Record:
    """The same record, made elsewhere at another time."""
    hardware = {**record.provenance["hardware"], "id": machine}
    provenance = {**record.provenance, "hardware": hardware, "started": started, "ended": started + 60}
    return dataclasses.replace(record, provenance=provenance)


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_halves_of_a_board_make_its_tables_again(tmp_path):
    whole = usual_board(tmp_path / "whole")
    store = Store(whole)
    records = [dataclasses.replace(r, samples=store.samples(r.key)) for r in store.current() if r.status != "missing"]
    planned = [r.trial for r in store.current() if r.status == "missing"]
    halves = [write_board(tmp_path / "a", records[::2], planned), write_board(tmp_path / "b", records[1::2])]
    before = [tree(half) for half in halves]
    out = merged(tmp_path / "out", *halves)
    assert tables(out) == tables(whole)
    assert [tree(half) for half in halves] == before
    for record in records:
        assert Store(out).samples(record.key).keys() == record.samples.keys()


ERRORS, MACHINES = [0.1, 0.25], ["machine-a", "machine-b"]
a_record = st.tuples(
    *(
        st.sampled_from(["fno", "mean"]),
        st.integers(0, 2),
        st.sampled_from(["ok", "ok", "ok", "diverged", "failed", "skipped"]),
    ),
    *(st.sampled_from(ERRORS), st.sampled_from(MACHINES), st.integers(0, 3), st.booleans()),
)
a_board = st.lists(a_record, min_size=1, max_size=4)


def board_of(folder: Path, drawn, packed: bool) -> Path:
    records = {}
    for model, seed, status, error, machine, started, pictures in drawn:
        trial = page_trial(model, seed=seed)
        reason = "" if status == "ok" else f"{status} for some reason"
        record = page_record(trial, error if status == "ok" else None, status, reason, pictures=pictures)
        records[trial.key] = made_on(record, machine, 1_700_000_000.0 + started)
    write_board(folder, list(records.values()))
    if packed:
        pack(Store(folder))
    return folder


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(a_board, st.booleans()), min_size=3, max_size=3))
def test_order_and_grouping_change_no_byte_and_neither_does_repetition(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("merging")
    a, b, c = (board_of(folder / name, *one) for name, one in zip("abc", drawn, strict=True))
    at_once = tree(merged(folder / "abc_", a, b, c))
    for number, order in enumerate([(c, b, a), (b, a, c)]):
        assert tree(merged(folder / f"order{number}", *order)) == at_once
    ab, bc = merged(folder / "ab", a, b), merged(folder / "bc", b, c)
    assert tree(merged(folder / "left", ab, c)) == at_once
    assert tree(merged(folder / "right", a, bc)) == at_once
    assert tree(merged(folder / "again", folder / "abc_", a, ab, bc)) == at_once


def test_a_trial_that_ran_twice_with_one_result_is_there_once_and_the_earlier_counts(tmp_path):
    record = page_record(page_trial(), 0.1)
    a = write_board(tmp_path / "a", [made_on(record, "machine-a", 2e9)])
    b = write_board(tmp_path / "b", [made_on(record, "machine-b", 1e9)])
    done = merging.merge([a, b], tmp_path / "out", REGISTRY)
    assert (done.records, done.repeated, done.conflicts) == (1, 1, [])
    (kept,) = Store(tmp_path / "out").current()
    assert kept.provenance["hardware"]["id"] == "machine-b"


@pytest.mark.parametrize("worse", ["failed", "timeout", "out_of_memory", "skipped"])
def test_what_failed_on_one_machine_does_not_contradict_what_ran_on_another(tmp_path, worse):
    trial = page_trial()
    a = write_board(tmp_path / "a", [page_record(trial, None, worse, "no luck")])
    b = write_board(tmp_path / "b", [page_record(trial, 0.1)])
    assert [r.status for r in Store(merged(tmp_path / "out", a, b)).current()] == [Status.OK]


def test_different_results_are_a_conflict_that_names_both_and_neither_is_ranked(tmp_path, cli):
    ours, other = page_record(page_trial(), 0.1), page_record(page_trial("mean"), 0.3)
    write_board(tmp_path / "a", [made_on(ours, "machine-a"), other])
    write_board(tmp_path / "b", [made_on(page_record(page_trial(), 0.2), "machine-b", 1_700_000_001.0)])
    result = cli("merge", "a", "b", "--out", "out")
    assert result.code == 0, result.err
    assert "poisson_2d fno seed 0: 0.1 (machine-a, 2023-11-14), in a" in result.out
    assert "poisson_2d fno seed 0: 0.2 (machine-b, 2023-11-14), in b" in result.out
    assert "1 in conflict" in result.out
    found = {record.trial.model: record for record in Store(tmp_path / "out").current()}
    assert found["fno"].status is Status.CONFLICT
    assert found["fno"].reason == "0.1 (machine-a, 2023-11-14) and 0.2 (machine-b, 2023-11-14)"
    assert found["mean"].status is Status.OK
    board = (tmp_path / "out" / "leaderboard.md").read_text()
    assert "conflict: 0.1 (machine-a, 2023-11-14) and 0.2 (machine-b, 2023-11-14)" in board
    assert {p.name for p in (tmp_path / "out" / "conflicts").iterdir()} == {"1", "2"}


def test_a_later_record_settles_a_conflict(tmp_path):
    a = write_board(tmp_path / "a", [page_record(page_trial(), 0.1)])
    b = write_board(tmp_path / "b", [page_record(page_trial(), 0.2)])
    store = Store(merged(tmp_path / "out", a, b))
    assert store.look().get(page_trial().key) is None  # so that `run` makes it
    store.put(page_record(page_trial(), 0.2))
    assert [record.metrics["test_err"] for record in store.current()] == [0.2]


def test_missing_cells_stay_and_pictures_and_commands_are_kept(tmp_path):
    a = write_board(tmp_path / "a", [page_record(page_trial(), 0.1)], [page_trial("deeponet")])
    b = write_board(tmp_path / "b", [page_record(page_trial("mean"), 0.3)])
    for board, command in ((a, "pdebench-hss run --tasks two"), (b, "pdebench-hss run --tasks one")):
        Store(board).add_to_plan([], command)
    store = Store(merged(tmp_path / "out", a, b))
    assert store.commands() == ["pdebench-hss run --tasks one", "pdebench-hss run --tasks two"]
    assert {r.trial.model: str(r.status) for r in store.current()} == {"fno": "ok", "mean": "ok", "deeponet": "missing"}
    assert "picture_index" in store.samples(page_trial().key)


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(tmp_path, first, second, match, error=UsageError):
    boards = [write_board(tmp_path / "a", [first]), write_board(tmp_path / "b", [second])]
    with pytest.raises(error, match=match) as raised:
        merging.merge(boards, tmp_path / "out", REGISTRY)
    assert all(str(board) in str(raised.value) for board in boards)
    assert not (tmp_path / "out").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}  # nothing half made either


def test_unlike_data_are_refused_by_content(tmp_path):
    other = page_record(page_trial("mean"), 0.3)
    other = dataclasses.replace(other, data={**other.data, "sha256": "another"})
    refused(
        tmp_path, page_record(page_trial(), 0.1), other, r"content of the data with recipe .*: f00 in .*, another in"
    )


def test_unlike_data_are_refused_by_recipe(tmp_path):
    other = page_record(page_trial("mean", data_id="public files"), 0.3)
    refused(tmp_path, page_record(page_trial(), 0.1), other, r"recipe of the data of poisson_2d \(scale small")


def test_another_protocol_is_refused(tmp_path):
    other = page_record(page_trial("mean", protocol=2), 0.3)
    refused(tmp_path, page_record(page_trial(), 0.1), other, "they differ in the protocol: 1 in .*, 2 in ")


def test_a_cell_that_another_trial_stands_for_is_refused(tmp_path):
    newer = page_record(page_trial(model_version="2"), 0.05)
    refused(tmp_path, page_record(page_trial(), 0.1), newer, "is not the same trial in .*: model_version 1 and 2")


def test_shards_of_different_plans_are_refused_and_finished_ones_are_not(tmp_path):
    boards = []
    for name, plan, model in (("a", "a" * 24, "fno"), ("b", "b" * 24, "mean")):
        other_shard = [page_trial(model, seed=1)]
        boards.append(write_board(tmp_path / name, [page_record(page_trial(model), 0.1)], other_shard))
        Store(boards[-1]).add_to_plan([], "", {f"{plan}/2": [1]})
    with pytest.raises(UsageError, match=r"shards of different plans: .*a \(plan aaaaaaaa in 2 shards\) and .*b \("):
        merging.merge(boards, tmp_path / "out", REGISTRY)
    Store(boards[0]).add_to_plan([], "", {f"{'a' * 24}/2": [2]})
    done = merging.merge(boards, tmp_path / "out", REGISTRY)
    assert done.missing == {f"{'b' * 24}/2": [2]}
    for board, model in zip(boards, ("fno", "mean"), strict=True):  # by whatever run: then no shard is missed
        Store(board).put(page_record(page_trial(model, seed=1), 0.2))
    assert merging.merge(boards, tmp_path / "whole", REGISTRY).missing == {}


def test_a_record_that_cant_be_read_is_refused_by_name_and_not_left_out(tmp_path, cli):
    write_board(tmp_path / "a", [page_record(page_trial(), 0.1)])
    path = tmp_path / "a" / "records" / f"{page_trial().key}.json"
    path.write_text(path.read_text().replace('"test_err": 0.1', '"test_err": 0.01'))
    result = cli("merge", "a", "--out", "out")
    assert result.code == 2
    assert f"record {page_trial().key} in a can't be merged (its content is not what was written" in result.err


def test_a_plan_that_was_edited_is_refused(tmp_path):
    board = write_board(tmp_path / "a", [page_record(page_trial(), 0.1)])
    plan = json.loads((board / "plan.json").read_text())
    plan["shards"] = {"x/2": [3]}
    (board / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(StoreError, match=r"plan.json can't be merged: its shards 'x/2' are not numbers of shards"):
        merging.merge([board], tmp_path / "out", REGISTRY)


@pytest.mark.parametrize("there", ["file", "board", "link"])
def test_what_is_there_is_not_replaced(tmp_path, there):
    board, out = write_board(tmp_path / "a", [page_record(page_trial(), 0.1)]), tmp_path / "out"
    if there == "file":
        out.write_text("mine")
    elif there == "link":
        out.symlink_to(board)
    else:
        write_board(out, [page_record(page_trial(), 0.1)])
    with pytest.raises(UsageError, match="out is there already; a merged board needs a new --out"):
        merging.merge([board], out, REGISTRY)


def test_nothing_is_left_of_a_merge_that_stopped(tmp_path, monkeypatch):
    board = write_board(tmp_path / "a", [page_record(page_trial(), 0.1)])

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(merging, "write_board", stop)
    with pytest.raises(KeyboardInterrupt):
        merging.merge([board], tmp_path / "out", REGISTRY)
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


@pytest.mark.parametrize(
    ("names", "message"), [(["nothing"], "no such directory"), (["empty"], "holds no records and no plan")]
)
def test_what_is_no_board_is_refused(tmp_path, cli, names, message):
    (tmp_path / "empty").mkdir()
    result = cli("merge", *names, "--out", "out")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


def test_shards_join_as_sets():
    assert joined_shards([{"p/3": [2]}, {"p/3": [1, 2]}, {"q/1": [1]}]) == {"p/3": [1, 2], "q/1": [1]}
    assert missing_shards("p/3", [2]) == [1, 3]
