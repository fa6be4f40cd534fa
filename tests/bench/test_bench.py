"""Benchmarks take turns, bound what they spend, see memory, and end as a CSV and charts."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pdebench_hss.bench.timing import FEWEST, TookTooLong, memory_of, time_in_turns, time_limit, timing
from pdebench_hss.cli import main


def test_what_is_compared_takes_turns_and_slow_things_are_measured_less_often() -> None:
    order: list[str] = []
    now = 0.0  # a clock that only work moves

    def work(name: str, seconds: float):
        def run() -> None:
            nonlocal now
            order.append(name)
            now += seconds

        return run

    both = {"a": work("a", 0.03), "b": work("b", 0.06)}
    found = time_in_turns(both, repeats=6, seconds=0.2, clock=lambda: now)
    assert order[:4] == ["a", "a", "b", "b"]  # twice each to warm up and to see how long it takes
    assert order[4:8] == ["a", "b", "b", "a"]  # then who comes first changes
    assert found["a"].repeats == 6
    assert found["b"].repeats == FEWEST
    assert (found["a"].low, found["a"].median, found["a"].high) == pytest.approx((30, 30, 30))


def test_the_usual_clock_is_that_of_the_wall() -> None:
    found = time_in_turns({"nap": lambda: time.sleep(0.03)}, repeats=3)
    assert found["nap"].low >= 30


def test_fast_things_are_repeated_inside_a_measurement() -> None:
    calls: list[int] = []
    time_in_turns({"fast": lambda: calls.append(1)}, repeats=3, seconds=1)
    assert len(calls) > 1000


def test_median_and_quartiles_in_milliseconds() -> None:
    found = timing([0.004, 0.001, 0.002, 0.003, 0.100])
    assert (found.low, found.median, found.high) == pytest.approx((2, 3, 4))
    assert timing([0.5]).median == timing([0.5]).high == 500


def test_memory_is_what_a_call_adds_at_its_worst_moment() -> None:
    size = 64 * 2**20

    def allocate() -> None:
        bytearray(b"x") * size  # released at once: only the high-water mark can tell

    assert 0.9 * size < memory_of(allocate) < 1.3 * size
    assert memory_of(lambda: None) < 0.1 * size


def test_what_takes_too_long_is_stopped() -> None:
    with pytest.raises(TookTooLong, match="more than 0 s"), time_limit(0.05):
        time.sleep(2)
    with time_limit(5):
        pass
    time.sleep(0.01)  # and no alarm is left behind


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert (end.value.code or 0) == 0


def test_bench_models_writes_a_table_and_charts(tmp_path: Path, capsys) -> None:
    run(
        *("bench", "models", "--models", "neural_hss,fno,mean", "--tasks", "poisson_1d,poisson_2d", "--scale", "smoke"),
        *("--threads", "1", "--repeats", "3", "--out", str(tmp_path)),
    )
    rows = list(csv.DictReader((tmp_path / "models.csv").read_text().splitlines()))
    assert {(row["task"], row["model"]) for row in rows} == {  # closed forms have no steps
        (task, model) for task in ("poisson_1d", "poisson_2d") for model in ("fno", "neural_hss")
    }
    for row in rows:
        assert float(row["step_ms"]) > 0
        assert float(row["forward_ms"]) > 0
        assert float(row["flops_step"]) > 0
        assert (row["status"], row["threads"]) == ("ok", "1")
        assert row["at"] == "best" or row["batch"] == row["batch_asked"]
        times = float(row["step_ms"]) / float(row["limit_ms"])
        assert float(row["times_limit"]) == pytest.approx(times)
    for chart in ("models_step.png", "models_forward.png"):
        assert (tmp_path / chart).read_bytes()[:4] == b"\x89PNG"
    assert "wrote" in capsys.readouterr().out


def test_explain_prints_one_choice_for_every_size(capsys) -> None:
    run("bench", "layers", "--explain", "--format", "json")
    rows = json.loads(capsys.readouterr().out)
    cases = {(row["points"], row["rows"]) for row in rows}
    assert len(cases) == 18
    for case in cases:
        mine = [row for row in rows if (row["points"], row["rows"]) == case]
        chosen = [row for row in mine if row["choice"]]
        assert len(chosen) == 1
        assert float(chosen[0]["predicted_ms"]) == min(float(row["predicted_ms"]) for row in mine)


def test_unknown_benches_are_refused_with_a_hint(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "layerz"])
    assert end.value.code == 2
    assert "Did you mean 'layers'" in capsys.readouterr().err


def test_help_is_light() -> None:
    program = "import sys; from pdebench_hss.cli import main\ntry: main(['bench', '--help'])\nexcept SystemExit: pass\n"
    program += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
