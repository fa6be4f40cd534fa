"""What a run leaves in ``models/``: the model of every trial that ended well, or the reason why it was not kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pdebench_hss import Store, load_model, run
from pdebench_hss.base.errors import UsageError
from pdebench_hss.base.files import BadFile
from pdebench_hss.boards.packing import pack
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.artefacts import ModelFiles
from pdebench_hss.use.loading import task_info

ANSWERS = Path(__file__).parents[1] / "support" / "loaded_answers.py"


def answers(board: Path, plugins) -> dict[str, bool | str]:
    """Every model of a board, loaded in a fresh process and scored again."""
    command = [sys.executable, str(ANSWERS), str(board), *plugins]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def record_of(board: Path, label: str, seed: int = 0, task: str = "toy"):
    return next(
        r
        for r in Store(board).current()
        if (r.trial.model_label, r.trial.seed, r.trial.task_label) == (label, seed, task)
    )


def test_a_model_loaded_in_a_fresh_process_predicts_what_was_scored(board, plugins):
    found = answers(board, plugins)
    hidden = {name for name in found if name.startswith(("kept_hidden", "kept_words"))}
    assert len(found) == 2 * 7 + 1 + 4  # one model is deterministic, and has one seed
    assert {name for name, same in found.items() if same is not True} == hidden


def test_a_board_that_was_moved_or_packed_gives_the_same_models(board, plugins, tmp_path):
    x = np.linspace(0, 1, 16)[None]
    before = {m: load_model(board, m, "toy", plugins=plugins)(x) for m in ("toy_conv", "kept_mixed", "kept_sized")}
    pack(Store(board))
    moved = Path(shutil.move(board, tmp_path / "elsewhere"))
    assert [path.name for path in (moved / "models").iterdir()] == ["packed.zip"]
    for name, answer in before.items():
        assert np.array_equal(load_model(moved, name, "toy", plugins=plugins)(x), answer)
    content = (moved / "models" / "packed.zip").read_bytes()
    pack(Store(moved))
    assert (moved / "models" / "packed.zip").read_bytes() == content


def test_a_pack_may_leave_models_out(board, plugins):
    pack(Store(board), models=False)
    assert not (board / "models").exists()
    with pytest.raises(UsageError, match=r"no model to load: .*left out by pack --no-models.*--force"):
        load_model(board, "toy_conv", "toy", plugins=plugins)


def test_the_description_says_what_the_model_is(board):
    record = record_of(board, "toy_conv[width=2]")
    content = json.loads((board / "models" / f"{record.key}.json").read_text())
    weights = (board / "models" / f"{record.key}.safetensors").read_bytes()
    assert content["schema"] == 1
    assert content["key"] == record.key
    assert (content["model"]["name"], content["model"]["options"]) == ("toy_conv", {"width": 2})
    assert content["model"]["plugin"]["distribution"] == "toy_plugin.py"
    assert (content["task"]["name"], content["task"]["scale"]) == ("toy", "smoke")
    assert content["task"]["inputs"] == [1, 16]
    assert content["data"] == record.data["sha256"]
    assert content["weights"]["sha256"] == hashlib.sha256(weights).hexdigest()
    assert set(content["normalizer"]) == {"inputs", "outputs"}


# --- what is not believed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_changed_bytes_are_refused(board, plugins, suffix, damage):
    path = board / "models" / f"{record_of(board, 'toy_conv').key}{suffix}"
    other = board / "models" / f"{record_of(board, 'toy_conv', seed=1).key}{suffix}"
    content = path.read_bytes()
    flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
    path.write_bytes({"flip": flipped, "cut": content[:-1], "empty": b"", "other": other.read_bytes()}[damage])
    with pytest.raises(UsageError, match=r"is not what was written \(sha256 differs\)"):
        load_model(board, "toy_conv", "toy", plugins=plugins)


def test_changed_bytes_in_a_pack_are_refused(board, plugins):
    pack(Store(board))
    path = board / "models" / "packed.zip"
    key = record_of(board, "toy_conv").key
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo(f"{key}.safetensors").header_offset
        size = archive.getinfo(f"{key}.safetensors").file_size
    content = bytearray(path.read_bytes())
    content[start + size] ^= 1
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"packed.zip can't be used|sha256 differs"):
        load_model(board, "toy_conv", "toy", plugins=plugins)


def test_a_link_in_the_place_of_a_model_is_refused(board, plugins, tmp_path):
    path = board / "models" / f"{record_of(board, 'toy_conv').key}.safetensors"
    path.rename(tmp_path / "w")
    path.symlink_to(tmp_path / "w")
    with pytest.raises(UsageError, match="symbolic link"):
        load_model(board, "toy_conv", "toy", plugins=plugins)


def test_a_model_of_a_file_that_is_not_given_names_the_file(board):
    with pytest.raises(UsageError, match=r"comes from the file kept_plugin.py; give it with --plugin"):
        load_model(board, "kept_mixed", "toy", plugins=[])


def test_a_model_of_a_package_that_is_not_installed_names_the_package(board, plugins):
    store, record = Store(board), record_of(board, "kept_mixed")
    origin = {"distribution": "kept-models", "version": "1.2.0", "sha256": ""}
    provenance = {**record.provenance, "plugins": {**record.provenance["plugins"], "model": origin}}
    record = dataclasses.replace(record, provenance=provenance, samples=store.samples(record.key))
    store.live.write(record)
    expected = "comes from the package kept-models, which is not installed: pip install kept-models==1.2.0"
    with pytest.raises(UsageError, match=expected):
        load_model(board, "kept_mixed", "toy", plugins=plugins[:1])


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        ("arrays", "task 'gone' is made of arrays that are not in the cache: pdebench-hss data add gone ..."),
        ("gone.yaml", "task 'gone' comes from the file gone.yaml; give it with --plugin PATH"),
    ],
)
def test_a_model_of_a_task_of_arrays_that_are_gone_says_how_to_bring_them_back(board, plugins, distribution, message):
    record = record_of(board, "kept_mixed")
    origin = {"distribution": distribution, "version": "e9601957f289", "sha256": ""}
    record = dataclasses.replace(
        record,
        trial=dataclasses.replace(record.trial, task="gone"),
        provenance={**record.provenance, "plugins": {**record.provenance["plugins"], "task": origin}},
    )
    with pytest.raises(UsageError, match=re.escape(message)):
        task_info(record.trial, record, load_registry(plugins))


def test_another_version_of_the_model_is_refused(board, plugins, tmp_path):
    toys = Path(plugins[1]).parent
    for name in ("kept_plugin.py", "kept_modules.py"):
        shutil.copy(toys / name, tmp_path / name)
    text = (tmp_path / "kept_plugin.py").read_text()
    (tmp_path / "kept_plugin.py").write_text(text.replace("build=f", 'version="2", build=f'))
    with pytest.raises(UsageError, match=r"was trained in version '1', and kept_plugin.py .* has version '2'"):
        load_model(board, "kept_mixed", "toy", plugins=[plugins[0], tmp_path / "kept_plugin.py"])


# --- what is not kept -------------------------------------------------------------------------------------------------


def test_a_model_whose_state_is_not_all_it_learned_is_not_kept_and_says_why(board, plugins):
    record = record_of(board, "kept_hidden")
    assert record.status == "ok"
    assert "part of what it learned is not in it" in record.artefacts["model"]["reason"]
    assert not (board / "models" / f"{record.key}.json").exists()
    with pytest.raises(UsageError, match=r"kept_hidden on toy .* no model to load: a copy with its state_dict"):
        load_model(board, "kept_hidden", "toy", plugins=plugins)
    with pytest.raises(UsageError, match="is a dict, not a tensor"):
        load_model(board, "kept_words", "toy", plugins=plugins)
    told = [line for line in (board / "README.md").read_text().splitlines() if line.startswith("- Not kept: ")]
    assert [line.partition(":")[2].partition(":")[0] for line in told] == [
        *(" `kept_hidden` on toy (2 trials)", " `kept_words` on toy (2 trials)")
    ]
    assert "part of what it learned is not in it" in told[0]


def test_models_may_be_left_out_or_limited_in_size(tmp_path, plugins):
    def go(folder: str, **options) -> list[str]:
        settings = {"scale": "smoke", "plugins": plugins, "executor": "inline", "out": str(tmp_path / folder)}
        run("toy_conv,mean", "toy", **settings, **options)
        return sorted(path.suffix for path in (tmp_path / folder).glob("models/*"))

    assert go("none", keep_models=False) == []
    with pytest.raises(UsageError, match="no model to load: it was not kept"):
        load_model(tmp_path / "none", "toy_conv", "toy", plugins=plugins)
    assert go("few", keep_models_up_to="100") == [".json", ".safetensors"]
    with pytest.raises(UsageError, match="it has 128 B, and --keep-models-up-to is 100 B"):
        load_model(tmp_path / "few", "mean", "toy", plugins=plugins)
    load_model(tmp_path / "few", "toy_conv", "toy", plugins=plugins)
    assert len(go("few", force=True)) == 4
    assert go("few", force=True, keep_models=False) == []
    with pytest.raises(UsageError, match="--keep-models-up-to: 'lots' is not a number"):
        go("few", keep_models_up_to="lots")


def test_a_run_says_what_it_kept_and_what_not(cli, toys):
    chosen = ("--models", "toy_conv,mean", "--tasks", "toy", "--scale", "smoke", "--plugin", toys)
    done = cli("run", *chosen, "--executor", "inline", "--keep-models-up-to", "100", "--out", "few")
    assert done.code == 0, done.err
    assert "kept 1 model, " in done.out
    assert "not kept: mean on toy: it has 128 B, and --keep-models-up-to is 100 B" in done.out


def test_whether_models_are_kept_changes_neither_keys_nor_errors(tmp_path, plugins):
    options = {"models": "toy_conv", "tasks": "toy", "scale": "smoke", "plugins": plugins, "executor": "inline"}
    board = run(out=str(tmp_path / "a"), **options)
    kept = board.results
    left_out = run(out=str(tmp_path / "b"), keep_models=False, **options).results
    assert kept.key.tolist() == left_out.key.tolist()
    assert kept.test_err.tolist() == left_out.test_err.tolist()
    for known in (board, kept):  # both know the directory
        assert load_model(known, plugins=plugins).record.key == kept.key[0]


# --- kills ------------------------------------------------------------------------------------------------------------


def forced_again(board: Path):
    """A record that is written again, with a model that is not the one before: what a run does at its end."""
    store, old = Store(board), record_of(board, "toy_conv")
    other = record_of(board, "toy_conv", seed=1)
    description, weights = store.models.read(other)
    carried = {
        "weights": np.frombuffer(weights, np.uint8),
        "tensors": description["weights"]["tensors"],
        "normalizer": description["normalizer"],
        "fields": {name: description["task"][name] for name in ("inputs", "outputs", "steps")},
    }
    return store, dataclasses.replace(old, left={"model": carried}, artefacts={}, samples=store.samples(old.key)), old


@pytest.mark.parametrize("killed_after", ["weights", "description", "record", "first rename", "everything"])
def test_a_kill_leaves_a_record_and_its_model(board, plugins, monkeypatch, killed_after):
    store, record, old = forced_again(board)
    before = store.models.read(old)

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    rename, last = os.replace, board / "models" / f"{old.key}.json"
    if killed_after == "weights":
        pending = last.with_suffix(".new.json")
        monkeypatch.setattr(os, "replace", lambda a, b: kill() if Path(b) == pending else rename(a, b))
    elif killed_after == "description":
        monkeypatch.setattr(store.live, "write", kill)
    elif killed_after == "record":
        monkeypatch.setattr(store.models, "settle", kill)
    elif killed_after == "first rename":
        monkeypatch.setattr(os, "replace", lambda a, b: kill() if Path(b) == last else rename(a, b))
    try:
        store.put(store.keep_model(record))
    except Killed:
        assert killed_after != "everything"
    monkeypatch.undo()
    again = Store(board)
    for _ in range(2):  # as it was left, and cleared up by the next run
        now = again.get(old.key)
        is_new = killed_after not in ("weights", "description")
        assert (now.artefacts != old.artefacts) == is_new
        assert (again.models.read(now) != before) == is_new
        again.finish_writes()
    assert not list((board / "models").glob("*.new.*"))


def test_weights_without_a_record_are_cleared_away(board):
    stray = board / "models" / f"{'0' * 24}.new.safetensors"
    stray.write_bytes(b"x")
    Store(board).finish_writes()
    assert not stray.exists()


def test_a_record_without_a_model_says_how_to_get_one(board, plugins):
    shutil.rmtree(board / "models")
    with pytest.raises(UsageError, match="Run the command of the board again with --force to get it"):
        load_model(board, "toy_conv", "toy", plugins=plugins)
    with pytest.raises(BadFile):
        ModelFiles(board / "models").read(record_of(board, "toy_conv"))
