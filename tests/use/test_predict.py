"""``predict`` as a stranger types it: files in, files out, and one line for whatever is wrong."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from pdebench_hss import load_model
from pdebench_hss.base.errors import UsageError
from pdebench_hss.cli import main
from pdebench_hss.use.field_files import Place, read_fields, write_fields


@pytest.fixture
def here(board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(1).standard_normal((6, 1, 16)))
    return tmp_path


@pytest.fixture
def predict(here, plugins, capsys):
    def call(*words: str):
        files = [word for file in plugins for word in ("--plugin", file)]
        with pytest.raises(SystemExit) as ended:
            main(["predict", "board", *words, *files])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return call


def test_predictions_are_those_of_the_model_and_timed(cli, board, plugins, tmp_path):
    x = np.random.default_rng(1).standard_normal((6, 1, 16))
    np.save(tmp_path / "x.npy", x)
    files = [word for file in plugins for word in ("--plugin", file)]
    chosen = ("--model", "toy_conv", "--task", "toy", "--seed", "1", "--input", "x.npy", "--out", "y.npy")
    done = cli("predict", "board", *chosen, *files)
    assert done.code == 0, done.err
    assert np.array_equal(np.load(tmp_path / "y.npy"), load_model(board, "toy_conv", "toy", 1, plugins=plugins)(x))
    assert "toy_conv on toy (seed 1): 6 samples in " in done.out
    assert "ms each; wrote y.npy, float64 (6, 1, 16)" in done.out


@pytest.mark.parametrize("out", ["y.npy", "y.npz", "y.npz:u", "y.h5", "y.h5:deep/u"])
def test_every_format_is_written_and_read_back(predict, out):
    code, _, err = predict("--model", "mean", "--task", "toy", "--input", "x.npy", "--out", out)
    assert (code, err) == (0, "")
    assert read_fields(out).shape == (6, 1, 16)


def test_rollouts_have_steps(predict):
    chosen = ("--model", "linear", "--task", "toy_rollout", "--input", "x.npy", "--out", "y.npy")
    assert predict(*chosen, "--steps", "7", "--batch", "2")[0] == 0
    assert np.load("y.npy").shape == (6, 7, 1, 16)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--input", "nothing.npy"), "--input nothing.npy: no such file"),
        (
            ("--input", "x.txt"),
            "--input x.txt: write a file that ends in .npy, .npz, .h5, .hdf5, .zarr, ",
        ),
        (("--input", "board.npy"), "--input board.npy: it is a directory"),
        (("--input", "x.npy:u"), "--input x.npy:u: a .npy file holds one array and no names"),
        (("--input", "two.npz"), "--input two.npz holds a, b; write two.npz:NAME"),
        (("--input", "two.h5:c"), "--input two.h5:c: no such array; it holds a, b"),
        (
            ("--input", "objects.npy"),
            "--input objects.npy can't be read: it holds Python objects",
        ),
        (("--input", "words.npy"), "--input words.npy: an array of values of <U1; real numbers are needed"),
        (("--input", "broken.h5"), "--input broken.h5 can't be read: "),
        (("--input", "broken.npy"), "--input broken.npy can't be read: "),
        (("--input", "nan.npy"), "inputs hold NaN or infinity in 1 of 2 samples, the first is sample 1"),
        (("--input", "wide.npy"), "inputs are on a grid (17,); this model was trained on (16,)"),
        (("--input", "two_channels.npy"), "inputs have 2 channels; toy takes 1: (batch, 1, 16)"),
        (("--out", "x.npy"), "--out x.npy exists; add --force to write over it"),
        (("--out", "y.zarr"), "--out y.zarr: write a file that ends in .npy, .npz, .h5, .hdf5, or file.h5:name"),
        (("--out", "no/y.npy"), "--out no/y.npy: no directory no"),
        (("--model", "toy_con"), "no model 'toy_con' in board. Did you mean 'toy_conv'?"),
        (("--steps", "3"), "steps=3: toy is not a rollout task"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_whatever_is_wrong_is_one_line(predict, here, words, message):
    (here / "board.npy").mkdir()
    np.savez("two.npz", a=np.ones(3), b=np.ones(3))
    with h5py.File("two.h5", "w") as file:
        file["a"], file["b"] = np.ones(3), np.ones(3)
    np.save("objects.npy", np.array([{}], dtype=object))
    np.save("words.npy", np.array(["a"]))
    (here / "broken.h5").write_bytes(b"x" * 100)
    (here / "broken.npy").write_bytes(b"x" * 100)
    np.save("nan.npy", np.stack([np.ones((1, 16)), np.full((1, 16), np.nan)]))
    np.save("wide.npy", np.ones((2, 1, 17)))
    np.save("two_channels.npy", np.ones((2, 2, 16)))
    given = dict(zip(words[::2], words[1::2]))
    usual = {"--model": "toy_conv", "--task": "toy", "--input": "x.npy", "--out": "y.npy", **given}
    code, out, err = predict(*(word for pair in usual.items() for word in pair))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (here / "y.npy").exists()


def test_an_existing_file_is_written_over_when_asked(predict, here):
    (here / "y.npy").write_text("mine")
    assert predict("--model", "mean", "--task", "toy", "--input", "x.npy", "--out", "y.npy", "--force")[0] == 0
    assert np.load("y.npy").shape == (6, 1, 16)


def test_a_file_that_can_not_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="can't be written"):
        write_fields(Place(tmp_path / "file" / "y.npy", ""), np.ones(3))
