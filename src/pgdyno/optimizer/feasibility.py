"""The chance that a trial succeeds, learned from the ones that failed or were refused.

A Gaussian process on labels (success 1, failure -1) with the same kernel as the objective's but a length-scale of its
own for each knob: memory runs out along other knobs than those that make the server fast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from pgdyno.optimizer.gp import Posterior, Prior, fit
from pgdyno.optimizer.kernel import Groups, Matrix, Vector

LABEL_PRIOR = Prior(noise_median=0.2)
SAFE_LABEL = 0.7
"""The label from which the search counts on success.

A smooth curve through labels of 1 and -1 slopes where the truth is a cliff, and the search walks along the slope: the
points that it picks fail far more often than a random point with the same label.
"""
SAFE_MARGIN = 0.5
"""How many standard deviations above that label a point must lie to cost nothing."""
STEEPNESS = 10.0
"""What each standard deviation below that costs in ln(expected improvement)."""
SOFTNESS = 0.1
"""Variance added to that of the label's mean, so that the chance is never quite 0 or 1."""


def fit_feasibility(x: Matrix, succeeded: NDArray[np.bool_], groups: Groups) -> Posterior | None:
    """Return the model of success, or None when all trials ended alike: then there is nothing to learn."""
    if succeeded.all() or not succeeded.any():
        return None
    return fit(x, np.where(succeeded, 1.0, -1.0), groups, prior=LABEL_PRIOR)


def log_probability(mean: Vector, sd: Vector) -> Vector:
    """Return ln P(success) where the label has this mean and standard deviation."""
    return np.asarray(log_ndtr(_margin(mean, sd, 0.0)))


def log_worth(mean: Vector, sd: Vector) -> Vector:
    """Return what the chance of failure adds to ln(expected improvement): ln P(success), and a wall where it is low.

    The chance alone is the price only if a failure costs no more than its trial, and it bounds nothing: past a cliff
    the expected improvement grows faster than the chance falls. The wall slopes, so that without a safe candidate the
    least unsafe one is tried.
    """
    wall = np.minimum(0.0, safety(mean, sd))
    return log_probability(mean, sd) + STEEPNESS * wall


def safety(mean: Vector, sd: Vector) -> Vector:
    """Return how many standard deviations a label lies above the one from which the search counts on success."""
    return _margin(mean, sd, SAFE_LABEL) - SAFE_MARGIN


def _margin(mean: Vector, sd: Vector, label: float) -> Vector:
    return np.asarray((mean - label) / np.sqrt(sd**2 + SOFTNESS))
