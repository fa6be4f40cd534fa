"""`show` tells everything about a name; `cite` prints valid BibTeX for what was used, each entry once."""

from __future__ import annotations

import json
import re

import pytest
from factories.records import bare_record, make_trial

from pdebench_hss.contract.citations import bibliography, entries, in_words
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.store import Store

HE = """@inproceedings{he2016deep,
  title = {Deep {Residual} Learning},
  author = {He, Kaiming and Boull{\\'e}, Nicolas and
            others},
  year = {2016}
}"""
OTHER = "@misc{other,\n  title = {Other},\n  author = {Somebody, A.},\n  year = {2020}\n}"


def facts(printed: str) -> dict[str, str]:
    return {row["what"]: row["value"] for row in json.loads(printed)}


def test_a_model_is_shown_with_settings_reasons_citation_and_origin(cli):
    shown = cli("show", "green_learning", "--format", "json").out
    rows = json.loads(shown)
    told = facts(shown)
    assert told["size knob"] == "width"
    assert told["version"] == "2"
    assert re.fullmatch(r"pdebench-hss \S+ \(entry point green_learning\)", told["from"])
    assert told["cite"].startswith("Boulle, Earls, Townsend: Data-driven discovery of Green's functions")
    paper = [row["value"] for row in rows if row["what"] == "at paper"]
    assert any("layers=6, width=128" in value and "poisson_1d" in value for value in paper)
    small = [row["value"] for row in rows if row["what"] == "tuned at small"]
    assert any(value.startswith("lr 0.0003 to 0.03 (log), width 64 to 256 (log)") for value in small)
    reasons = {row["value"].split(":  ")[0] for row in rows if row["what"] == "can't do"}
    assert reasons == {"needs a linear PDE", "1D and 2D only: pairs of points grow too many"}


def test_a_task_is_shown_with_equation_recipes_and_who_can_do_it(cli):
    rows = json.loads(cli("show", "burgers_1d", "--format", "json").out)
    told = {row["what"]: row["value"] for row in rows}
    assert told["equation"].startswith("u_t + beta u u_x")
    assert told["parameters"] == "beta=1.0"
    assert "1800 train / 200 test" in told["at paper"]
    assert "epochs=" in told["recipe at paper"]
    assert "neural_hss" in told["models"]
    assert {"what": "can't do", "value": "green_learning: needs a linear PDE"} in rows


def test_parameters_are_counted_both_ways_on_request(cli):
    registry = load_registry()
    info = registry.tasks["heat_1d"].spec.info("small")
    spec = registry.models["fno"].spec
    built = spec.make(info, spec.hparams_for(info))
    entries_ = sum(parameter.numel() for parameter in built.parameters())
    degrees = sum(parameter.numel() * (2 if parameter.is_complex() else 1) for parameter in built.parameters())
    rows = json.loads(cli("show", "heat_1d", "--params", "--format", "json").out)
    (line,) = (row["value"] for row in rows if row["what"] == "parameters at small" and "  fno" in row["value"])
    assert line.split() == [f"{degrees:,}", "fno", f"({entries_:,}", "entries,", "some", "complex)"]


def test_every_citation_of_a_built_in_is_bibtex_with_what_a_reader_needs():
    registry = load_registry()
    cited = [found.spec for found in (*registry.models.values(), *registry.tasks.values()) if found.spec.citation]
    assert len(cited) > 10
    for spec in cited:
        found = entries(spec.citation)
        assert found, spec.name
        for key, entry in found.items():
            assert entry.count("{") == entry.count("}"), key
            assert all(re.search(rf"^\s*{field}\s*=", entry, re.M) for field in ("title", "author", "year")), key


def test_entries_are_taken_apart_and_each_printed_once():
    assert list(entries(f"{HE}\n\n{OTHER}")) == ["he2016deep", "other"]
    printed = bibliography([("a", f"{HE}\n\n{OTHER}"), ("b", HE), ("c", "a talk"), ("d", "")])
    assert printed.count("@inproceedings{he2016deep,") == printed.count("@misc{other,") == 1
    assert printed.splitlines()[:4] == [
        "% a: he2016deep, other",
        "% b: he2016deep",
        "% c: a talk",
        "% d: nothing to cite",
    ]


def test_a_citation_in_words():
    assert in_words(HE) == "He, Boulle, et al.: Deep Residual Learning (2016)"
    assert in_words("a talk") == "a talk"


def test_cite_reads_the_records_of_a_run(cli, tmp_path):
    store = Store(tmp_path / "board")
    store.prepare()
    for model, status in [("mean", "diverged"), ("resnet", "failed"), ("fno", "skipped"), ("gone", "timeout")]:
        trial = make_trial(model, task="heat_1d")
        store.put(bare_record(trial, status))
    printed = cli("cite", "board").out
    assert [line for line in printed.splitlines() if line.startswith("% model")] == [
        "% model gone: its plugin is not installed here",
        "% model mean: nothing to cite",
        "% model resnet: he2016deep",
    ]
    assert "% task heat_1d: sittoni2026neuralhss" in printed
    assert printed.count("@") == 3  # this program, ResNet and the paper; nobody ran fno


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "leaderboards/latest holds no records"),
        (["heat_2d"], "no model or task 'heat_2d'. Did you mean 'heat_1d'?"),
    ],
)
def test_cite_says_what_it_needs(cli, arguments, message):
    done = cli("cite", *arguments)
    assert done.code == 2
    assert message in done.err
