"""Load every model of a board and score it again: run in a process of its own, it prints one line of JSON.

    python loaded_answers.py BOARD [--plugin FILE]

For each trial that ended well: whether the errors of all its test samples are those of its record, to the bit; or why
its model can't be loaded.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch

from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import cache
from pdebench_hss.training.metrics import sample_errors
from pdebench_hss.trials.context import Context
from pdebench_hss.trials.fitting import dataset_of
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store
from pdebench_hss.use.loading import from_record


def main(board: str, *plugins: str) -> None:
    store, registry = Store(board), load_registry(plugins)
    tests: dict[str, cache.Split] = {}  # by task
    found: dict[str, bool | str] = {}
    for record in store.current():
        if record.status is not Status.OK:
            continue
        trial = record.trial
        torch.set_num_threads(record.provenance["threads"])
        dataset, _, _ = dataset_of(trial, Context(), registry)
        if trial.task_label not in tests:
            tests[trial.task_label] = cache.read_split(dataset, dataset.path, "test")
        test = tests[trial.task_label]
        who = f"{trial.model_label} {trial.task_label} {trial.seed}"
        try:
            model = from_record(store, record, registry)
        except UsageError as error:
            found[who] = str(error)
            continue
        errors = sample_errors(model.predict(test.inputs), test.outputs, trial.metric, model.task.mask)
        kept = store.samples(record.key, *(f"error_{name}" for name in errors))
        same = all(np.array_equal(kept[f"error_{name}"], values) for name, values in errors.items())
        found[who] = same
    print(json.dumps(found))


if __name__ == "__main__":
    main(*(word for word in sys.argv[1:] if word != "--plugin"))
