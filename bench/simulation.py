"""Whole studies in one array: what the verdict rule does to thousands of simulated or resampled comparisons.

The same rule as `sequential.judge` and `sequential.is_final`, in array form; a test holds the two together. Used to
verify error rates, to print the price of a design before it is run, and by benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.stats.boundary import critical_values
from pgdyno.stats.distributions import ndtr
from pgdyno.stats.sequential import EARLIEST_GIVE_UP, HOPELESS, Design

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Studies:
    """How each of R studies ended, shape (R,): its pairs, its words, its mean log ratio and half-width.

    `higher` and `lower` say that the whole interval lay above or below 1 and was not equivalent.
    """

    pairs: NDArray[np.int64]
    higher: Bools
    lower: Bools
    equivalent: Bools
    mean: Floats
    half: Floats

    @property
    def claims(self) -> float:
        """Return the share of studies that claimed a difference."""
        return float((self.higher | self.lower).mean())

    @property
    def mean_pairs(self) -> float:
        """Return the mean number of pairs until the study was final."""
        return float(self.pairs.mean())

    def coverage(self, true_log_ratio: float) -> float:
        """Return the share of final intervals that hold the true log ratio."""
        return float((np.abs(self.mean - true_log_ratio) <= self.half).mean())


def run_studies(log_ratios: Floats, design: Design, *, give_up: bool = True) -> Studies:
    """Run R studies, each on one row of log ratios in the order in which its pairs would be run.

    `log_ratios` has the shape (R, max_pairs). With `give_up` False a study goes on until it is resolved or at
    `max_pairs`. Raises UsageError on any other shape.
    """
    if log_ratios.ndim != 2 or log_ratios.shape[1] != design.max_pairs:
        raise UsageError(f"log ratios of shape {log_ratios.shape} are not studies of {design.max_pairs} pairs")
    first = design.min_pairs
    n = np.arange(1, design.max_pairs + 1)[first - 1 :]
    # Sums about each row's first value, so that a large common ratio costs no digits.
    centred = log_ratios - log_ratios[:, :1]
    mean = np.cumsum(centred, axis=1)[:, first - 1 :] / n
    squares = np.cumsum(centred * centred, axis=1)[:, first - 1 :] - n * mean * mean
    mean = mean + log_ratios[:, :1]
    scatter = np.sqrt(np.maximum(squares, 0.0) / (n - 1) + (design.doubt / (n - 1)) ** 2)
    critical = np.array(critical_values(first, design.max_pairs, design.confidence))
    half = critical * scatter / np.sqrt(n)
    equivalent = np.abs(mean) + half <= design.equivalence_bound
    differs = (np.abs(mean) > half) & ~equivalent
    final = equivalent | differs
    if give_up:
        final |= (_chance(mean, scatter, n, critical[-1], design) < HOPELESS) & (n >= max(EARLIEST_GIVE_UP, first))
    final[:, -1] = True
    rows, at = np.arange(len(final)), final.argmax(axis=1)
    claimed, centre = differs[rows, at], mean[rows, at]
    return Studies(n[at], claimed & (centre > 0), claimed & (centre < 0), equivalent[rows, at], centre, half[rows, at])


def _chance(mean: Floats, scatter: Floats, n: NDArray[np.int64], critical: float, design: Design) -> Floats:
    """Return the predictive probability to be resolved at `max_pairs`; see `sequential`."""
    half = critical * scatter / np.sqrt(design.max_pairs)
    spread = np.maximum(scatter * np.sqrt(1 / n - 1 / design.max_pairs), 1e-300)
    room = np.maximum(design.equivalence_bound - half, 0.0)
    differs = ndtr((mean - half) / spread) + ndtr((-mean - half) / spread)
    return np.asarray(differs + ndtr((room - mean) / spread) - ndtr((-room - mean) / spread), dtype=np.float64)
