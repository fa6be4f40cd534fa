"""An experiment as plain values: precedence, seeds, and one clear line for everything that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.budget import Budget
from pdebench_hss.runs.config import RunConfig, available_cores, load_config, make_config, parse_seeds, read_yaml


def write(tmp_path, text: str):
    path = tmp_path / "experiment.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_win_over_the_file_and_the_file_over_the_defaults(tmp_path):
    path = write(tmp_path, "tasks: poisson_1d\nscale: smoke\nseeds: 5\nbudget: steps=10\n")
    config = load_config(path, {"seeds": "2", "budget": None, "models": None})
    assert (config.tasks, config.scale) == ("poisson_1d", "smoke")  # from the file
    assert config.seed_list == [0, 1]  # the flag
    assert config.budgets == [Budget("steps", 10)]  # a flag that was not given changes nothing
    assert (config.models, config.out) == ("all", "leaderboards/latest")  # defaults


def test_the_documented_defaults():
    config = RunConfig(tasks="poisson_1d")
    assert (config.scale, config.seed_list, config.executor) == ("small", [0], "process")
    assert (config.budgets, config.params_target, config.force) == ([], None, False)


def test_keys_may_be_written_as_on_the_command_line(tmp_path):
    config = load_config(write(tmp_path, "tasks: a\nmatch-params: 300k\ntrain-size: 16\n"), {})
    assert (config.params_target, config.train_size) == (300_000, 16)


def test_an_empty_file_is_an_empty_experiment(tmp_path):
    assert load_config(write(tmp_path, "# nothing yet\n"), {"tasks": "a"}) == RunConfig(tasks="a")


def test_a_misspelt_key_is_refused_with_the_nearest_one_and_the_file(tmp_path):
    path = write(tmp_path, "tasks: a\nbugdet: steps=3\n")
    with pytest.raises(UsageError) as refusal:
        load_config(path, {})
    assert str(refusal.value).startswith(f"--config {path}: unknown key 'bugdet'. Did you mean 'budget'?  Keys: ")
    with pytest.raises(UsageError, match=r"^run\(\): unknown key 'model'. Did you mean 'models'\?"):
        make_config({"model": "fno", "tasks": "a"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tasks: a\nseeds: [0, 1\n", "line 3: not valid YAML"),
        ("- poisson_1d\n", "expected keys and values, found a list"),
        ("poisson_1d\n", "expected keys and values, found a str"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused_with_its_place(tmp_path, text, complaint):
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as refusal:
        read_yaml(path)
    assert str(refusal.value).startswith(f"--config {path}")
    assert complaint in str(refusal.value)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere\.yaml: No such file or directory"):
        load_config(tmp_path / "nowhere.yaml", {})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tasks": ""}, "no task was named"),
        ({"scale": "smal"}, "no scale 'smal'. Did you mean 'small'?"),
        ({"device": "gpu"}, "no device 'gpu'; devices: auto, cpu, cuda, mps"),
        ({"jobs": 0}, "--jobs must be positive, not 0"),
        ({"jobs": -2}, "--jobs must be positive, not -2"),
        ({"timeout": -1.0}, "--timeout must be positive, not -1.0"),
        ({"train_size": 0}, "--train-size must be positive, not 0"),
        ({"budget": "steps=-3"}, "must be positive, not -3"),
        ({"match_params": "many"}, "--match-params: 'many' is not a number"),
        ({"match_params": "-3k"}, "--match-params: must be positive, not -3k"),
        ({"seeds": 0}, "seeds 0: a count must be at least 1"),
        ({"seeds": "0,-1"}, "seeds must not be negative"),
        ({"seeds": "three"}, "write a count (3) or a list (0,7)"),
    ],
)
def test_bad_values_are_refused_before_anything_starts(options, complaint):
    with pytest.raises(UsageError) as refusal:
        make_config({"tasks": "poisson_1d", **options})
    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("budget", 300),
        ("device", 0),
        ("models", 5),
        ("tasks", 5),
        ("jobs", 1.5),
        ("train_size", 2.5),
        ("match_params", 0.5),
        ("data_seed", "x"),
        ("seeds", [0.5]),
        ("force", "maybe"),
    ],
)
def test_values_of_a_wrong_type_are_refused_with_their_key(key, value):
    with pytest.raises(UsageError, match=key.replace("_", "[_-]")):
        make_config({"tasks": "poisson_1d", key: value})


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 200))
def test_a_count_of_seeds_means_the_first_ones(count):
    assert parse_seeds(count) == parse_seeds(str(count)) == list(range(count))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 10**9), min_size=2, unique=True))
def test_a_list_of_seeds_means_those(seeds):
    assert parse_seeds(seeds) == parse_seeds(",".join(map(str, seeds))) == seeds


def test_a_list_of_one_seed_is_not_a_count():
    assert parse_seeds([7]) == [7]
    assert parse_seeds("7,") == [7]
    assert parse_seeds("7,7,0") == [7, 0]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 64))
def test_threads_are_divided_among_jobs(jobs):
    config = RunConfig(tasks="a", jobs=jobs)
    assert config.n_jobs == jobs
    assert config.threads >= 1
    assert config.threads == 1 or config.threads * jobs <= available_cores()


def test_on_a_cpu_there_is_a_job_per_core():
    assert RunConfig(tasks="a", device="cpu").n_jobs == available_cores()
