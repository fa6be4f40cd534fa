"""Tasks that exist on paper only: enough of one to plan for it, to build a network for it, or to hold its data."""

from __future__ import annotations

from typing import Any

from torch import nn

from pdebench_hss import Recipe, Scale, TaskInfo, TaskSpec

CHANNELS = {"gray_scott_forward": (4, 2), "gray_scott_inverse": (4, 2)}


def make_spec(name="toy", grid=(16,), scale="smoke", steps=1, train=8, test=4, **options: Any) -> TaskSpec:
    """A linear task whose data nobody can generate; ``channels`` are those of its inputs and outputs."""
    in_channels, out_channels = options.pop("channels", CHANNELS.get(name, (1, 1)))
    size = Scale(grid=grid, train=train, test=test, recipe=Recipe(batch=4, steps=4), steps=steps)
    facts = {"title": "Toy", "equation": "u = f", "generate": "nowhere:generate", "linear": True, **options}
    return TaskSpec(
        name=name, dim=len(grid), in_channels=in_channels, out_channels=out_channels, scales={scale: size}, **facts
    )  # fmt: skip


def make_task(name="toy", grid=(16,), scale="smoke", **options: Any) -> TaskInfo:
    return make_spec(name, grid, scale, **options).info(scale)


def numel(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
