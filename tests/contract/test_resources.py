"""What trials need: stated by models, tasks and the user, and refused where it makes no sense."""

from __future__ import annotations

import pytest

from pdebench_hss import ModelSpec, Recipe, Scale, TaskSpec
from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.resources import Resources, needs, parse_resources
from pdebench_hss.runs.config import RunConfig

DEFAULT = Resources(cpus=2)


@pytest.mark.parametrize(
    ("stated", "override", "expected"),
    [
        ([], None, Resources(2, 0, 0)),
        ([{"cpus": 4}], None, Resources(4, 0, 0)),
        ([{"cpus": 1}], None, Resources(1, 0, 0)),  # a statement counts for more than the default
        ([{"cpus": 4, "memory": "8G"}, {"cpus": 1, "memory": "12G"}], None, Resources(4, 0, 12e9)),
        ([{"gpus": 1}], "gpus=0.5,cpus=3", Resources(3, 0.5, 0)),
        ([{"gpus": 1}], "gpus=0", Resources(2, 0, 0)),
    ],
)
def test_the_larger_of_model_and_task_counts_and_the_user_above_all(stated, override, expected):
    assert needs(DEFAULT, {str(number): what for number, what in enumerate(stated)}, override) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu=2", "no resource 'cpu'. Did you mean 'cpus'?"),
        ("cpus=two", "'two' is not a number"),
        ("cpus=-1", "must be positive"),
        ("gpus=1.5", "a whole number or a share of one"),
    ],
)
def test_nonsense_is_refused_when_the_command_is_read(text, words):
    with pytest.raises(UsageError, match=r"--resources.*" + words.replace("?", r"\?")):
        RunConfig(tasks="toy", resources=text)


def test_a_statement_that_makes_no_sense_names_who_made_it():
    with pytest.raises(UsageError, match=r"model 'm': resources: no resource 'gpu'\. Did you mean 'gpus'\?"):
        needs(DEFAULT, {"model 'm'": {"gpu": 1}})


def test_needs_say_themselves_in_words():
    assert str(Resources(1, 0.5, 8e9)) == "1 CPU, 0.5 GPUs, 8.0 GB of memory"
    assert parse_resources("memory=1.5G") == {"memory": 1.5e9}
    assert Resources(0.5).threads == 1


def test_models_and_scales_may_state_needs_and_they_are_not_part_of_the_data():
    from pdebench_hss.contract.registry import Origin, Registered
    from pdebench_hss.data.cache import Dataset

    def identity(spec: TaskSpec) -> str:
        return Dataset(Registered(spec, Origin("mine", "1", "mine")), "smoke").id

    def make(**resources) -> TaskSpec:
        scale = Scale((16,), train=8, test=4, recipe=Recipe(batch=4, steps=1), resources=resources)
        return TaskSpec("t", "t", "y = x", 1, 1, 1, generate="m:f", scales={"smoke": scale}, linear=True)

    assert identity(make()) == identity(make(memory="8G"))
    assert make().digest() == make(memory="8G").digest()
    model = ModelSpec("m", "m", "m:f", resources=lambda task, scale: {"cpus": task.grid[0]})
    assert model.resources_for(make().info("smoke")) == {"cpus": 16}
