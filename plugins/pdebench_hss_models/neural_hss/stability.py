"""Does a learned step make a rollout grow? Its spectral radius at a state.

A rollout repeats u <- S(u) = u + s_out N(u / s_in), N the network and s the scales of its normaliser. An error e near u
becomes J e with J = S'(u), so errors grow from step to step if |lambda| > 1 for an eigenvalue of J, and 75 steps of
radius 1.2 are a factor of 9e5. The zero map has J = I: radius 1.

J is exact, a row for each of the n unknowns by one backward pass, and its eigenvalues are LAPACK's: for n up to a few
thousand. A network of LeakyReLUs without biases is piecewise linear, so J is constant near a state and along its ray,
and differs between states: ask at several. This works for any module that is trained on rollouts.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ROWS = 256  # of the Jacobian, at a time


def spectral_radii(module: nn.Module, normalizer: Any, states: np.ndarray) -> np.ndarray:
    """The spectral radius of the learned step at each of the physical ``states``, ``(n, channels, *grid)``, in float64.

    ``module`` and ``normalizer`` are those of a loaded model: ``spectral_radii(net.module, net.normalizer, u)``.
    """
    step = LearnedStep(module, normalizer, states.ndim)
    return np.array([np.abs(np.linalg.eigvals(jacobian(step, u[None]))).max() for u in torch.as_tensor(states)])


class LearnedStep:
    """S, on a copy of the module in float64."""

    def __init__(self, module: nn.Module, normalizer: Any, ndim: int) -> None:
        self.module = copy.deepcopy(module).double().eval()
        along = [1, -1, *[1] * (ndim - 2)]  # the channel axis
        affine = (normalizer.inputs, normalizer.outputs)
        numbers = (values for one in affine for values in (one.shift, one.scale))
        self.affine = [torch.as_tensor(values, dtype=torch.float64).reshape(along) for values in numbers]

    def __call__(self, u: Tensor) -> Tensor:
        in_shift, in_scale, out_shift, out_scale = self.affine
        residual = self.module((u - in_shift) / in_scale) * out_scale + out_shift
        if residual.shape != u.shape:
            raise ValueError(
                f"a step takes a state to a state; this model takes {u.shape[1]} channel(s) to {residual.shape[1]}: "
                "spectral radii are for rollout tasks without history"
            )
        return u + residual


def jacobian(step: Any, u: Tensor) -> np.ndarray:
    """S'(u), ``(n, n)``, for u of shape ``(1, channels, *grid)``. Samples must not see each other."""
    n = u.numel()
    rows = []
    for some in torch.eye(n, dtype=torch.float64).split(ROWS):
        x = u.double().expand(len(some), *u.shape[1:]).clone().requires_grad_()
        (row,) = torch.autograd.grad(step(x), x, some.view_as(x))
        rows.append(row.flatten(1))
    return torch.cat(rows).numpy()
