"""The plan: what runs, what is there already, what can't be done and why; and the keys that decide it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from factories.records import bare_record, make_trial
from factories.tasks import make_spec
from torch import nn

from pdebench_hss import ModelSpec, TaskInfo, TaskSpec
from pdebench_hss.base.errors import PdebenchError, PluginError, UsageError
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import Origin, Registered, Registry
from pdebench_hss.runs import plan as planner
from pdebench_hss.runs.config import available_cores, make_config
from pdebench_hss.runs.plan import Action, Plan, make_plan
from pdebench_hss.training import counting
from pdebench_hss.trials.status import STORED
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.trial import Trial


def build(task: TaskInfo, width: int = 8, gain: float = 1.0) -> nn.Module:
    return nn.Linear(width, 10, bias=False)


def make_task(name="toy", **options) -> TaskSpec:
    return make_spec(name, (8,), title="Toy Eq.", params={"nu": 0.1}, **{"generate": lambda: None, **options})


def make_model(name="net", **options) -> ModelSpec:
    defaults = {"build": build, "hparams": {"width": 8, "gain": 1.0}, "size_knob": "width"}
    return ModelSpec(name=name, title="Net", **{**defaults, **options})


def make_registry(*specs: ModelSpec | TaskSpec, version="1.0", distribution="my-solver") -> Registry:
    specs = specs or (make_model(), make_task())

    def table(kind: type) -> dict:
        return {s.name: Registered(s, Origin(distribution, version, s.name)) for s in specs if isinstance(s, kind)}

    return Registry(models=table(ModelSpec), tasks=table(TaskSpec))


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "board")


def plan(store: Store, *specs, version="1.0", distribution="my-solver", **options) -> Plan:
    config = make_config({"tasks": "all", "scale": "smoke", "device": "cpu", "jobs": 1, **options})
    return make_plan(config, make_registry(*specs, version=version, distribution=distribution), store)


def only(plan: Plan):
    (cell,) = plan.cells
    return cell


def key(store: Store, *specs, **options) -> str:
    return only(plan(store, *specs, **options)).trial.key


# --- run, cached, retry, skip ----------------------------------------------------------------------------------------


def test_every_combination_is_a_cell_tasks_first(store):
    specs = (make_model("a"), make_model("b"), make_task("s"), make_task("t"))
    cells = plan(store, *specs, seeds=2).cells
    assert [(c.trial.task, c.trial.model, c.trial.seed) for c in cells] == [
        (task, model, seed) for task in "st" for model in "ab" for seed in (0, 1)
    ]
    assert {cell.action for cell in cells} == {Action.RUN}


def test_planning_writes_nothing(store):
    plan(store)
    assert not store.path.exists()


@pytest.mark.parametrize("status", STORED)
def test_what_another_run_would_only_repeat_is_cached_and_the_rest_is_tried_again(store, status):
    store.prepare()
    trial = only(plan(store)).trial
    record = bare_record(trial, status, "a reason", seconds={"fit": 1.0, "total": 2.0})
    store.put(record)
    cell = only(plan(store))
    settled = status in ("ok", "skipped", "diverged", "over_budget")
    assert cell.action == (Action.CACHED if settled else Action.RETRY)
    assert "a reason" in cell.reason
    assert cell.record == record
    assert bool(plan(store).todo) == (status in ("failed", "timeout", "out_of_memory"))


def test_force_runs_what_is_cached(store):
    store.prepare()
    trial = only(plan(store)).trial
    store.put(bare_record(trial, "ok", seconds={"fit": 1.0, "total": 2.0}))
    assert only(plan(store)).action == Action.CACHED
    assert only(plan(store, force=True)).action == Action.RUN


def test_a_record_that_can_not_be_read_is_run_again(store):
    store.prepare()
    (store.records_dir / f"{key(store)}.json").write_text("{")
    with pytest.warns(UserWarning, match="counts as missing"):
        assert only(plan(store)).action == Action.RUN


def test_what_a_model_can_not_do_is_skipped_with_its_reason_and_has_a_record(store):
    linear_only = make_model("green", supports=lambda task: None if task.linear else "needs a linear PDE")
    cells = plan(store, linear_only, make_model(), make_task(linear=False)).cells
    found = {cell.trial.model: cell for cell in cells}
    assert (found["green"].action, found["green"].reason) == (Action.SKIP, "needs a linear PDE")
    assert (found["green"].record.status, found["green"].record.reason) == ("skipped", "needs a linear PDE")
    assert found["net"].action == Action.RUN


def test_each_dataset_is_made_once_whoever_needs_it(store):
    forward, inverse = make_task("forward", dataset="flow"), make_task("inverse", dataset="flow")
    made = plan(store, make_model("a"), make_model("b"), forward, inverse, make_task("other"), seeds=2)
    assert [dataset.spec.dataset for dataset in made.datasets(made.todo)] == ["flow", "other"]


# --- what goes into a trial ------------------------------------------------------------------------------------------


def test_a_trial_carries_everything_resolved(store):
    trial = only(plan(store, tasks="toy[nu=0.2]", models="net[width=16,lr=0.5]", seeds="7,", budget="epochs=3")).trial
    assert trial.hparams == {"width": 16, "gain": 1.0}
    assert trial.optimizer == Optimizer(batch=4, lr=0.5, lr_min=1e-5, weight_decay=0.0)
    assert (trial.task_params, trial.seed, trial.budget, trial.n_train) == ({"nu": 0.2}, 7, Budget("epochs", 3), 8)
    assert (trial.model_label, trial.task_label) == ("net[lr=0.5,width=16]", "toy[nu=0.2]")
    assert (trial.model_maker, trial.model_version) == ("my-solver", "1")


def test_a_model_may_bring_learning_rates_but_neither_batch_nor_budget(store):
    own = make_model(recipe={"lr": 0.25})
    assert only(plan(store, own, make_task())).trial.optimizer.lr == 0.25
    greedy = make_model(recipe={"batch": 1})
    with pytest.raises(PluginError, match="recipe may set lr, lr_min, weight_decay, unroll, detach, not 'batch'"):
        plan(store, greedy, make_task())


def test_matching_parameters_turns_the_size_knob(store):
    trial = only(plan(store, match_params="1k")).trial
    assert (trial.hparams["width"], trial.params_target) == (100, 1000)  # ten parameters per unit of width


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"models": "nett"}, "no model 'nett'. Did you mean 'net'?"),
        ({"tasks": "toi"}, "no task 'toi'. Did you mean 'toy'?"),
        ({"models": "net[widht=3]"}, "model 'net' has no option 'widht'. Did you mean 'width'?"),
        ({"models": "net[width=wide]"}, "model 'net': width must be int (like 8), not 'wide'"),
        ({"tasks": "toy[mu=1]"}, "task 'toy' has no option 'mu'"),
        ({"tasks": "toy[nu=much]"}, "task 'toy': nu must be float (like 0.1), not 'much'"),
        ({"scale": "paper"}, "task 'toy' has no scale 'paper'; it has smoke"),
        ({"train_size": 9}, "--train-size 9: scale smoke of task 'toy' has 8"),
    ],
)
def test_a_wrong_wish_is_refused_before_anything_runs(store, options, complaint):
    with pytest.raises(UsageError) as refusal:
        plan(store, **options)
    assert complaint in str(refusal.value)


@pytest.mark.parametrize("wish", [{"models": "net[lr=nan]"}, {"models": "net[gain=inf]"}, {"tasks": "toy[nu=nan]"}])
def test_a_number_that_is_not_finite_is_refused_with_its_option(store, wish):
    (text,) = wish.values()
    option = text.partition("[")[2].partition("=")[0]
    with pytest.raises(UsageError, match=option):
        plan(store, **wish)


def broken(*_):
    raise KeyError("dim")


@pytest.mark.parametrize("part", ["supports", "hparams", "recipe"])
def test_a_plugin_that_raises_is_named_with_its_origin_and_the_task(store, part):
    model = make_model(**{part: broken, "size_knob": None})
    with pytest.raises(PluginError) as refusal:
        plan(store, model, make_task())
    for word in ("model 'net'", "my-solver 1.0", "task 'toy'", "KeyError: 'dim'"):
        assert word in str(refusal.value)


def test_a_network_that_raises_while_sizes_are_matched_is_named(store):
    with pytest.raises(PdebenchError, match="model 'net'"):
        plan(store, make_model(build=lambda task, width, gain: broken()), make_task(), match_params=1000)


# --- keys ------------------------------------------------------------------------------------------------------------

TRIAL = make_trial(hparams={"width": 8}, task_params={"nu": 0.1})
LABELS = {"model_label", "task_label", "equation", "metric", "training_free", "tuned", "deterministic"}  # no substance
FIELDS = [f.name for f in dataclasses.fields(Trial)]


def another(value):
    if isinstance(value, dict):
        return {**value, "more": 1}
    if isinstance(value, bool):
        return not value
    if isinstance(value, Budget):
        return dataclasses.replace(value, amount=value.amount + 1)
    if isinstance(value, Optimizer):
        return dataclasses.replace(value, lr=2 * value.lr)
    return value + "x" if isinstance(value, str) else (value or 0) + 1


@pytest.mark.parametrize("name", FIELDS)
def test_a_key_changes_with_everything_that_can_change_a_result_and_not_with_labels(name):
    changed = dataclasses.replace(TRIAL, **{name: another(getattr(TRIAL, name))})
    assert getattr(changed, name) != getattr(TRIAL, name)
    assert (changed.key == TRIAL.key) == (name in LABELS)


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Optimizer)])
def test_a_key_changes_with_every_number_of_the_optimiser(name):
    more = getattr(TRIAL.optimizer, name) * (1 + 1e-15) + 1e-300
    assert dataclasses.replace(TRIAL, optimizer=dataclasses.replace(TRIAL.optimizer, **{name: more})).key != TRIAL.key


@pytest.mark.parametrize("name", ["hparams", "task_params"])
def test_a_key_changes_with_every_value_inside_and_not_with_their_order(name):
    content = dict(getattr(TRIAL, name))
    assert dataclasses.replace(TRIAL, **{name: dict(reversed(content.items()))}).key == TRIAL.key
    for inner, value in content.items():
        assert dataclasses.replace(TRIAL, **{name: {**content, inner: value * (1 + 1e-15) + 1e-300}}).key != TRIAL.key


def test_a_key_survives_the_way_through_json():
    again = Trial.from_dict(json.loads(json.dumps(TRIAL.to_dict())))
    assert again == TRIAL
    assert again.key == TRIAL.key


@pytest.mark.parametrize(
    "options",
    [
        {"budget": "steps=4"},  # the recipe's own
        {"budget": "steps=4.0"},
        {"train_size": 8},  # all there are
        {"models": "net[width=8]"},  # the default
        {"models": "net[width=8.0,lr=1e-3]"},
        {"tasks": "toy[nu=0.1]"},
        {"seeds": "0,"},
        {"jobs": 2},
        {"timeout": 5.0},
        {"executor": "inline"},
        {"out": "elsewhere"},
        {"force": True},
        {"device": "cpu"},
    ],
)
def test_the_same_trial_said_differently_has_the_same_key(store, options):
    assert key(store, **options) == key(store)


@pytest.mark.parametrize(
    "options",
    [
        {"models": "net[width=9]"},
        {"models": "net[lr=2e-3]"},
        {"tasks": "toy[nu=0.2]"},
        {"budget": "steps=5"},
        {"budget": "epochs=4"},
        {"train_size": 4},
        {"seeds": "1,"},
        {"data_seed": 1},
        {"match_params": 80},
    ],
)
def test_another_trial_has_another_key(store, options):
    assert key(store, **options) != key(store)


def test_a_new_version_of_a_model_or_the_data_means_new_trials_and_a_release_does_not(store):
    base = key(store)
    assert key(store, version="1.1") == base
    assert key(store, make_model(version="2"), make_task()) != base
    assert key(store, make_model(), make_task(data_version="2")) != base


def test_a_model_of_another_distribution_is_another_trial(store):
    assert key(store, distribution="your-solver") != key(store)
    assert key(store, distribution="My.Solver") == key(store)  # one name, spelled differently


def test_a_moved_module_means_no_new_trials(store):
    def at(place: str) -> str:
        parts = {name: f"{place}:{name}" for name in ("generate", "view", "mask", "coords", "coarse")}
        return key(store, make_model(build=f"{place}:Net"), make_task(**parts))

    assert at("my_solver.core") == at("my_solver.rooms.networks")


def test_another_view_mask_or_coordinates_of_a_task_mean_new_trials(store):
    def having(name: str, function: str) -> str:
        return key(store, make_model(), make_task(**{name: f"my_solver:{function}"}))

    for name in ("view", "mask", "coords"):
        assert having(name, "one") != having(name, "other")


@pytest.mark.parametrize("change", [{"normalization": "std"}, {"metric": "trajectory_l2"}, {"boundary": "neumann"}])
def test_a_task_declared_differently_means_new_trials(store, change):
    assert key(store, make_model(), make_task(**change)) != key(store)


def test_a_new_rule_for_counting_flops_means_new_trials_where_the_budget_counts_them(store, monkeypatch):
    before = {budget: key(store, budget=budget) for budget in ("flops=1e9", "steps=5", "seconds=1", "epochs=1")}
    monkeypatch.setattr(counting, "RULE", counting.RULE + 1)
    changed = [budget for budget, old in before.items() if key(store, budget=budget) != old]
    assert changed == ["flops=1e9"]


def test_keys_of_the_committed_boards_are_those_of_their_trials():
    """Fields that came later change no key of a record that was made before them."""
    boards = sorted((Path(__file__).parents[2] / "leaderboards").rglob("records"))
    stores = [Store(folder.parent) for folder in boards if folder.parent.name != "latest"]
    found = [record for store in stores for record in store.all()[::50]]
    assert len(found) > 20
    assert all(record.trial.key == record.key for record in found)


def test_adding_a_model_or_a_task_changes_nothing_for_the_others(store):
    before = {cell.trial.cell: cell.trial.key for cell in plan(store, seeds=2).cells}
    specs = (make_model("a"), make_model(), make_model("z"), make_task("early"), make_task(), make_task("zuletzt"))
    after = {cell.trial.cell: cell.trial.key for cell in plan(store, *specs, seeds=2).cells}
    assert len(after) == 9 * len(before)
    assert before.items() <= after.items()


def test_one_trial_asked_for_under_two_labels_runs_once(store):
    todo = plan(store, models="net,net[width=8]").todo
    assert len(todo) == len({cell.trial.key for cell in todo})


# --- how long it will take -------------------------------------------------------------------------------------------


def remember(store: Store, fit: float, total: float, steps: int, status="ok", **options) -> None:
    """An earlier trial that took so long."""
    store.prepare()
    trial = only(plan(store, **options)).trial
    spent = {"steps": steps} if steps else {}
    store.put(bare_record(trial, status, spent=spent, seconds={"fit": fit, "total": total}))


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("steps=10", 10 * 2.0 + 3.0),
        ("epochs=10", 20 * 2.0 + 3.0),  # eight samples in batches of four
        ("seconds=60", 60.0 + 3.0),
        ("core_seconds=60", 60.0 / available_cores() + 3.0),  # one job has all cores
    ],
)
def test_an_estimate_is_steps_times_seconds_per_step_and_what_comes_besides(store, budget, expected):
    remember(store, fit=8.0, total=11.0, steps=4)
    assert plan(store, budget=budget).estimate() == (pytest.approx(expected), 0)


def test_core_seconds_last_as_long_as_the_threads_of_a_job_need_for_them(store):
    remember(store, fit=8.0, total=11.0, steps=4)
    made = plan(store, budget="core_seconds=60", jobs=2, seeds="1,2")
    threads = max(1, available_cores() // 2)
    assert made.estimate() == (pytest.approx(2 * (60.0 / threads + 3.0) / 2), 0)


def test_an_estimate_takes_the_median_of_earlier_trials_and_divides_by_jobs(store):
    for seed, fit in enumerate((4.0, 8.0, 400.0)):
        remember(store, fit=fit, total=fit + 1.0, steps=4, seeds=f"{seed},")
    made = plan(store, budget="steps=10", jobs=2, seeds=2)
    assert made.estimate() == (pytest.approx(2 * (10 * 2.0 + 1.0) / 2), 0)


def test_an_estimate_counts_what_nothing_is_known_about(store):
    remember(store, fit=8.0, total=11.0, steps=4)
    remember(store, fit=8.0, total=9.0, steps=4, status="failed", seeds="1,")  # tells nothing about an ok one
    made = plan(store, make_model(), make_model("new"), make_task(), budget="steps=1", seeds=2)
    assert made.estimate() == (pytest.approx(2 * (2.0 + 3.0)), 2)
    assert plan(store, budget="flops=1e9").estimate() == (0.0, 1)


def test_a_closed_form_costs_what_it_cost(store):
    remember(store, fit=8.0, total=11.0, steps=0)
    assert plan(store, budget="steps=1000").estimate() == (pytest.approx(11.0), 0)
    assert plan(store, budget="seconds=1000").estimate() == (pytest.approx(11.0), 0)


def test_what_is_cached_costs_nothing(store):
    remember(store, fit=8.0, total=11.0, steps=4)
    assert plan(store).estimate() == (0, 0)


def test_no_store_no_history(store):
    assert planner.make_plan(make_config({"tasks": "toy", "scale": "smoke"}), make_registry(), store).history == {}


def test_a_ladder_is_a_trial_for_each_budget_the_lowest_rung_of_all_first(store):
    cells = plan(store, make_task("a"), make_task("b"), make_model(), budget="steps=400,100", seeds=2).cells
    trials = [cell.trial for cell in cells]
    rungs = [(int(trial.budget.amount), trial.task, trial.seed) for trial in trials]
    assert rungs == [(n, task, seed) for n in (100, 400) for task in "ab" for seed in (0, 1)]


def test_a_rung_is_the_trial_that_its_budget_alone_would_be(store):
    ladder = {cell.trial.key for cell in plan(store, budget="flops=1e9,4e9").cells}
    assert ladder == {only(plan(store, budget=budget)).trial.key for budget in ("flops=1e9", "flops=4e9")}


def test_a_task_without_a_scale_says_which_it_has(store):
    with pytest.raises(UsageError, match="task 'toy' has no scale 'medium'; it has smoke"):
        plan(store, scale="medium")
