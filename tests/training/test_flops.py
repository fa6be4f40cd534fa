"""FLOPs of a training step against numbers worked out by hand; counting leaves no trace."""

from __future__ import annotations

import math

import pytest
import torch
from factories.training import make_train
from torch import Tensor, nn

from pdebench_hss.training.flops import count
from pdebench_hss.training.loop import count_step_flops


def test_a_linear_layer_costs_two_per_weight_and_row():
    layer, x = nn.Linear(7, 5), torch.randn(3, 7)
    assert count(lambda: layer(x)) == 2 * 3 * 7 * 5


def test_a_product_added_in_place_costs_the_same():
    a, b = torch.randn(3, 7), torch.randn(7, 5)
    assert count(lambda: torch.zeros(3, 5).addmm_(a, b)) == 2 * 3 * 7 * 5
    assert count(lambda: torch.zeros(2, 3, 5).baddbmm_(a.expand(2, 3, 7), b.expand(2, 7, 5))) == 2 * 2 * 3 * 7 * 5


def test_the_backward_pass_of_a_first_layer_costs_as_much_and_of_a_later_one_twice_as_much():
    """Gradients by the weights everywhere, by the input only where something before can learn."""
    first, second, x = nn.Linear(7, 5), nn.Linear(5, 4), torch.randn(3, 7)
    assert count(lambda: first(x).sum().backward()) == 2 * (2 * 3 * 7 * 5)
    assert count(lambda: second(first(x)).sum().backward()) == 2 * (2 * 3 * 7 * 5) + 3 * (2 * 3 * 5 * 4)


def test_a_convolution_costs_two_per_weight_and_output_point():
    convolution, x = nn.Conv2d(3, 4, kernel_size=5, padding=2), torch.randn(2, 3, 8, 6)
    forward = 2 * (2 * 8 * 6) * (3 * 4 * 5 * 5)
    assert count(lambda: convolution(x)) == forward
    assert count(lambda: convolution(x).sum().backward()) == 2 * forward


def test_a_product_of_complex_matrices_costs_four_real_ones():
    a, b = (torch.randn(6, 3, 4), torch.randn(6, 4, 5))
    real = 2 * 6 * 3 * 4 * 5
    assert count(lambda: torch.bmm(a, b)) == real
    assert count(lambda: torch.bmm(a.cfloat(), b.cfloat())) == 4 * real
    assert count(lambda: a[0].cfloat() @ b[0].cfloat()) == 4 * real // 6
    # The product over channels of a spectral layer, mode by mode.
    x, w = torch.randn(2, 3, 6, dtype=torch.cfloat), torch.randn(3, 5, 6, dtype=torch.cfloat)
    assert count(lambda: torch.einsum("bim,iom->bom", x, w)) == 4 * (2 * 2 * 3 * 5 * 6)


def test_an_affine_product_of_complex_matrices_costs_four_real_ones():
    bias, a, b = (torch.randn(*shape, dtype=torch.cfloat) for shape in ((3, 5), (3, 4), (4, 5)))
    assert count(lambda: torch.addmm(bias, a, b)) == 4 * (2 * 3 * 4 * 5)
    stack = [t.expand(2, *t.shape) for t in (bias, a, b)]
    assert count(lambda: torch.baddbmm(*stack)) == 4 * (2 * 2 * 3 * 4 * 5)


@pytest.mark.parametrize("n", [8, 64, 100])
def test_a_complex_transform_costs_5_n_log2_n_and_a_real_one_half(n):
    x = torch.randn(3, n)
    assert count(lambda: torch.fft.fft(x.cfloat())) == int(5 * 3 * n * math.log2(n))
    assert count(lambda: torch.fft.ifft(x.cfloat())) == int(5 * 3 * n * math.log2(n))
    assert count(lambda: torch.fft.rfft(x)) == int(2.5 * 3 * n * math.log2(n))
    half = torch.fft.rfft(x)
    assert count(lambda: torch.fft.irfft(half, n=n)) == int(2.5 * 3 * n * math.log2(n))


def test_a_transform_in_several_dimensions_counts_all_its_points():
    x = torch.randn(2, 3, 16, 32)
    points = 2 * 3 * 16 * 32
    assert count(lambda: torch.fft.rfft2(x)) == 2.5 * points * (4 + 5)
    assert count(lambda: torch.fft.fft2(x.cfloat())) == 5 * points * (4 + 5)
    half = torch.fft.rfft2(x)
    assert count(lambda: torch.fft.irfft2(half, s=(16, 32))) == 2.5 * points * (4 + 5)


def test_a_transform_along_one_axis_does_not_count_the_others_length():
    x = torch.randn(2, 16, 32)
    assert count(lambda: torch.fft.rfft(x, dim=1)) == 2.5 * (2 * 16 * 32) * 4


class Spectral(nn.Module):
    """One layer of a Fourier neural operator in 1D."""

    def __init__(self, modes: int, channels: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x)[..., : self.modes]
        product = torch.einsum("bim,iom->bom", spectrum, self.weight)
        return torch.fft.irfft(product, n=x.shape[-1])


def test_a_spectral_layer_is_not_counted_as_free():
    channels, modes, n, batch = 2, 5, 16, 3
    layer, x = Spectral(modes, channels), torch.randn(batch, channels, n)
    transforms = 2 * 2.5 * (batch * channels * n) * math.log2(n)
    products = 4 * (2 * batch * channels * channels * modes)
    assert count(lambda: layer(x)) == transforms + products


def test_a_training_step_counts_forward_and_backward_of_one_batch():
    module = nn.Conv1d(1, 1, kernel_size=3, padding=1)
    train = make_train(n=6)
    assert count_step_flops(module, train, batch=4) == 2 * (2 * 4 * 8 * 3)
    assert count_step_flops(module, train, batch=100) == 2 * (2 * 6 * 8 * 3)  # there are six samples


class Eventful(nn.Module):
    """Everything a forward pass can leave behind: running statistics, random numbers, inputs changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 4, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Conv1d(4, 1, kernel_size=1)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x.mul_(2.0)
        return self.last(self.drop(self.norm(self.first(x))))


def test_counting_leaves_weights_buffers_gradients_random_state_and_data_unchanged():
    torch.manual_seed(3)
    module, train = Eventful(), make_train(n=6)
    weights = [p.detach().clone() for p in module.parameters()]
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    inputs, outputs, random = train.inputs.clone(), train.outputs.clone(), torch.get_rng_state()
    assert count_step_flops(module, train, batch=4) > 0
    assert all(torch.equal(p, w) for p, w in zip(module.parameters(), weights))
    assert all(torch.equal(b, buffers[name]) for name, b in module.named_buffers())
    assert len(buffers) == 4  # mean, variance, number of batches, calls
    assert all(p.grad is None for p in module.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(train.inputs, inputs)
    assert torch.equal(train.outputs, outputs)
    assert module.training
