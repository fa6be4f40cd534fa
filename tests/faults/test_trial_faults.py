"""A trial can do what it likes: it becomes a row with a status and a reason, and the rest goes on."""

from __future__ import annotations

import pandas as pd
import pytest

pytestmark = pytest.mark.timeout(180)


def results(tmp_path) -> pd.DataFrame:
    return pd.read_csv(tmp_path / "board" / "results.csv").set_index("model")


def test_every_way_to_fail_is_a_row(cli, toys, tmp_path):
    models = "toy_segfault,toy_killed,toy_hang,toy_raise,toy_memory,toy_diverge,toy_rollout_only,toy_conv"
    done = cli(
        *("run", "--plugin", toys, "--models", models, "--tasks", "toy", "--scale", "smoke"),
        *("--timeout", "8", "--out", "board"),
    )
    assert done.code == 1, done.err
    rows = results(tmp_path)
    assert rows.status.to_dict() == {
        "toy_segfault": "failed",
        "toy_killed": "out_of_memory",
        "toy_hang": "timeout",
        "toy_raise": "failed",
        "toy_memory": "out_of_memory",
        "toy_diverge": "diverged",
        "toy_rollout_only": "skipped",
        "toy_conv": "ok",
    }
    assert "SIGSEGV" in rows.reason["toy_segfault"]
    assert "8 s" in rows.reason["toy_hang"]
    assert "the toy network broke" in rows.reason["toy_raise"]
    assert rows.reason["toy_rollout_only"] == "rollout tasks only"
    for reason in rows.reason.drop("toy_conv"):
        assert reason in done.out  # the table shows it too
    assert "Traceback" not in done.out + done.err


def test_a_failure_is_tried_again_and_what_is_settled_is_not(cli, toys):
    command = ("run", "--plugin", toys, "--models", "toy_raise,toy_diverge,toy_conv", "--tasks", "toy")
    arguments = (*command, "--scale", "smoke", "--out", "board")
    cli(*arguments)
    plan = cli(*arguments, "--dry-run").out
    assert "retry  toy  toy_raise" in plan
    assert "cached toy  toy_diverge" in plan
    assert "cached toy  toy_conv" in plan


def test_what_a_model_prints_does_not_reach_the_terminal(cli, toys):
    done = cli("run", "--plugin", toys, "--models", "toy_prints", "--tasks", "toy", "--scale", "smoke", "--out", "b")
    assert done.code == 0
    assert "noise" not in done.out + done.err


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("toy_nan", ("toy_nan", "sample", "non-finite outputs")),
        ("toy_raises", ("toy_raises", "ZeroDivisionError", "the toy solver broke")),
        ("toy_shape", ("toy_shape", "(8, 1, 15)", "expected (8, 1, 16)")),
    ],
)
def test_bad_data_fail_their_own_trials_only(cli, toys, tmp_path, task, words):
    done = cli(
        *("run", "--plugin", toys, "--models", "toy_conv", "--tasks", f"{task},toy", "--scale", "smoke"),
        *("--out", "board"),
    )
    assert done.code == 1
    rows = pd.read_csv(tmp_path / "board" / "results.csv").set_index("task")
    assert rows.status.to_dict() == {task: "failed", "toy": "ok"}
    for word in words:
        assert word in rows.reason[task]


def test_inline_executor_gives_the_same_numbers_as_process(cli, toys, tmp_path):
    for executor in ("inline", "process"):
        done = cli(
            *("run", "--plugin", toys, "--models", "toy_conv,mean", "--tasks", "toy,toy_rollout", "--scale", "smoke"),
            *("--executor", executor, "--jobs", "1", "--out", executor),
        )
        assert done.code == 0, done.err
    inline, process = (
        pd.read_csv(tmp_path / name / "results.csv")[["key", "test_err", "rmse", "max_error"]]
        for name in ("inline", "process")
    )
    pd.testing.assert_frame_equal(inline, process, check_exact=True)
