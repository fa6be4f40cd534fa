"""How often a 95 % interval of `pdebench_hss.boards.intervals` holds the truth, in simulated worlds where it is known.

Errors of S seeds by N test samples around a true mean of 1, with scatter that belongs to the seed, to the sample, or to
both at once; and a second model, 10 % worse, on the same samples. Beside it the plain bootstrap that resamples seeds
and samples, to show why seeds are not resampled.

    python benchmarks/interval_coverage.py [--worlds 1000]
"""

from __future__ import annotations

import argparse

import numpy as np
from tabulate import tabulate

from pdebench_hss.boards.intervals import Errors, change_interval, error_interval

# seeds, samples, scatter of seeds, of samples, of both at once
CASES = [
    (1, 16, 0.0, 0.3, 0.0),
    (1, 48, 0.0, 0.3, 0.1),
    (2, 48, 0.05, 0.3, 0.1),
    (3, 16, 0.05, 0.3, 0.1),
    (3, 48, 0.1, 0.0, 0.0),
    (3, 48, 0.1, 0.1, 0.0),
    (3, 48, 0.05, 0.3, 0.1),
    (3, 48, 0.0, 0.0, 0.3),
    (5, 48, 0.05, 0.3, 0.1),
]


def errors_of(matrix: np.ndarray) -> Errors:
    return Errors.of(dict(enumerate(matrix.mean(axis=1))), dict(enumerate(matrix)))


def plain_bootstrap(random: np.random.Generator, matrix: np.ndarray, draws: int = 1000) -> tuple[float, float]:
    """Seeds and samples resampled with replacement, percentiles of the mean."""
    seeds, samples = matrix.shape
    rows = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds  # (draws, seeds)
    columns = random.multinomial(samples, np.full(samples, 1 / samples), size=draws) / samples
    low, high = np.quantile(np.einsum("ds,sn,dn->d", rows, matrix, columns, optimize=True), [0.025, 0.975])
    return float(low), float(high)


def coverage(case: tuple[int, int, float, float, float], worlds: int) -> list[str]:
    seeds, samples, by_seed, by_sample, by_both = case
    random = np.random.default_rng(1)
    hits = np.zeros(3)
    for _ in range(worlds):
        hardness = random.normal(0, by_sample, samples)

        def draw(hardness: np.ndarray = hardness) -> np.ndarray:
            scatter = random.normal(0, by_seed, (seeds, 1)) + random.normal(0, by_both, (seeds, samples))
            return 1 + hardness + scatter

        first, second = draw(), 1.1 * draw()
        low, high = error_interval(errors_of(first))
        change = change_interval(errors_of(first), errors_of(second), same_weights=seeds == 1)
        plain = plain_bootstrap(random, first)
        hits += [low <= 1 <= high, change.low <= 0.1 <= change.high, plain[0] <= 1 <= plain[1]]
    return [f"{100 * share:.1f} %" for share in hits / worlds]


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of the intervals by simulation.")
    parser.add_argument("--worlds", type=int, default=1000)
    options = parser.parse_args()
    headers = ["seeds", "samples", "by seed", "by sample", "by both", "error", "change", "plain bootstrap"]
    rows = [[*map(str, case), *coverage(case, options.worlds)] for case in CASES]
    print(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
