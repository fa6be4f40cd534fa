"""`pdebench_hss.run` as somebody at an interpreter meets it."""

from __future__ import annotations

import dataclasses
import inspect
import warnings

import pytest
from torch import nn

import pdebench_hss as pb
from pdebench_hss.base.errors import UsageError
from pdebench_hss.runs.config import RunConfig

OPTIONS = {"tasks": "poisson_1d", "scale": "smoke", "executor": "inline", "device": "cpu"}


class TinyNet(nn.Module):
    """One convolution."""

    def __init__(self, task, width=3):
        super().__init__()
        self.net = nn.Conv1d(task.in_channels, task.out_channels, width, padding=width // 2)

    def forward(self, u):
        return self.net(u)


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """A class beside installed models, and with another budget."""
    folder = tmp_path_factory.mktemp("boards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDEBENCH_HSS_CACHE", str(folder / "cache"))
        few = pb.run(models=[TinyNet, "linear", "mean"], seeds=2, out=folder / "few", **OPTIONS)
        more = pb.run(models=[TinyNet, "linear"], seeds=2, budget="steps=8", out=str(folder / "more"), **OPTIONS)
    return few, more


def test_its_keywords_are_those_of_a_run_with_their_defaults():
    keywords = inspect.signature(pb.run).parameters
    fields = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    assert {name: p.default for name, p in keywords.items() if name != "progress"} == fields
    assert all(p.annotation is not p.empty for p in keywords.values())
    described = {word.strip(" `") for word in pb.run.__doc__.replace(",", " ").split()}
    assert set(keywords) <= described


def test_dir_knows_everything_public_and_no_more():
    assert {"Board", "run", "load_task", "load_model", "compare", "ModelSpec", "testing"} <= set(dir(pb))
    assert not {"importlib", "Any", "annotations", "_HOMES"} & set(dir(pb))


def test_a_class_is_a_row_of_the_board(boards):
    few, _ = boards
    assert sorted(few.models) == ["linear", "mean", "tiny_net"]
    assert few.tasks == ["poisson_1d"]
    assert set(few.leaderboard["status"]) == {"ok"}
    assert few.results["model"].value_counts().to_dict() == {"tiny_net": 2, "linear": 1, "mean": 1}  # one per seed


def test_it_shows_itself_with_the_best_marked(boards):
    few, _ = boards
    best = few.leaderboard.set_index("rank").loc[1, "model"]
    page, text = few._repr_html_(), repr(few)
    assert f'<td class="best text">{best}</td>' in page
    assert page.count('<td class="best') == 2  # its name and its error
    assert all(model in text for model in few.models)
    assert max(map(len, text.splitlines()[:5])) <= 100


def test_many_tables_are_a_row_each():
    rows = [
        {"task": f"t{n}", "model": m, "scale": "smoke", "budget": "steps=1", "n_train": 8, "metric": "relative_l2"}
        | {"seed": s, "test_err": 0.1 * (1 + (m == "b")) + 0.01 * s, "status": "ok", "data_hash": "d"}
        | {"training_free": False}
        for n in range(6)
        for m in ("a", "b")
        for s in (0, 1)
    ]
    import pandas as pd

    board = pb.Board(pd.DataFrame(rows))
    assert board._repr_html_().count("<table>") == 1
    assert [line.split()[0] for line in repr(board).splitlines()[:6]] == [f"t{n}" for n in range(6)]


def test_it_compares_itself(boards):
    few, more = boards
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        table = few.compare(more)
        again = pb.compare(few, more)
    assert set(table["model"]) == {"tiny_net", "linear", "mean"}
    assert table.equals(again)
    assert all(note.category.__name__ == "ComparisonWarning" and note.filename == __file__ for note in notes)


def test_it_is_a_table_for_a_paper(boards):
    few, _ = boards
    text = few.to_latex(models=["tiny_net", "linear"])
    assert text.index("TinyNet") < text.index("Linear")
    assert r"\begin{tabular}" in text
    assert "Not shown: Mean" in text.replace("\n", " ")


def test_it_draws_itself(boards):
    few, _ = boards
    figure = few.plot("pareto", against="params_real")
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="no kind 'pareto_front'"):
        few.plot("pareto_front")
    with pytest.raises(UsageError, match="no model has several budgets"):
        few.plot("compute")


def test_its_models_are_loaded_by_name_or_class(boards):
    few, _ = boards
    by_name = few.load_model("tiny_net")
    by_class = pb.load_model(few, TinyNet)
    from_folder = pb.load_model(few.path, TinyNet, task="poisson_1d")
    assert by_name.record.key == by_class.record.key == from_folder.record.key


def test_a_task_prints_itself_in_five_lines():
    lines = repr(pb.load_task("heat_1d", scale="smoke")).splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("heat_1d: ")
    assert "rollout of 4 steps" in lines[2]


def test_a_class_named_like_an_installed_model_is_refused(tmp_path):
    spec = pb.ModelSpec(name="linear", title="Mine", build=TinyNet, hparams={"width": 3})
    with pytest.raises(UsageError, match="a model 'linear' is installed"):
        pb.run(models=spec, out=tmp_path / "board", **OPTIONS)
    assert not (tmp_path / "board").exists()


def test_a_mistyped_option_is_found_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"no scale 'smok'\. Did you mean"):
        pb.run(models=TinyNet, out=tmp_path / "board", **{**OPTIONS, "scale": "smok"})
    assert not (tmp_path / "board").exists()
