"""Expected improvement, in logarithms so that it never rounds to zero.

EI(x) = sd * h(t), h(t) = pdf(t) + t * cdf(t), t = (mean - best) / sd. Far below the best, h underflows and gives no
direction; ln h stays exact there through the scaled complementary error function (Ament et al. 2023, "Unexpected
improvements to expected improvement").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

Array = NDArray[np.float64]

LN_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))
TAIL = -1.0
"""Below this t the plain formula loses digits by cancellation."""
FAR_TAIL = -1e3
"""Below this t the bracket of the tail formula does too, and its series (1 / t^2) is exact."""


def log_h(t: Array) -> Array:
    """Return ln(pdf(t) + t * cdf(t)), accurate for every t."""
    near = np.maximum(t, TAIL)
    plain = np.log(np.exp(-0.5 * near**2 - LN_ROOT_2PI) + near * np.exp(log_ndtr(near)))
    low = np.minimum(t, TAIL)
    far = np.maximum(low, FAR_TAIL)
    bracket = np.log(1.0 + far * np.sqrt(np.pi / 2) * erfcx(-far / np.sqrt(2)))
    tail = -0.5 * low**2 - LN_ROOT_2PI + np.where(low < FAR_TAIL, -2.0 * np.log(-low), bracket)
    return np.where(t > TAIL, plain, tail)


def log_expected_improvement(mean: Array, sd: Array, best: float) -> Array:
    """Return ln EI over `best` for each row of `mean` and `sd`."""
    return np.asarray(np.log(sd) + log_h((mean - best) / sd))
