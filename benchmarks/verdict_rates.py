"""How often `compare` is wrong, and how often it sees a change: verdicts in simulated worlds where the truth is known.

A cell is S seeds by N test samples on each of two boards. The error of a seed is log-normal with a given standard
deviation of its logarithm ("scatter"); samples are hard or easy for every model alike (0.5), for one board's model
(0.1; without errors by sample nothing is claimed about other samples, and so 0) and at random (0.1). A seed diverges
with a given probability, and its errors are then not there. Seeds of the two boards are independent of each other.

    false verdicts   nothing changed; every verdict but "within noise", "can't tell" and "one seed" is false.
                     One cell alone, and the chance of any false verdict among 78 unchanged cells
    found            errors are 5 %, 20 % or 100 % larger: how often the verdict is "worse", one cell alone
    one seed         the committed records of a board as boards of one seed each, seed i against seed j

    python benchmarks/verdict_rates.py [--worlds 2000] [--jobs 2] [--board leaderboards/first/small-cpu]

Every number has random numbers of its own from a fixed seed, so jobs change nothing.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tabulate import tabulate

from pdebench_hss.boards.comparison import compare
from pdebench_hss.boards.frames import leaderboard
from pdebench_hss.boards.intervals import Errors
from pdebench_hss.boards.reading import BoardFile, read_board
from pdebench_hss.boards.verdicts import IDENTICAL, NOISE, ONE_SEED, UNKNOWN, WORSE, Outcome, decide, examine

SEEDS, SCATTERS, DIVERGENCE = (1, 2, 3, 5), (0.02, 0.1, 0.3, 1.0), (0.0, 0.1, 1 / 3)
SAMPLES, CELLS = 48, 78
FACTORS = (1.05, 1.2, 2.0)
SOURCES = ("records", "other seeds", "results.csv", "leaderboard.csv")
NO_CLAIM = (NOISE, UNKNOWN, ONE_SEED, IDENTICAL)


@dataclass(frozen=True)
class World:
    """One way for two boards to come about.

    scatter   standard deviation of the logarithm of a seed's error
    diverge   probability that a seed diverges
    factor    true errors of the second board over those of the first
    source    what is known of the boards, one of `SOURCES`
    """

    seeds: int
    scatter: float
    diverge: float = 0.0
    factor: float = 1.0
    source: str = "records"
    same_weights: bool = False

    def cell(self, random: np.random.Generator):
        """One cell as `verdicts` finds it."""
        hardness = random.normal(0, 0.5, SAMPLES)
        if self.same_weights:  # what is evaluated twice was trained once
            trained = random.normal(0, self.scatter, (self.seeds, 1))
            a, b = (self._board(random, hardness, 0, trained) for _ in range(2))
        else:
            a = self._board(random, hardness, 0)
            b = self._board(random, hardness, self.seeds if self.source == "other seeds" else 0)
        if b.errors:
            b = replace(b, errors=_scaled(b.errors, self.factor))
        return examine(a, b, same_weights=self.same_weights)

    def _board(self, random, hardness, first: int, trained=None) -> Outcome:
        if trained is None:
            trained = random.normal(0, self.scatter, (self.seeds, 1))
        knows_samples = self.source in ("records", "other seeds")
        own = random.normal(0, 0.1 * knows_samples, SAMPLES) + random.normal(0, 0.1, (self.seeds, SAMPLES))
        matrix = np.exp(trained + hardness + own)  # (S, N)
        fine = [s for s in range(self.seeds) if random.random() >= self.diverge]
        samples = {first + s: matrix[s] for s in fine}
        by_seed = {seed: float(errors.mean()) for seed, errors in samples.items()}
        if not by_seed:
            return Outcome(None, self.seeds)
        errors = Errors.of(by_seed, samples)
        if self.source in ("results.csv", "leaderboard.csv"):
            errors = replace(errors, samples={})
        if self.source == "leaderboard.csv":
            errors = replace(errors, by_seed={})
        return Outcome(errors, self.seeds - len(fine))


def _scaled(errors: Errors, factor: float) -> Errors:
    by_seed = {seed: factor * error for seed, error in errors.by_seed.items()}
    samples = {seed: factor * values for seed, values in errors.samples.items()}
    return Errors(factor * errors.mean, factor * errors.std, errors.n_seeds, by_seed, samples)


def false_rate(world: World, worlds: int, seed: int = 1) -> float:
    """Share of false verdicts where nothing changed, one cell compared alone."""
    random = np.random.default_rng(seed)
    verdicts = (decide([world.cell(random)])[0].verdict for _ in range(worlds))
    return sum(verdict not in NO_CLAIM for verdict in verdicts) / worlds


def found_rate(world: World, worlds: int, seed: int = 1) -> float:
    """Share of "worse" where errors are ``world.factor`` times larger, one cell compared alone."""
    random = np.random.default_rng(seed)
    return sum(decide([world.cell(random)])[0].verdict == WORSE for _ in range(worlds)) / worlds


def any_false_rate(world: World, boards: int, cells: int = CELLS, seed: int = 1) -> float:
    """Share of comparisons of many unchanged cells with any false verdict."""
    random = np.random.default_rng(seed)
    wrong = 0
    for _ in range(boards):
        decided = decide([world.cell(random) for _ in range(cells)])
        wrong += any(found.verdict not in NO_CLAIM for found in decided)
    return wrong / boards


def one_seed_verdicts(board: BoardFile, i: int, j: int, same_weights: bool = False) -> dict[str, int]:
    """Verdicts of a board's seed i against its seed j, trained models only, each as a board of its own."""
    assert board.results is not None
    trained = board.results[~board.results["training_free"]]

    def only(seed: int) -> BoardFile:
        results = trained[trained["seed"] == seed]
        return BoardFile(f"seed {seed}", leaderboard(results, board.samples), results, board.samples)

    table = compare([only(i), only(j)], same_weights=same_weights).table
    return dict(table["verdict"].value_counts())


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def table(headers: list[str], rows: list[list[str]]) -> str:
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def false_row(seeds: int, diverge: float, worlds: int) -> list[str]:
    def rates(source: str) -> list[float]:
        return [false_rate(World(seeds, scatter, diverge, source=source), worlds) for scatter in SCATTERS]

    many = any_false_rate(World(seeds, 0.3, diverge), worlds // 5)
    shown = [*rates("records"), *(max(rates(source)) for source in SOURCES[1:]), many]
    return [str(seeds), f"{diverge:.2g}", *map(percent, shown)]


def power_row(seeds: int, scatter: float, worlds: int) -> list[str]:
    found = [found_rate(World(seeds, scatter, factor=factor), worlds) for factor in FACTORS]
    diverging = found_rate(World(seeds, scatter, 0.1, FACTORS[-1]), worlds)
    return [str(seeds), f"{scatter:g}", *map(percent, [*found, diverging])]


def same_weights_row(seeds: int, scatter: float, worlds: int) -> list[str]:
    world = World(seeds, scatter, same_weights=True)
    found = [found_rate(replace(world, factor=factor), worlds) for factor in FACTORS]
    return [str(seeds), f"{scatter:g}", percent(false_rate(world, worlds)), *map(percent, found)]


def all_rows(row: Callable[..., list[str]], cases: Iterable[tuple], worlds: int, jobs: int) -> list[list[str]]:
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(row, *zip(*((*case, worlds) for case in cases), strict=True)))


def one_seed_table(path: Path) -> str:
    board = read_board(path)
    rows = []
    for i, j in itertools.combinations(range(3), 2):
        counts = one_seed_verdicts(board, i, j)
        rows.append([f"{i} against {j}", ", ".join(f"{n} {verdict}" for verdict, n in counts.items())])
    return table(["seed", "verdicts"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rates of false and of missed verdicts by simulation.")
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--board", type=Path, default=Path("leaderboards/first/small-cpu"))
    options = parser.parse_args()
    error = 100 * math.sqrt(0.05 * 0.95 / options.worlds)
    print(f"{options.worlds} worlds a number: 5 % are known to {error:.1f} %\n")
    effort = options.worlds, options.jobs
    larger = [f"x{factor:g}" for factor in FACTORS]
    headers = ["seeds", "diverge", *(f"scatter {scatter:g}" for scatter in SCATTERS), *SOURCES[1:], f"any of {CELLS}"]
    rows = all_rows(false_row, itertools.product(SEEDS, DIVERGENCE), *effort)
    print(f"False verdicts\n\n{table(headers, rows)}\n", flush=True)
    rows = all_rows(power_row, itertools.product(SEEDS, SCATTERS), *effort)
    print(f"Found\n\n{table(['seeds', 'scatter', *larger, 'x2, 0.1 diverge'], rows)}\n", flush=True)
    rows = all_rows(same_weights_row, itertools.product((1, 3), (0.02, 1.0)), *effort)
    print(f"--same-weights\n\n{table(['seeds', 'scatter', 'unchanged', *larger], rows)}\n", flush=True)
    print(f"One seed each, trained models of {options.board}\n\n{one_seed_table(options.board)}")


if __name__ == "__main__":
    main()
