"""Exponax's solvers against exact solutions and another solver, the process that they run in, and the contract."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pdebench_hss_exponax import TASKS, generator, solver
from pdebench_hss_exponax.starts import start
from pdebench_hss_tasks.kuramoto_sivashinsky import equation as kuramoto_sivashinsky

from pdebench_hss.testing import task_cases

BY_NAME = {spec.name.removeprefix("exponax_"): spec for spec in TASKS}
# Few, because JAX compiles for seconds; `pdebench-hss check 'exponax_*'` tries them all.
CHECKED = ("advection_1d", "navier_stokes_3d")


def make(name: str, seeds=(1, 2)):
    spec = BY_NAME[name]
    return generator.generate(list(seeds), spec.scales["smoke"], **spec.params)


def ask(starts, stepper, extent, dt, frames, substeps=1, order=4, **settings):
    question = {"stepper": stepper, "order": order, "dim": starts.ndim - 2, "extent": extent, "dt": dt}
    question |= {"points": starts.shape[-1], "substeps": substeps, "frames": frames, "settings": settings}
    return solver.march(question, starts)


@pytest.mark.parametrize("case", [case for name in CHECKED for case in task_cases(f"exponax_{name}")], ids=str)
def test_contract(case):
    case.run()


def test_advection_is_a_shift():
    inputs, outputs = make("advection_1d")
    numbers = np.fft.fftfreq(32, 1 / 32)
    for step in range(outputs.shape[1]):
        turned = np.fft.fft(inputs) * np.exp(-2j * np.pi * numbers * 0.05 * (step + 1))
        np.testing.assert_allclose(outputs[:, step], np.fft.ifft(turned).real, atol=1e-12)


def soliton(x: np.ndarray, speed: float) -> np.ndarray:
    """-(c / 2) / cosh^2(sqrt(c) x / 2), which u_t - 6 u u_x + u_xxx = 0 carries along with speed c."""
    return -speed / 2 / np.cosh(np.sqrt(speed) / 2 * x) ** 2


def test_korteweg_de_vries_carries_a_soliton_along_with_fourth_order():
    """The library's own coefficients would make this first order: see dispersion.py."""
    x = 20 * np.arange(128) / 128 - 10
    exact, errors = soliton((x - 0.8 + 10) % 20 - 10, 4.0), []
    for steps in (25, 50):
        start = soliton(x, 4.0)[None, None]
        frames = ask(start, "KortewegDeVries", 20.0, 0.2 / steps, 1, steps, hyper_diffusivity=0.0)
        errors.append(np.abs(frames[0, 0, 0] - exact).max())
    assert errors[1] < 2e-6
    assert np.log2(errors[0] / errors[1]) > 3.5


def test_kuramoto_sivashinsky_is_that_of_the_built_in_task():
    """Two programs, one in numpy and one in JAX, before chaos has parted them."""
    starts = np.stack([kuramoto_sivashinsky.initial(seed, 128) for seed in (1, 2)])
    mine = kuramoto_sivashinsky.march(starts, 4, 1.0, 40)
    theirs = ask(starts[:, None], "KuramotoSivashinskyConservative", 48.0, 1 / 40, 4, 40)[:, :, 0]
    assert np.abs(theirs).max() > 1
    np.testing.assert_allclose(theirs, mine, atol=1e-6)


def test_flows_in_3d_have_no_divergence():
    inputs, outputs = make("navier_stokes_3d", seeds=[3])
    numbers = np.fft.fftfreq(8, 1 / 8)
    k = np.stack(np.meshgrid(numbers, numbers, numbers, indexing="ij"))
    for velocity in (inputs[0], outputs[0, -1]):
        waves = np.fft.fftn(velocity, axes=(1, 2, 3))
        assert np.abs((k * waves).sum(axis=0)).max() < 1e-10 * np.abs(k * waves).max()
    assert 0 < (outputs[0, -1] ** 2).sum() < (inputs[0] ** 2).sum()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_start_does_not_depend_on_the_grid_that_shows_it(name):
    spec = BY_NAME[name]
    options = spec.scales["smoke"].options
    fine, coarse = (start(5, points, spec.dim, options) for points in (32, 16))
    np.testing.assert_allclose(fine[(slice(None), *(slice(None, None, 2),) * spec.dim)], coarse, atol=1e-12)
    if options["start"] != "fronts":
        np.testing.assert_allclose(np.sqrt(np.mean(fine**2)), options["amplitude"], rtol=1e-12)
        np.testing.assert_allclose(fine.mean(), 0, atol=1e-12)


def test_coarser_levels_are_worse_and_level_0_is_the_data():
    spec = BY_NAME["burgers_2d"]
    inputs, outputs = make("burgers_2d")
    answers = [generator.coarse(inputs, level, spec.scales["smoke"], **spec.params) for level in (0, 1, 2)]
    assert np.array_equal(answers[0], outputs)
    first, second = (np.abs(answer - outputs).max() for answer in answers[1:])
    assert 0 < first < second


def test_another_process_makes_the_same_bits_and_torch_is_not_in_it():
    program = (
        "import sys\n"
        "import pdebench_hss_exponax.server as server\n"
        "assert 'jax' in sys.modules and 'torch' not in sys.modules\n"
        "server.main()"
    )
    assert "jax" not in sys.modules
    first = make("burgers_2d")[1]
    solver._started[os.getpid()].end()
    again = make("burgers_2d", seeds=[2])[1]  # by a new process, and in another batch
    assert np.array_equal(first[1:], again)
    checked = subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=100
    )
    assert checked.returncode == 0, checked.stderr
    assert "jax" not in sys.modules


def test_what_goes_wrong_is_one_line_and_the_next_question_is_answered():
    starts = np.zeros((1, 1, 16))
    with pytest.raises(ValueError, match=r"^exponax: ValueError: exponax .* has no stepper 'Advektion'$"):
        ask(starts, "Advektion", 1.0, 0.1, 1)
    with pytest.raises(ValueError, match=r"^exponax: TypeError: .*unexpected keyword argument 'speed'$"):
        ask(starts, "Advection", 1.0, 0.1, 1, order=None, speed=2.0)
    killed = solver._started[os.getpid()]
    killed.process.kill()
    with pytest.raises(RuntimeError, match=r"^the process that runs exponax ended with code -9: it said nothing$"):
        killed.ask({}, starts)
    assert ask(starts, "Advection", 1.0, 0.1, 1, order=None).shape == (1, 1, 1, 16)


def test_its_process_ends_with_the_one_that_asks_even_if_that_is_killed():
    program = (
        "import os, numpy as np\n"
        "from pdebench_hss_exponax import solver\n"
        "question = {'stepper': 'Advection', 'order': None, 'dim': 1, 'extent': 1.0, 'dt': 0.1, 'points': 16}\n"
        "solver.march({**question, 'substeps': 1, 'frames': 1, 'settings': {}}, np.zeros((1, 1, 16)))\n"
        "print(solver._started[os.getpid()].process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while is_running(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(int(done.stdout))


def is_running(pid: int) -> bool:
    """Not a zombie, which waits for somebody to ask how it ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_grid_that_exponax_does_not_have_is_refused():
    spec = BY_NAME["burgers_2d"]
    wide = spec.resized("smoke", (16, 32), 2).scales["smoke"]
    with pytest.raises(ValueError, match=r"same number of points along each axis, and the grid is \(16, 32\)"):
        generator.generate([1], wide, **spec.params)
    small = spec.resized("smoke", (4, 4), 2).scales["smoke"]
    with pytest.raises(ValueError, match="a grid of 4 points can't show starts with 2 waves: at least 5"):
        generator.generate([1], small, **spec.params)
