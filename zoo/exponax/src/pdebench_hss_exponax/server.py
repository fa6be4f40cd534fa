"""The process with JAX in it: marches starts by exponax's steppers until its input ends. Started by `solver`.

Samples are solved one after the other by one compiled function, and not as a batch, so that a sample's bits do not
depend on its neighbours.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox
import exponax
import jax
import numpy as np

from .dispersion import with_complex_coefficients
from .solver import read, write


def stepper(request: dict[str, Any]) -> Any:
    """One of exponax.stepper or exponax.stepper.reaction, told what the request says and nothing else."""
    name = request["stepper"]
    places = (exponax.stepper, exponax.stepper.reaction)
    kind = next((getattr(place, name) for place in places if hasattr(place, name)), None)
    if kind is None:
        raise ValueError(f"exponax {exponax.__version__} has no stepper {name!r}")
    order = {} if request["order"] is None else {"order": request["order"]}
    where = (request["dim"], request["extent"], request["points"], request["dt"])
    return with_complex_coefficients(kind(*where, **order, **request["settings"]))


@lru_cache(maxsize=32)
def marcher(request: str, points: int) -> Callable[[jax.Array], jax.Array]:
    """A compiled function: one start on a grid of ``points`` -> its frames there, solved on the request's own grid."""
    asked = json.loads(request)
    one_frame = exponax.RepeatedStepper(stepper(asked), asked["substeps"])

    @equinox.filter_jit
    def march(start: jax.Array) -> jax.Array:
        coarse = exponax.map_between_resolutions(start, asked["points"])
        frames = exponax.rollout(one_frame, asked["frames"])(coarse)  # (frames, channels, *grid)
        return jax.vmap(lambda frame: exponax.map_between_resolutions(frame, points))(frames)

    return march


def answer(request: dict[str, Any], starts: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    try:
        march = marcher(json.dumps(request), starts.shape[-1])
        return {}, np.stack([np.asarray(march(jax.numpy.asarray(start))) for start in starts])
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}, np.zeros(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints there
    while True:
        try:
            request, starts = read(sys.stdin.buffer)
        except EOFError:
            return
        write(answers, *answer(request, starts))


if __name__ == "__main__":
    main()
