"""Tuning: the same tries for everybody, judged by held-out training samples; killed and resumed, nothing changes."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import h5py
import pytest
import yaml

from pdebench_hss.base.errors import PdebenchError, PluginError, StoreError, UsageError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import hdf5
from pdebench_hss.runs.config import make_config
from pdebench_hss.runs.reporter import Reporter
from pdebench_hss.runs.runner import Run, RunInterrupted
from pdebench_hss.tuning.config import make_tune_config
from pdebench_hss.tuning.sampling import ROUND, Draws, Storage
from pdebench_hss.tuning.tune import DATABASE, Tuning
from pdebench_hss.tuning.tuned_file import write_tuned

PLUGIN = str(Path(__file__).parents[1] / "toys" / "tuning_plugin.py")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def here(cache, shared_cache, tmp_path, monkeypatch):
    """A directory of its own for each test; the data are the same for all."""
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(shared_cache))
    monkeypatch.chdir(tmp_path)


def tuning(reporter=None, **options) -> Tuning:
    common = {"models": "one_step", "tasks": "identity", "executor": "inline", "device": "cpu", "plugins": [PLUGIN]}
    config = make_tune_config({**common, **options})
    return Tuning(config, load_registry(config.plugins), reporter)


def lines(chosen) -> list[tuple]:
    """What tries say, without how long they took."""
    return [(one.subject.name, t.number, dict(t.options), t.error) for one in chosen for t in one.tries]


def test_the_best_rate_of_a_quadratic_is_found():
    (chosen,) = tuning(tries=16).execute()
    assert chosen.best.options["lr"] == pytest.approx(0.01, rel=0.1)
    assert chosen.best.error == pytest.approx(abs(1 - chosen.best.options["lr"] / 0.01), abs=1e-5)  # on held-out ones
    assert chosen.before.options == {}
    assert chosen.before.error == pytest.approx(0.9, abs=1e-5)  # at the task's rate of 0.001


def test_every_model_has_the_same_tries_of_the_same_budget_and_baselines_have_none():
    chosen = tuning(models="one_step,one_step_wide,mean", tasks="identity,identity_again", tries=2).execute()
    assert [one.subject.name for one in chosen] == [
        *("one_step on identity", "one_step_wide on identity"),
        *("one_step on identity_again", "one_step_wide on identity_again"),
    ]
    trials = [one.record.trial for each in chosen for one in each.tries]
    assert len(trials) == 8
    assert {(str(t.budget), t.n_train, t.val, t.judge, t.seed) for t in trials} == {("steps=1", 8, 2, "val", 0)}


def test_the_same_seed_gives_the_same_tries_and_another_seed_others():
    first, second, other = (
        lines(tuning(tries=4, out=f"{name}.yaml", seed=seed).execute()) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == second
    assert not {repr(line[2]) for line in first[1:]} & {repr(line[2]) for line in other[1:]}


def test_the_order_in_which_tries_end_changes_nothing(tmp_path):
    """So the number of jobs does not: a round is drawn whole before any of it is told."""
    (subject,) = tuning().subjects
    drawn = []
    for name, order in (("a", list(range(ROUND))), ("b", list(reversed(range(ROUND))))):
        draws = Draws(Storage(tmp_path / name), subject, "tpe", 0)
        found = []
        for start in range(0, 4 * ROUND, ROUND):
            found += [draws.options(start + n) for n in range(ROUND)]
            for n in order:
                draws.tell(start + n, abs(1 - found[start + n].get("lr", 1e-3) / 0.01))
        drawn.append(found)
    assert drawn[0] == drawn[1]


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class KilledAfter(Reporter):
    def __init__(self, count: int, how: type[BaseException] = Killed) -> None:
        self.left, self.how = count, how

    def trial_finished(self, trial, record) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.how


@pytest.mark.parametrize("count", [1, 6])
def test_killed_and_resumed_it_chooses_the_same(count):
    whole = tuning(tries=10, out="whole.yaml").execute()
    with suppress(Killed):
        tuning(KilledAfter(count), tries=10, out="killed.yaml").execute()
    kept = {path.name: path.stat().st_mtime_ns for path in Path("killed.tries", "records").iterdir()}
    assert len(list(Path("killed.tries", "records").glob("*.json"))) == count
    resumed = tuning(tries=10, out="killed.yaml").execute()
    assert lines(resumed) == lines(whole)
    assert kept.items() <= {p.name: p.stat().st_mtime_ns for p in Path("killed.tries", "records").iterdir()}.items()


def test_ctrl_c_keeps_what_is_done():
    with pytest.raises(RunInterrupted, match=r"stopped\. 2 of 4 trials done and kept; run the same"):
        tuning(KilledAfter(2, KeyboardInterrupt), tries=4).execute()
    assert len(list(Path("tuned.tries", "records").glob("*.json"))) == 2


def test_more_tries_go_on_from_those_that_are_done():
    fewer = tuning(tries=6, out="more.yaml").execute()
    more = tuning(tries=9, out="more.yaml").execute()
    assert lines(more)[:6] == lines(fewer)
    assert lines(more) == lines(tuning(tries=9, out="at_once.yaml").execute())


def test_a_lost_database_is_made_again_from_the_records():
    before = tuning(tries=6).execute()
    Path("tuned.tries", DATABASE).unlink()
    watched = KilledAfter(1)  # no trial is run, so none ends
    assert lines(tuning(watched, tries=6).execute()) == lines(before)


@pytest.mark.parametrize("damage", ["cut", "another file"])
def test_a_damaged_database_is_one_line_and_loses_nothing(damage):
    before = tuning(tries=6).execute()
    database = Path("tuned.tries", DATABASE)
    content = database.read_bytes()
    database.write_bytes(content[:5000] if damage == "cut" else b"something else" * 1000)
    with pytest.raises(StoreError, match=r"optuna.db can't be used .*; remove it and run the same command") as refused:
        tuning(tries=6).execute()
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2
    database.unlink()
    assert lines(tuning(tries=6).execute()) == lines(before)


def test_a_locked_database_is_one_line(monkeypatch):
    monkeypatch.setattr("pdebench_hss.tuning.sampling.LOCK_SECONDS", 0.1)
    before = tuning(tries=4).execute()
    holder = sqlite3.connect(Path("tuned.tries", DATABASE))
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"optuna\.db is locked by another process; wait for it") as refused:
        tuning(tries=4).execute()
    assert refused.value.exit_code == 2
    holder.close()
    assert lines(tuning(tries=4).execute()) == lines(before)


def test_two_at_once_do_not_share_a_directory():
    one = tuning(tries=1)
    with one._alone(), pytest.raises(StoreError, match=r"another tune is writing to tuned\.tries"):
        tuning(tries=1).execute()


def test_nothing_of_the_test_set_is_read(monkeypatch):
    """Every read of an array from a file is watched; a run does read the test split, so the watch works."""
    tuning(tries=1, out="first.yaml").execute()  # makes the data, and hashes what it wrote
    read: list[str] = []
    by_hdf5, by_chart = h5py.Dataset.__getitem__, hdf5._read_chunks
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda d, *key, **more: read.append(d.name) or by_hdf5(d, *key, **more)
    )
    monkeypatch.setattr(
        hdf5, "_read_chunks", lambda file, name, *more: read.append(f"/{name}") or by_chart(file, name, *more)
    )
    tuning(tries=6).execute()
    assert read
    assert {name.split("/")[1] for name in read} == {"train"}
    read.clear()
    Run(make_config({"models": "one_step", "tasks": "identity", "executor": "inline", "plugins": [PLUGIN]})).execute()
    assert {name.split("/")[1] for name in read} == {"train", "test"}


def test_sizes_stay_within_the_cap():
    (own,) = tuning(models="one_step_wide", tries=8).execute()
    counts = [one.record.parameters["real"] for one in own.tries]
    assert max(counts) <= 2 * counts[0] == 10
    (capped,) = tuning(models="one_step_wide", tries=8, max_params="3", out="capped.yaml").execute()
    assert max(one.record.parameters["real"] for one in capped.tries[1:]) <= 3
    with pytest.raises(UsageError, match=r"choices in a row can't be tried, the last one: 1\d+ parameters, at most 10"):
        tuning(models="one_step_huge", tries=2, out="huge.yaml").execute()


def test_a_sampler_that_longs_for_what_is_too_large_learns_that_it_is_refused(tmp_path):
    (subject,) = tuning(models="one_step_wide").subjects
    draws = Draws(Storage(tmp_path / "draws.db"), subject, "tpe", 0)
    for number in range(6 * ROUND):
        width = draws.options(number).get("width", 4)
        draws.tell(number, 1 / width)  # the larger the better, up to the cap
    drawn = draws._study.get_trials(deepcopy=False)
    refused = [trial.params["width"] for trial in drawn if "refused" in trial.user_attrs]
    assert min(refused) > 8
    assert len(refused) < 2 * 6 * ROUND


def test_what_is_typed_in_brackets_is_not_tuned():
    (chosen,) = tuning(models="one_step_wide[width=3]", tries=3).execute()
    assert {one.record.trial.hparams["width"] for one in chosen.tries} == {3}
    assert set(chosen.tries[1].options) == {"lr"}


def test_only_what_is_named_is_tuned():
    (chosen,) = tuning(models="one_step_wide", only="lr", tries=4).execute()
    assert len({one.record.parameters["real"] for one in chosen.tries}) == 1
    assert {name for one in chosen.tries for name in one.options} == {"lr"}


def test_a_model_that_never_works_has_its_reason_and_the_others_go_on():
    works, never = tuning(models="one_step,never", tries=3).execute()
    assert works.best.error < 1
    assert never.best.error == float("inf")
    assert "this one never works" in never.before.record.reason


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tries": 0}, "--tries must be a whole number from 1 on, not 0"),
        ({"seed": -1}, "--seed must be a whole number from 0 on"),
        ({"sampler": "tp"}, "--sampler tp: no such sampler. Did you mean 'tpe'"),
        ({"out": "tuned"}, "--out tuned: the chosen options go to a YAML file; write tuned.yaml"),
        ({"budget": "steps=10,40"}, "--budget steps=10,40: every try has the same budget; name one"),
        ({"max_params": "none"}, "--max-params: 'none' is not a number"),
        ({"models": "one_step_wide", "only": "lr,widht"}, "--only widht: no model here tunes it. Did you mean 'width'"),
        ({"val": "10"}, "10 of 10 training samples of task 'identity' would be held out, which leaves none"),
        ({"models": "mean,linear"}, "nothing to tune"),
        ({"models": "wrong_space"}, "search names 'widht', which is not among its options. Did you mean 'width'"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_made(options, complaint):
    with pytest.raises((UsageError, PluginError), match=complaint) as refused:
        tuning(**options)
    assert "\n" not in str(refused.value)
    assert not list(Path().glob("*.tries"))


# --- the file, and what run makes of it ------------------------------------------------------------------------------


@pytest.fixture
def file() -> str:
    tuned = tuning(models="one_step,one_step_wide", tries=4)
    return str(write_tuned(tuned.config, tuned.execute(), tuned.skipped))


def config(file: str, **options):
    common = {"models": "one_step,mean", "tasks": "identity", "executor": "inline", "device": "cpu"}
    return make_config({**common, "plugins": [PLUGIN], "tuned": file, **options})


def test_the_file_has_every_try_and_the_best_of_them(file):
    content = yaml.safe_load(Path(file).read_text())
    assert content["command"].startswith("pdebench-hss tune --models one_step,one_step_wide --tasks identity")
    assert "optuna" in content["versions"]
    for one in content["chosen"]:
        errors = [each["held_out"] for each in one["history"]]
        assert len(errors) == one["tries"] == 4
        best = one["history"][errors.index(min(errors))]
        assert (one["options"], one["held_out"]) == (best["options"], best["held_out"])
        assert one["held_out_before"] == errors[0]
        assert one["seconds"] == pytest.approx(sum(each["seconds"] for each in one["history"]), abs=0.5)


def test_a_model_that_can_not_do_a_task_is_skipped_with_its_reason(cli, tmp_path):
    command = f"tune --models one_step,refuses --tasks identity --tries 1 --executor inline --plugin {PLUGIN}"
    done = cli(*command.split(), "--budget", "steps=2")
    assert done.code == 0, done.err
    assert "--tasks identity --budget steps=2 --tuned tuned.yaml" in done.out  # what was tuned is what is run
    assert "skip   refuses on identity: needs a nonlinear PDE" in done.out
    content = yaml.safe_load((tmp_path / "tuned.yaml").read_text())
    assert content["skipped"] == {"refuses on identity": "needs a nonlinear PDE"}
    assert [one["model"] for one in content["chosen"]] == ["one_step"]
    done = cli(*f"run --models one_step,refuses --tasks identity --tuned tuned.yaml --plugin {PLUGIN}".split())
    assert done.code == 0, done.err
    assert "needs a nonlinear PDE" in done.out


def test_a_space_that_can_not_be_is_named_where_its_model_is_asked_for(cli, tmp_path):
    (tmp_path / "bad.py").write_text(
        "from pdebench_hss import Integer, ModelSpec, hookimpl\n\n\n@hookimpl\ndef pdebench_hss_models():\n"
        "    return [ModelSpec(name='bad', title='Bad', build='bad:Bad', hparams={'width': 4},"
        " search={'width': Integer(8, 4)})]\n"
    )
    for command in ("tune", "run"):
        done = cli(*f"{command} --models bad --tasks poisson_1d --scale smoke --plugin bad.py".split())
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert "no model 'bad'" in done.err
        assert "Integer(low=8, high=4, log=False) is reversed: low must be below high" in done.err


def test_a_run_uses_the_file_and_the_board_says_so(file):
    chosen = {one["model"]: one for one in yaml.safe_load(Path(file).read_text())["chosen"]}
    outcome = Run(config(file)).execute()
    row = outcome.board.set_index("model").loc["one_step"]
    rate = chosen["one_step"]["options"]["lr"]
    assert row["test_err_mean"] == pytest.approx(abs(1 - rate / 0.01), abs=1e-5)
    assert row["tuned_tries"] == 4
    assert row["tuned_seconds"] == chosen["one_step"]["seconds"]
    assert row["tuned_options"] == f"lr={rate:g}"
    assert (
        f"4 tries, {row['tuned_seconds']:.0f} s: lr={rate:g}" in Path("leaderboards/latest/leaderboard.md").read_text()
    )


def test_a_record_that_is_there_already_counts_and_is_shown_as_tuned(file):
    rate = yaml.safe_load(Path(file).read_text())["chosen"][0]["options"]["lr"]
    Run(config(None, models=f"one_step[lr={rate!r}]")).execute()
    outcome = Run(config(file, models="one_step"), reporter=KilledAfter(1)).execute()  # nothing is trained again
    assert list(outcome.board["model"]) == ["one_step", f"one_step[lr={rate!r}]"]
    assert outcome.board.set_index("model")["tuned_tries"].to_dict()["one_step"] == 4


def test_what_is_typed_wins(file):
    (cell,) = Run(config(file, models="one_step[lr=0.02]")).plan().cells
    assert cell.trial.optimizer.lr == 0.02
    assert cell.trial.model_label == "one_step[lr=0.02]"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"scale": "smoke"}, "it was tuned at scale small, and this run is at smoke"),
        ({"tasks": "identity_again"}, "it was not tuned on task 'identity_again'; it has identity"),
        ({"models": "never"}, "model 'never' was not tuned on task 'identity'; tune it as the others were"),
        ({"tuned": "nowhere.yaml"}, "--tuned nowhere.yaml: No such file or directory"),
    ],
)
def test_a_file_of_something_else_is_refused(file, options, complaint):
    with pytest.raises(UsageError, match=complaint):
        Run(config(file, **options)).plan()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not valid YAML"),
        ("a: 1", "it is not a file that pdebench-hss tune wrote"),
        ("{schema: 99, chosen: []}", r"written by a newer pdebench-hss \(schema 99\)"),
        ("{schema: 1, scale: small, chosen: [{task: identity}]}", "it is damaged"),
        ("{schema: 1, scale: small, chosen: 3}", "it is damaged"),
    ],
)
def test_a_damaged_file_is_refused(text, complaint):
    Path("bad.yaml").write_text(text)
    with pytest.raises(PdebenchError, match=complaint) as refused:
        Run(config("bad.yaml")).plan()
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_on_the_command_line(cli, tmp_path):
    done = cli(*f"tune --models one_step,mean --tasks identity --tries 3 --executor inline --plugin {PLUGIN}".split())
    assert done.code == 0, done.err
    assert "1 models on tasks" in done.out
    assert "held-out" in done.out
    assert "the test set was not read" in done.out
    assert "use it:  pdebench-hss run --models one_step,mean --tasks identity --tuned tuned.yaml --seeds 3" in done.out
    (tmp_path / "tuned.tries" / DATABASE).write_bytes(b"cut")
    done = cli(*f"tune --models one_step,mean --tasks identity --tries 3 --executor inline --plugin {PLUGIN}".split())
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "remove it and run the same command" in done.err
