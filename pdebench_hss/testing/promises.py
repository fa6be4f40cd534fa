"""The promises of a model. Each takes a `Subject` and raises `ContractError` if the promise is broken.

`TRAINED` are for models that the core trains, `UNTRAINED` for models that fit or solve by themselves.
"""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..base.errors import ContractError
from ..base.files import BadFile
from ..contract import traits
from ..contract.search import ends
from ..contract.task import TaskInfo
from ..training.evaluation import Predictor
from ..training.objective import Objective, mean_squared_error
from ..training.optimizers import BETAS, CLIP_NORM, cosine
from ..training.parameters import count_on_meta, count_parameters
from ..trials import weights
from .subject import SEED, Subject, samples
from .watching import watch

OVERFIT_SAMPLES = 4
OVERFIT_STEPS = 500
OVERFIT_LR = 5e-3
OVERFIT_SHARE = 0.25
ROUNDING = 1e-4
AWAKENING = 0.1  # standard deviation of what is added to the weights of a model that starts as a constant


def demand(kept: bool, message: str) -> None:
    if not kept:
        raise ContractError(message)


# --- promises of all models -------------------------------------------------------------------------------------------


def leaves_its_inputs_alone(subject: Subject) -> None:
    """Fields are shared: what a model writes into them is what others would read."""
    for name, use, fields in _uses(subject):
        before = copy.deepcopy(fields)
        use()
        same = all(np.array_equal(a, b) for a, b in zip(fields, before, strict=True))
        demand(same, f"{name} changes its input in place: let it work on a copy")


def looks_at_nothing_else(subject: Subject) -> None:
    """A prediction depends on the input and what was learned, not on anything else in memory or on disk."""
    for name, use, _ in _uses(subject):
        with watch() as acts:
            use()
        demand(not acts, f"in {name} {'; '.join(acts[:1])}")


def _uses(subject: Subject) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    """The ways in which the core calls a model, each with the fields that it passes in."""
    model = subject.build()
    if subject.is_trained:
        x, y = subject.inputs(4), subject.pairs().outputs[:4]
        objective = Objective(model, subject.pairs(), torch.device("cpu"))
        yield "training", lambda: objective.of(model.train())(x, y).backward(), [x]
        yield "prediction", lambda: torch.no_grad()(model.eval())(x), [x]
        return
    train, inputs = subject.pairs(subject.fit_dtype), samples(subject.task.spec).test.inputs.copy()
    if hasattr(model, "fit"):
        yield "fit", lambda: subject.fit(model, train), [train.inputs, train.outputs]
    if hasattr(model, "solve"):
        yield "solve", lambda: model.solve(inputs), [inputs]
    else:
        x = train.inputs[:2].clone()
        yield "prediction", lambda: model(x), [x]


# --- promises of models that the core trains -------------------------------------------------------------------------


def shapes(subject: Subject) -> None:
    """(batch, in_channels, *grid) -> (batch, out_channels, *grid), for any batch."""
    model = subject.build().eval()
    for batch in (1, 3):
        x = subject.inputs(batch)
        with torch.no_grad():
            y = model(x)
        expected = (batch, subject.task.out_channels, *subject.task.grid)
        demand(tuple(y.shape) == expected, f"forward gave shape {tuple(y.shape)}, expected {expected}")
        demand(bool(torch.isfinite(y).all()), "an untrained forward gave numbers that are not finite")


def every_parameter_gets_a_gradient(subject: Subject) -> None:
    """A zero gradient at the start is allowed (zero-initialised layers), but not for several steps."""
    model = subject.build().train()
    silent = _train_a_little(subject, model)
    unused = sorted(name for name, parameter in model.named_parameters() if name in silent and parameter.grad is None)
    demand(not unused, f"no gradient reaches {_some(unused)}: is the output of that block used?")
    demand(not silent, f"the gradient of {_some(sorted(silent))} is always zero: is it multiplied away?")


def every_parameter_has_a_part_in_the_prediction(subject: Subject) -> None:
    """Not only in training: a block may be left out in evaluation alone. A model's own loss may have parameters."""
    model = subject.build().train()
    if traits.has_own_loss(type(model)):
        return
    _train_a_little(subject, model)
    model.eval().zero_grad(set_to_none=True)
    x = torch.cat([subject.inputs(2), _noise(subject.inputs(2))])
    y = model(x)  # (4, out_channels, *grid)
    (y * _noise(y, SEED + 1)).sum().backward()
    silent = sorted(n for n, p in model.named_parameters() if p.grad is None or not bool((p.grad != 0).any()))
    demand(not silent, f"{_some(silent)} do not change a prediction: is the output of that block used in evaluation?")


def _train_a_little(subject: Subject, model: nn.Module) -> set[str]:
    """Train for four steps; returns the parameters whose gradient was nothing or zero in all of them."""
    parameters = dict(model.named_parameters())
    demand(bool(parameters), "the model has no parameters, and neither fit() nor solve()")
    optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3)
    x, y = subject.pairs().inputs[:4], subject.pairs().outputs[:4]
    noise = _noise(x)
    silent = set(parameters)
    objective = Objective(model, subject.pairs(), torch.device("cpu"))
    # Noise as well, because data with a symmetry (mean-free, say) can hide a parameter that matters elsewhere.
    for inputs in (x, noise, x, noise):
        optimizer.zero_grad(set_to_none=True)
        objective(inputs, y).backward()
        for name, parameter in parameters.items():
            if parameter.grad is not None and bool((parameter.grad != 0).any()):
                silent.discard(name)
        optimizer.step()
    return silent


def _noise(like: Tensor, seed: int = SEED) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed))


def _awake(subject: Subject, seed: int = SEED) -> nn.Module:
    """The model, ready to predict. One that starts as a constant (zero-initialised layers) would keep some promises
    and break others without having been tried, so its weights are moved, under one seed always the same way."""
    model: nn.Module = subject.build(seed).eval()
    with torch.no_grad():
        first, second = model(subject.inputs(2))
        if torch.equal(first, second):
            generator = torch.Generator().manual_seed(seed)
            for parameter in model.parameters():
                parameter.add_(AWAKENING * torch.randn(parameter.shape, generator=generator))
    return model


def output_depends_on_the_input(subject: Subject) -> None:
    model = _awake(subject)
    x = subject.inputs(2)
    with torch.no_grad():
        first, second = model(x[:1]), model(x[1:2])
        changed = bool((first != second).any())
    demand(changed, "two different inputs gave the same output: the model ignores its input")


def samples_do_not_mix(subject: Subject) -> None:
    """In evaluation a sample's output must not depend on its neighbours in the batch."""
    model = _awake(subject)
    x = subject.inputs(3)
    with torch.no_grad():
        together, alone = model(x)[:1], model(x[:1])
    demand(_close(together, alone), "a sample's output changes with the others in its batch (batch statistics?)")


def deterministic_under_a_seed(subject: Subject) -> None:
    x = subject.inputs(2)
    with torch.no_grad():
        first, second = (_awake(subject)(x) for _ in range(2))
        model = _awake(subject)
        once, again = model(x), model(x)
    demand(torch.equal(first, second), "two builds under one seed differ: initialise from torch's generator only")
    demand(torch.equal(once, again), "two evaluations of one input differ")


def state_dict_round_trips(subject: Subject) -> None:
    """Everything that a prediction needs is in the state dict."""
    model, other = _awake(subject), _awake(subject, SEED + 1)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    x = subject.inputs(2)
    with torch.no_grad():
        same = torch.equal(model(x), other(x))
    demand(same, "a copy with the same state dict predicts something else: a tensor is missing from it")


def moves_dtype_and_device(subject: Subject) -> None:
    model = _awake(subject)
    x = subject.inputs(2)
    with torch.no_grad():
        single = model(x)
        double = copy.deepcopy(model).double()(x.double())
    demand(double.dtype == torch.float64, f"after .double() the output is {double.dtype}: a tensor did not move along")
    demand(_close(single.double(), double), "float32 and float64 disagree by more than rounding")
    if torch.cuda.is_available():
        with torch.no_grad():
            demand(model.cuda()(x.cuda()).is_cuda, "after .cuda() the output is not on the device")


def honest_parameter_count(subject: Subject) -> None:
    """The same count on the meta device, which `params` and --match-params use."""
    real = count_parameters(subject.build())
    meta = count_on_meta(subject.spec, subject.task, subject.spec.hparams_for(subject.task))
    demand(real == meta, f"counted {meta} on the meta device, {real} when built")
    model = subject.build()
    held = {id(p) for p in model.parameters()}
    hidden = [n for n, v in _tensor_attributes(model) if isinstance(v, nn.Parameter) and id(v) not in held]
    demand(not hidden, f"{_some(hidden)} are parameters that are not registered, so they are not counted")


def size_knob_changes_the_size(subject: Subject) -> None:
    knob = subject.spec.size_knob
    hparams = subject.spec.hparams_for(subject.task)
    demand(knob in hparams, f"size_knob {knob!r} is not among its hyper-parameters")
    value = int(hparams[knob])  # type: ignore[index]
    sizes = []
    for factor in (1, 2, 4):
        try:
            sizes.append(count_on_meta(subject.spec, subject.task, {**hparams, knob: factor * value}).real)  # type: ignore[dict-item]
        except ValueError:
            continue  # a value that the model refuses with a reason
    grows = len(sizes) > 1 and all(a < b for a, b in itertools.pairwise(sizes))
    demand(grows, f"{knob} = {value} and multiples give {sizes} parameters: it must grow")


def ends_of_its_ranges_can_be_built(subject: Subject) -> None:
    """Every value that `tune` may choose, one option at a time; a model may refuse incompatible pairs."""
    hparams = subject.spec.hparams_for(subject.task)
    for name, found in subject.spec.search_for(subject.task).items():
        for value in ends(found) if name in hparams else ():
            try:
                count_on_meta(subject.spec, subject.task, {**hparams, name: value})
            except Exception as error:
                raise ContractError(f"search: {name} = {value!r} can't be built: {error}") from error


def learns_four_samples(subject: Subject) -> None:
    """Four smooth samples are easy to remember: the loss must fall well below that of their mean.

    The fields are not the task's own, which may be hard for any model. The model has its size of scale ``small``: at
    ``smoke`` it may be too small to learn anything.
    """
    hparams = subject.spec.hparams
    model = subject.build(**(hparams(subject.task, "small") if callable(hparams) else {})).train()
    x, y = (_smooth_fields(subject.task, c) for c in (subject.task.in_channels, subject.task.out_channels))
    mask = None if subject.task.mask is None else torch.as_tensor(subject.task.mask, dtype=x.dtype)
    loss_of = mean_squared_error(mask)
    target = OVERFIT_SHARE * loss_of(y.mean(dim=0, keepdim=True).expand_as(y), y).item()
    optimizer = torch.optim.AdamW(model.parameters(), lr=OVERFIT_LR, betas=BETAS, weight_decay=0.0)
    best = float("inf")
    for step in range(OVERFIT_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = cosine(step / OVERFIT_STEPS, OVERFIT_LR, OVERFIT_LR / 100)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        best = min(best, loss.item())
        if best < target:
            return
    raise ContractError(f"loss {best:.2e} after {OVERFIT_STEPS} steps on four samples; {target:.2e} is expected")


def _smooth_fields(task: TaskInfo, channels: int) -> Tensor:
    """Random sums of the lowest cosines along each axis, scaled to at most 1: (samples, channels, *grid)."""
    generator = torch.Generator().manual_seed(SEED + channels)
    fields = torch.randn(OVERFIT_SAMPLES, channels, *(3 for _ in task.grid), generator=generator)
    for n in task.grid:
        waves = torch.cos(torch.pi * torch.arange(3)[:, None] * torch.linspace(0, 1, n))  # (3, n)
        fields = torch.tensordot(fields, waves, dims=([2], [0]))  # the axis moves from the front to the back
    return fields / fields.abs().max()


TRAINED = (
    shapes,
    every_parameter_gets_a_gradient,
    every_parameter_has_a_part_in_the_prediction,
    output_depends_on_the_input,
    samples_do_not_mix,
    deterministic_under_a_seed,
    state_dict_round_trips,
    moves_dtype_and_device,
    honest_parameter_count,
    ends_of_its_ranges_can_be_built,
    leaves_its_inputs_alone,
    looks_at_nothing_else,
)


# --- promises of models that fit or solve by themselves ---------------------------------------------------------------


def _fitted(subject: Subject, seed: int = SEED) -> Predictor:
    model, train = subject.build(seed), subject.pairs(subject.fit_dtype)
    subject.fit(model, train)
    return Predictor(model, subject.task, train.normalizer, 4, torch.device("cpu"))


def answers_in_the_right_shape(subject: Subject) -> None:
    test = samples(subject.task.spec).test
    prediction = _fitted(subject)(test.inputs)
    expected = test.outputs.shape
    demand(prediction.shape == expected, f"prediction has shape {prediction.shape}, expected {expected}")
    demand(bool(np.isfinite(prediction).all()), "the prediction is not finite")


def repeats_itself(subject: Subject) -> None:
    inputs = samples(subject.task.spec).test.inputs
    first, second = _fitted(subject)(inputs), _fitted(subject)(inputs)
    demand(np.array_equal(first, second), "two fits to the same data predict differently")


def answers_do_not_mix(subject: Subject) -> None:
    """Each answer is of its own sample: a test split that does not fit in memory is answered in parts."""
    inputs, predict = samples(subject.task.spec).test.inputs, _fitted(subject)
    together, alone = predict(inputs)[:1], predict(inputs[:1])
    apart = float(np.abs(together - alone).max(initial=0.0))
    demand(apart <= ROUNDING * float(np.abs(together).max(initial=0.0)), "an answer changes with the other samples")


def no_seed_changes_it(subject: Subject) -> None:
    """Of models that declare ``deterministic``: built and fitted under two seeds they predict the same, to the bit."""
    kind = type(subject.build())
    demand(traits.is_closed_form(kind), "deterministic=True is for closed forms and solvers, and this one is trained")
    inputs = samples(subject.task.spec).test.inputs
    first, second = (_fitted(subject, seed)(inputs) for seed in (SEED, SEED + 1))
    demand(np.array_equal(first, second), "deterministic=True, but two seeds predict differently")


def its_state_is_all_it_learned(subject: Subject) -> None:
    """A copy with the same state dict answers the same: buffers may take another shape in a fit (`trials.weights`)."""
    fitted, inputs = _fitted(subject), samples(subject.task.spec).test.inputs
    try:
        content, table = weights.to_bytes(weights.state_of(fitted.model))
        copy_ = subject.build(seed=SEED + 1)
        weights.restore(copy_, weights.from_bytes(content, table))
    except (weights.NotKept, BadFile) as error:
        raise ContractError(f"it can't be kept: {error}") from None
    again = Predictor(copy_, subject.task, fitted.normalizer, 4, torch.device("cpu"))
    same = np.array_equal(fitted(inputs), again(inputs))
    demand(same, "a copy with its state_dict() gives other answers: register what fit() learns as buffers")


UNTRAINED = (
    answers_in_the_right_shape,
    answers_do_not_mix,
    repeats_itself,
    its_state_is_all_it_learned,
    leaves_its_inputs_alone,
    looks_at_nothing_else,
)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _close(a: Tensor, b: Tensor) -> bool:
    scale = max(float(b.abs().max()), 1e-12)
    return float((a - b).abs().max()) <= ROUNDING * scale


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _tensor_attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Tensors kept in plain lists and dicts, where torch does not see them."""
    for name, child in module.named_modules():
        for attribute, value in vars(child).items():
            if attribute.startswith("_") or isinstance(value, nn.Module):
                continue
            held = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            for item in held:
                yield f"{name}.{attribute}".lstrip("."), item
