"""neuraloperator's networks for a task: channels, dimension, padding where the field does not wrap around.

Three things of the library have to be dealt with; the networks themselves are as they come.

* Its ``state_dict`` holds a dictionary of constructor arguments besides tensors. What a model leaves must be tensors.
* Its spectral convolution makes arrays of complex64 whatever it is given, so a network in double precision fails. Here
  the convolution is computed in single precision and its result has the precision of the rest.
* UNO prints its options while it is built.
"""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

from neuralop.layers.fno_block import FNOBlocks
from neuralop.layers.spectral_convolution import SpectralConv
from neuralop.models import FNO, TFNO, UNO
from torch import Tensor, nn

from pdebench_hss import TaskInfo


class SingleSpectralConv(SpectralConv):
    """The library's spectral convolution, in single precision whatever it is given."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return super().forward(x.float(), *args, **kwargs).to(x.dtype)


class Adapted(nn.Module):
    """A network of the library as the core wants it: fields in, fields out, a state of tensors alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_state_dict_post_hook(_without_constructor_arguments)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # (batch, channels, *grid)


def fno(task: TaskInfo, layers: int, width: int, modes: int, padding: float) -> nn.Module:
    return Adapted(FNO(**_spectral(task, layers, width, modes, padding)))


def tfno(task: TaskInfo, layers: int, width: int, modes: int, padding: float, rank: float) -> nn.Module:
    return Adapted(TFNO(**_spectral(task, layers, width, modes, padding), rank=rank))


def uno(task: TaskInfo, width: int, modes: int, depth: int) -> nn.Module:
    """``depth`` halvings, one layer on the coarsest grid, as many doublings; skips between equal grids.

    A grid that is 2^l times coarser keeps at most its own number of modes.
    """
    levels = [
        *range(1, depth + 1),
        *([depth] if depth else [0, 0]),
        *range(depth - 1, -1, -1),
    ]  # of each layer's output
    before = [0, *levels[:-1]]
    count = len(levels)
    with contextlib.redirect_stdout(io.StringIO()):
        net = UNO(
            in_channels=task.in_channels,
            out_channels=task.out_channels,
            hidden_channels=width,
            n_layers=count,
            uno_out_channels=[width] * count,
            uno_n_modes=[
                [max(2, min(modes, n >> max(a, b))) for n in task.grid] for a, b in zip(before, levels, strict=True)
            ],
            uno_scalings=[[2.0 ** (a - b)] * task.dim for a, b in zip(before, levels, strict=True)],
            horizontal_skips_map={count - 1 - i: i for i in range(depth)},
            channel_mlp_skip="linear",  # the skips change the number of channels, which the default can't
            operator_block=partial(FNOBlocks, conv_module=SingleSpectralConv),
        )
    return Adapted(net)


def _spectral(task: TaskInfo, layers: int, width: int, modes: int, padding: float) -> dict[str, Any]:
    return {
        "n_modes": (modes,) * task.dim,
        "in_channels": task.in_channels,
        "out_channels": task.out_channels,
        "hidden_channels": width,
        "n_layers": layers,
        "domain_padding": padding or None,
        "conv_module": SingleSpectralConv,
    }


def _without_constructor_arguments(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    state.pop("_metadata", None)
