"""Tasks that exist on paper only: enough of one to build a network for it."""

from __future__ import annotations

from torch import nn

from pdebench_hss import Recipe, Scale, TaskInfo, TaskSpec

CHANNELS = {"gray_scott_forward": (4, 2), "gray_scott_inverse": (4, 2)}


def make_task(name="toy", grid=(16,), scale="smoke", steps=1, **options) -> TaskInfo:
    in_channels, out_channels = options.pop("channels", CHANNELS.get(name, (1, 1)))
    size = Scale(grid=grid, train=8, test=4, recipe=Recipe(batch=4, steps=4), steps=steps)
    spec = TaskSpec(
        name=name, title="Toy", equation="u = f", dim=len(grid), in_channels=in_channels,
        out_channels=out_channels, generate="nowhere:generate", scales={scale: size}, **{"linear": True, **options},
    )  # fmt: skip
    return spec.info(scale)


def numel(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
