"""A trial and its key: one cell of the benchmark, before it is run. Light: no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..base import devices
from ..base.hashing import digest
from ..contract.budget import Budget, parse_budget
from ..contract.optimizer import Optimizer
from ..training.protocol import PROTOCOL

# Fields for readers. They are not part of the key: the other fields hold the same facts.
DESCRIPTIVE = ("model_label", "task_label", "equation", "metric", "training_free", "tuned", "deterministic")
# Before schema 3, keys contained distributions with their versions. Such trials are still read, never made.
FORMER = ("model_origin", "task_origin")
UNSAID = (*FORMER, "deterministic")  # stored only where they say something
# Fields that were added later or removed, with the value that means absent: it changes no key.
LATER = {
    **{"flops_rule": 0, "precision": devices.DEFAULT_PRECISION, "model_maker": "", **dict.fromkeys(FORMER, "")},
    **{"training": "", "unroll": 1, "detach": False, "history": 1, "val": 0, "judge": "test"},
}
JUDGES = ("test", "val")


class _Keyed:
    """Caches the key once it is computed. It is not a field."""

    __slots__ = ("_key",)
    _key: str


@dataclass(frozen=True, slots=True)  # slots: a plan may have a hundred thousand trials
class Trial(_Keyed):
    """Everything that can change a result, and nothing else: no paths, no order, no timing, no release.

    model_maker    the name of the model's distribution; for a ``--plugin`` file its content (`identity`)
    model_version  as the model declares it
    data_id        the recipe of the data: its distribution, the task's declared version, sizes, parameters
    task_digest    how the task scales, pads and scores fields
    protocol       of training and evaluation
    """

    model: str
    model_label: str
    model_version: str
    hparams: Mapping[str, Any]
    optimizer: Optimizer
    task: str
    task_label: str
    task_params: Mapping[str, Any]
    data_id: str
    data_seed: int
    scale: str
    budget: Budget
    n_train: int
    seed: int
    device: str
    params_target: int | None = None
    task_digest: str = ""
    protocol: int = PROTOCOL
    equation: str = ""
    metric: str = ""
    training_free: bool = False
    flops_rule: int = 0  # `counting.RULE` where the budget counts FLOPs; else 0, as it changes no result
    precision: str = devices.DEFAULT_PRECISION
    model_maker: str = ""
    model_origin: str = ""
    task_origin: str = ""
    training: str = ""  # the parts of training that are the model's own (`traits.training_of`)
    unroll: int = 1  # rollout steps in a training window
    detach: bool = False  # whether gradients stop between them
    history: int = 1  # frames that a model sees
    val: int = 0  # training samples held out in addition to the ``n_train`` that are trained on
    judge: str = "test"  # ``val``: scored on those alone; the test split is never read
    tuned: Mapping[str, Any] = field(default_factory=dict)  # tries, seconds and options, if they were chosen by tune
    deterministic: bool = False  # no seed changes its result: its trial of one seed stands for all

    @property
    def key(self) -> str:
        try:
            return self._key
        except AttributeError:
            object.__setattr__(self, "_key", trial_key(self.to_dict()))
            return self._key

    @property
    def cell(self) -> str:
        """The place in the table this trial fills, in words."""
        size = f" params={self.params_target}" if self.params_target else ""
        data_seed = f" data_seed={self.data_seed}" if self.data_seed else ""
        where = devices.label(self.device, self.precision)
        held_out = f" val={self.val}" if self.val else ""
        judge = f" judge={self.judge}" if self.judge != "test" else ""
        return (
            f"{self.task_label} {self.model_label} {self.scale} {self.budget}{size} "
            f"n={self.n_train} seed={self.seed}{data_seed} {where}{held_out}{judge}"
        )

    @property
    def words(self) -> str:
        """What people call it among the trials of one scale and budget."""
        return f"{self.task_label} {self.model_label} seed {self.seed}"

    @property
    def place(self) -> tuple[Any, ...]:
        """The place in the tables that this trial fills: there is one result in each."""
        seed = None if self.deterministic else self.seed
        return (
            *(self.task_label, self.model_label, self.scale, self.budget, self.params_target, self.n_train),
            *(seed, self.data_seed, self.device, self.precision, self.val, self.judge),
        )

    def to_dict(self) -> dict[str, Any]:
        """As it is stored."""
        plain = {name: getattr(self, name) for name in FIELDS if name not in UNSAID or getattr(self, name)}
        return {**plain, "optimizer": dict(vars(self.optimizer)), "budget": str(self.budget)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Trial:
        """From stored and checked fields (`validation.check_trial`)."""
        typed = {"optimizer": Optimizer(**content["optimizer"]), "budget": parse_budget(content["budget"])}
        return cls(**{**content, **typed})


FIELDS = tuple(f.name for f in fields(Trial))


def trial_key(content: Mapping[str, Any]) -> str:
    """The key of a trial from its fields as they are stored; fields that later versions add don't change old keys."""
    return digest(decisive(content))[:24]


def decisive(content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a key is made of."""
    return {k: v for k, v in content.items() if k not in DESCRIPTIVE and LATER.get(k, ...) != v}
