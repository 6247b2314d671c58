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
OPTIMISM = 0.3
"""Added to the label's mean: where nothing is known, the prior leans to success."""


def fit_feasibility(x: Matrix, succeeded: NDArray[np.bool_], groups: Groups) -> Posterior | None:
    """Return the model of success, or None when all trials ended alike: then there is nothing to learn."""
    if succeeded.all() or not succeeded.any():
        return None
    return fit(x, np.where(succeeded, 1.0, -1.0), groups, prior=LABEL_PRIOR)


def log_probability(model: Posterior | None, x: Matrix) -> Vector:
    """Return ln P(success) for each row of x; 0 without a model."""
    if model is None:
        return np.zeros(len(x))
    mean, sd = model.predict(x)
    return np.asarray(log_ndtr((mean + OPTIMISM) / np.sqrt(sd**2 + 0.1)))
