"""Expected improvement, in logarithms so that it never rounds to zero.

EI(x) = sd * h(t), h(t) = pdf(t) + t * cdf(t), t = (mean - best) / sd. Far below the best, h underflows and gives no
direction; ln h stays exact there through the scaled complementary error function (Ament et al. 2023, "Unexpected
improvements to expected improvement").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, logsumexp

Array = NDArray[np.float64]

LN_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))
TAIL = -1.0
FAR_TAIL = -1e5


def log_h(t: Array) -> Array:
    """Return ln(pdf(t) + t * cdf(t)), accurate for every t."""
    near = np.maximum(t, TAIL)
    plain = np.log(np.exp(-0.5 * near**2 - LN_ROOT_2PI) + near * np.exp(log_ndtr(near)))
    far = np.clip(t, FAR_TAIL, TAIL)
    bracket = 1.0 + far * np.sqrt(np.pi / 2) * erfcx(-far / np.sqrt(2))
    series = np.where(far < -1e3, far**-2.0, np.maximum(bracket, 1e-300))
    tail = -0.5 * np.minimum(t, TAIL) ** 2 - LN_ROOT_2PI + np.log(series)
    return np.where(t > TAIL, plain, tail)


def log_expected_improvement(mean: Array, sd: Array, best: Array) -> Array:
    """Return ln EI over `best` for each row, averaged over the members of an ensemble.

    `mean` and `sd` are (members, rows), `best` (members); the result is (rows).
    """
    t = (mean - best[:, None]) / sd
    return np.asarray(logsumexp(np.log(sd) + log_h(t), axis=0) - np.log(mean.shape[0]))
