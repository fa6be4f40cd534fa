"""What the process of a model gets to see of a dataset: the train split, and of the test split the inputs alone.

A task with a ``view`` (an inverse problem on a forward problem's data) or with history may see stored outputs as its
inputs. Then both have to be read to form the inputs, and that is done in another process, of which the inputs are all
that comes back.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..base.errors import DataError
from ..contract.task import TaskInfo
from ..workers.events import Done, Failed
from ..workers.jobs import Job
from ..workers.pool import RESULT_LIMIT, WorkerPool
from ..workers.starting import FORK, start_method
from . import spilling
from .cache import Dataset, Split, peek, read_inputs, read_split, verify
from .generation import Reference
from .stored import StoredSplit


@dataclass(frozen=True)
class BlindData:
    """A task's samples in physical units, without the answers to the test.

    ``train`` may stay in its file (`stored`). ``held_out`` are samples of train that are not trained on;
    ``test_inputs`` is None where test is not asked for, and mapped from a file (`spilling`) where not all of them, but
    ``test_at_once`` can be in memory with what is made of them.
    """

    task: TaskInfo
    train: Split | StoredSplit
    test_inputs: np.ndarray | None
    sha256: str
    seconds_per_sample: float | None = None
    held_out: Split | None = None
    test_at_once: int | None = None

    @property
    def nbytes(self) -> int:
        """Of what is in memory."""
        test = self.test_inputs if self.test_at_once is None else None
        there = (self.train if isinstance(self.train, Split) else None, self.held_out, test)
        return sum(part.nbytes for part in there if part is not None)


def load(
    dataset: Dataset,
    n_train: int | None = None,
    path: Path | None = None,
    *,
    apart: Sequence[str] | None,
    held_out: np.ndarray | None = None,
    test: bool = True,
    stored: bool = False,
    test_at_once: int | None = None,
) -> BlindData:
    """The first ``n_train`` samples of train, those ``held_out`` (a mask) put aside, and the test inputs.

    With ``apart``, the plugin files in use, a view is formed in another process; without, where a model shares the
    process with everything else anyway, it is formed here. Without ``test`` nothing of the test split is read, not even
    to verify the file. With ``stored``, what is trained on stays in its file; with ``test_at_once``, at most so many
    test samples are in memory.
    """
    path = path or dataset.path
    header = verify(path) if test else peek(path)
    task = dataset.spec.info(dataset.scale, dataset.params)
    inputs = _test_inputs(dataset, path, apart, test_at_once) if test else None
    facts = (header.sha256, header.seconds_per_sample)
    held: Split | None = None
    if stored:
        chosen = np.zeros(n_train or dataset.size.train, bool) if held_out is None else held_out
        left, put_aside = (np.flatnonzero(mask) for mask in (~chosen, chosen))
        if len(put_aside):
            held = StoredSplit(dataset, path, "train", put_aside).take(np.arange(len(put_aside)))
        rest = StoredSplit(dataset, path, "train", left)
        return BlindData(task, rest, inputs, *facts, held, test_at_once)
    train = read_split(dataset, path, "train", n_train)
    if held_out is not None:
        held, train = (Split(train.inputs[mask], train.outputs[mask]) for mask in (held_out, ~held_out))
    return BlindData(task, train, inputs, *facts, held, test_at_once)


def _test_inputs(dataset: Dataset, path: Path, apart: Sequence[str] | None, at_once: int | None) -> np.ndarray:
    """All of them in memory, or mapped from a file to which so many at once are written."""
    count = dataset.size.test
    if dataset.spec.view is None and dataset.spec.history == 1:
        if at_once is None:
            return read_inputs(dataset, path, "test")
        return spilling.spilled(_stored_test(dataset, path).blocks_of_inputs(at_once), count)
    if apart is not None and start_method() != FORK:
        return _in_a_new_process(dataset, path, apart)

    def fill(file: IO[bytes]) -> None:
        blocks = _stored_test(dataset, path).blocks(at_once or count)
        spilling.write(file, (block.inputs for block in blocks), count)

    with spilling.unnamed_file() as file:
        (fill if apart is None else _in_a_fork(fill))(file)
        if at_once is not None:
            return spilling.mapped(file)
        file.seek(0)
        return np.load(file, allow_pickle=False)


def _stored_test(dataset: Dataset, path: Path) -> StoredSplit:
    return StoredSplit(dataset, path, "test", np.arange(dataset.size.test))


def _in_a_fork(fill: Callable[[IO[bytes]], None]) -> Callable[[IO[bytes]], None]:
    """The same, of which nothing stays in this process that it saw: not even in memory that was freed."""

    def fill_there(file: IO[bytes]) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                fill(file)
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

    return fill_there


def _in_a_new_process(dataset: Dataset, path: Path, plugin_files: Sequence[str]) -> np.ndarray:
    """The same where there is no fork: the task is found again there, by name."""
    facts = {"reference": Reference.to(dataset, plugin_files), "path": path}
    with WorkerPool(1, result_limit=2 * path.stat().st_size + RESULT_LIMIT) as pool:
        *_, end = pool.run([Job("inputs", f"{__name__}:form_test_inputs", facts)])
    if isinstance(end, Done):
        return end.value
    reason = end.failure.message if isinstance(end, Failed) else getattr(end, "reason", "it took too long")
    raise DataError(f"the test inputs can't be read: {reason}")


def form_test_inputs(emit: Any, reference: Reference, path: Path) -> np.ndarray:
    return np.ascontiguousarray(read_split(reference.find(), path, "test").inputs)
