"""What the process of a model gets to see of a dataset: the train split, and of the test split the inputs alone.

A task with a ``view`` (an inverse problem on a forward problem's data) or with history may see stored outputs as its
inputs. Then both have to be read to form the inputs, and that is done in a fork, of which the inputs are all that comes
back.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base.errors import DataError
from ..contract.task import TaskInfo
from .cache import Dataset, Split, peek, read_inputs, read_split, verify
from .stored import StoredSplit


@dataclass(frozen=True)
class BlindData:
    """A task's samples in physical units, without the answers to the test.

    ``train`` may stay in its file (`stored`). ``held_out`` are samples of train that are not trained on;
    ``test_inputs`` is None where test is not asked for.
    """

    task: TaskInfo
    train: Split | StoredSplit
    test_inputs: np.ndarray | None
    sha256: str
    seconds_per_sample: float | None = None
    held_out: Split | None = None

    @property
    def nbytes(self) -> int:
        """Of what is in memory."""
        there = (self.train if isinstance(self.train, Split) else None, self.held_out, self.test_inputs)
        return sum(part.nbytes for part in there if part is not None)


def load(
    dataset: Dataset,
    n_train: int | None = None,
    path: Path | None = None,
    *,
    apart: bool,
    held_out: np.ndarray | None = None,
    test: bool = True,
    stored: bool = False,
) -> BlindData:
    """The first ``n_train`` samples of train, those ``held_out`` (a mask) put aside, and the test inputs.

    ``apart`` is for processes that may be forked; in others, where a model shares the process with everything else
    anyway, a view is formed here. Without ``test`` nothing of the test split is read, not even to verify the file.
    With ``stored``, what is trained on stays in its file.
    """
    path = path or dataset.path
    header = verify(path) if test else peek(path)
    task = dataset.spec.info(dataset.scale, dataset.params)
    inputs = _test_inputs(dataset, path, apart) if test else None
    held: Split | None = None
    if stored:
        chosen = np.zeros(n_train or dataset.size.train, bool) if held_out is None else held_out
        left, put_aside = (np.flatnonzero(mask) for mask in (~chosen, chosen))
        if len(put_aside):
            held = StoredSplit(dataset, path, "train", put_aside).take(np.arange(len(put_aside)))
        rest = StoredSplit(dataset, path, "train", left)
        return BlindData(task, rest, inputs, header.sha256, header.seconds_per_sample, held)
    train = read_split(dataset, path, "train", n_train)
    if held_out is not None:
        held, train = (Split(train.inputs[mask], train.outputs[mask]) for mask in (held_out, ~held_out))
    return BlindData(task, train, inputs, header.sha256, header.seconds_per_sample, held)


def _test_inputs(dataset: Dataset, path: Path, apart: bool) -> np.ndarray:
    if dataset.spec.view is None and dataset.spec.history == 1:
        return read_inputs(dataset, path, "test")

    def form() -> np.ndarray:
        return np.ascontiguousarray(read_split(dataset, path, "test").inputs)

    return _in_a_fork(form) if apart else form()


def _in_a_fork(form: Callable[[], np.ndarray]) -> np.ndarray:
    """The array that ``form`` makes, and nothing else of what it saw: not even in memory that was freed."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                np.save(file, form(), allow_pickle=False)
                file.flush()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status:
            code = os.waitstatus_to_exitcode(status)
            raise DataError(
                f"the test inputs can't be read: the process that read them ended with code {code}; see its log"
            )
        file.seek(0)
        return np.load(file, allow_pickle=False)
