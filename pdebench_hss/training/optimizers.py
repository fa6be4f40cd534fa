"""AdamW, or a model's own optimiser, on a cosine that follows the budget.

    lr(t) = lr_min + (lr - lr_min) (1 + cos(pi t)) / 2,      t = fraction of the budget used

The core's AdamW takes its rates from the recipe, and its gradients are clipped at 1. A model may have a method
``configure_optimizer(parameters, recipe)`` that returns any torch optimiser. Its gradients are then not clipped. The
rate of each of its groups is multiplied by lr(t) / lr.

An optimiser whose ``step`` needs a closure (L-BFGS) may evaluate loss and gradient any number of times. It gets those
of the whole training set, a function that does not change between two calls. A budget counts gradients of batches, so
each evaluation spends as many steps as the set has batches. No evaluation starts that the budget can't pay for; if that
ends a step half-way, the weights with the lowest loss of its evaluations are kept.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..contract.optimizer import Optimizer
from ..contract.traits import has_own_optimiser

BETAS = (0.9, 0.99)
CLIP_NORM = 1.0


def cosine(fraction: float, peak: float, minimum: float) -> float:
    return minimum + (peak - minimum) * 0.5 * (1.0 + math.cos(math.pi * fraction))


class Descent:
    """The optimiser of a module, with its schedule."""

    def __init__(self, module: nn.Module, recipe: Optimizer, device: torch.device) -> None:
        self.recipe = recipe
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.is_own = has_own_optimiser(type(module))
        if self.is_own:
            self.optimizer = own_optimizer(module, self.parameters, recipe)
        else:
            self.optimizer = make_adamw(self.parameters, recipe, device)
        self.needs_closure = needs_closure(self.optimizer)
        self._peaks = [group.get("lr") for group in self.optimizer.param_groups]

    def set_rates(self, fraction: float) -> None:
        """At a fraction of the budget."""
        if not self.is_own:
            for group in self.optimizer.param_groups:
                group["lr"] = cosine(fraction, self.recipe.lr, self.recipe.lr_min)
            return
        share = cosine(fraction, 1.0, self.recipe.lr_min / self.recipe.lr)
        for group, peak in zip(self.optimizer.param_groups, self._peaks, strict=True):
            if peak is not None:  # an optimiser may have no rate
                group["lr"] = peak * share

    def update(self) -> None:
        """Update the weights with the current gradients."""
        if not self.is_own:
            torch.nn.utils.clip_grad_norm_(self.parameters, CLIP_NORM)
        self.optimizer.step()


class BudgetSpent(Exception):
    """Raised inside a closure when the budget can't pay for it."""


def closure_step(descent: Descent, evaluate: Callable[[], float], affordable: Callable[[int], bool]) -> list[float]:
    """One step of an optimiser that needs a closure; returns the losses of its evaluations.

    ``evaluate`` computes the gradients and returns the loss; ``affordable(n)`` says whether the budget pays for one
    more evaluation after n of this step.
    """
    losses: list[float] = []
    best: list[Tensor] = []

    def closure() -> float:
        nonlocal best
        if not affordable(len(losses)):
            raise BudgetSpent
        with torch.enable_grad():
            loss = evaluate()
        if loss < min(losses, default=math.inf):
            best = [p.detach().clone() for p in descent.parameters]
        losses.append(loss)
        return loss

    try:
        descent.optimizer.step(closure)
    except BudgetSpent:
        with torch.no_grad():
            for parameter, kept in zip(descent.parameters, best, strict=True):
                parameter.copy_(kept)
    if not losses:
        raise ValueError("a step of the model's optimiser did not call its closure")
    return losses


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def own_optimizer(module: nn.Module, parameters: list[nn.Parameter], recipe: Optimizer) -> torch.optim.Optimizer:
    """What the model's ``configure_optimizer`` returns, if it can train this model."""
    found: Any = module.configure_optimizer(parameters, recipe)  # type: ignore[operator]
    if not isinstance(found, torch.optim.Optimizer):
        kind = type(found).__name__
        raise TypeError(f"the model's configure_optimizer returned a {kind}, expected a torch.optim.Optimizer")
    own = {id(p) for p in parameters}
    held = [p for group in found.param_groups for p in group["params"]]
    if not held:
        raise ValueError("the model's configure_optimizer returned an optimiser over no parameters")
    if not any(id(p) in own for p in held):
        raise ValueError("the model's configure_optimizer returned an optimiser of other parameters than the model's")
    return found


def make_adamw(parameters: list[nn.Parameter], optimizer: Optimizer, device: torch.device) -> torch.optim.Optimizer:
    """AdamW as one fused kernel for all weights where there is one: on a CPU for real weights, on a GPU for all."""
    settings: dict[str, Any] = {"lr": optimizer.lr, "betas": BETAS, "weight_decay": optimizer.weight_decay}
    is_real = all(p.is_floating_point() for p in parameters)
    if device.type == "cuda" and not is_real:
        return RealViewAdamW(parameters, **settings)
    fused = is_real if device.type in ("cpu", "cuda") else None  # elsewhere torch's default
    return torch.optim.AdamW(parameters, **settings, fused=fused)


class RealViewAdamW(torch.optim.AdamW):
    """AdamW of complex weights as pairs of reals, which is how torch counts them, in the fused kernel.

    torch's own takes a kernel per operation and weight as soon as one weight is complex.
    """

    def __init__(self, parameters: list[nn.Parameter], **settings: Any) -> None:
        self._pairs = [(p, torch.view_as_real(p.detach()) if p.is_complex() else p) for p in parameters]
        super().__init__([real for _, real in self._pairs], **settings, fused=True)

    def step(self, closure: Any = None) -> Any:
        for weight, real in self._pairs:
            if real is not weight and weight.grad is not None:
                real.grad = torch.view_as_real(weight.grad.resolve_conj())
        return super().step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for weight, _ in self._pairs:
            weight.grad = None
