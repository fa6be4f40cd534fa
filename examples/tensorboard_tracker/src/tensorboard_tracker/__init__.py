"""TensorBoard logs of every trial: an example of a tracker, a plugin that only listens.

``pdebench_hss_trial_finished`` is called in the driver, once per trial, after the record is on disk. What a tracker
raises is reported as a warning and costs no result. Logs go to ``$PDEBENCH_HSS_TENSORBOARD``, or to ``runs``, one
folder per trial, so that a trial that is run again replaces its own curves.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pdebench_hss import hookimpl

if TYPE_CHECKING:
    from pdebench_hss import Record

VARIABLE = "PDEBENCH_HSS_TENSORBOARD"


@hookimpl
def pdebench_hss_trial_finished(record: Record) -> None:
    from torch.utils.tensorboard import SummaryWriter  # heavy: imported when the first trial ends

    trial = record.trial
    folder = Path(os.environ.get(VARIABLE, "runs")) / trial.task_label / f"{trial.model_label}-{record.key[:8]}"
    shutil.rmtree(folder, ignore_errors=True)
    with SummaryWriter(str(folder)) as writer:
        for step, loss in zip(record.samples.get("curve_steps", ()), record.samples.get("curve_losses", ())):
            writer.add_scalar("train/loss", loss, step)
        writer.add_text("trial", f"{record.status} {record.reason}".strip())
        settings = {**trial.hparams, **vars(trial.optimizer), "seed": trial.seed, "budget": str(trial.budget)}
        plain = {
            name: value if isinstance(value, (bool, int, float)) else str(value) for name, value in settings.items()
        }
        figures = {f"test/{name}": value for name, value in record.metrics.items()}
        writer.add_hparams(plain, {**figures, "fit_seconds": record.seconds.get("fit", 0.0)}, run_name=".")
