"""The distributions that verdicts are read off, from SciPy, which is loaded when one is asked for the first time.

Most verbs never ask: `scipy.special` alone takes as long to load as all the rest of `bench --dry-run`. The names are
SciPy's; arguments are numbers or arrays and broadcast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pgdyno.stats.arrays import Floats


def ndtr(x: ArrayLike) -> Floats:
    """Return the share of the standard normal distribution below `x`."""
    from scipy.special import ndtr as function

    return np.asarray(function(np.asarray(x, np.float64)), np.float64)


def ndtri(share: ArrayLike) -> Floats:
    """Return below which value a share of the standard normal distribution lies."""
    from scipy.special import ndtri as function

    return np.asarray(function(np.asarray(share, np.float64)), np.float64)


def stdtr(freedom: ArrayLike, x: ArrayLike) -> Floats:
    """Return the share of Student's t distribution below `x`."""
    from scipy.special import stdtr as function

    return np.asarray(function(np.asarray(freedom, np.float64), np.asarray(x, np.float64)), np.float64)


def stdtrit(freedom: ArrayLike, share: ArrayLike) -> Floats:
    """Return below which value a share of Student's t distribution lies."""
    from scipy.special import stdtrit as function

    return np.asarray(function(np.asarray(freedom, np.float64), np.asarray(share, np.float64)), np.float64)


def chdtri(freedom: ArrayLike, share: ArrayLike) -> Floats:
    """Return above which value a share of the chi-square distribution lies."""
    from scipy.special import chdtri as function

    return np.asarray(function(np.asarray(freedom, np.float64), np.asarray(share, np.float64)), np.float64)


def beta(a: ArrayLike, b: ArrayLike) -> Floats:
    """Return the beta function."""
    from scipy.special import beta as function

    return np.asarray(function(np.asarray(a, np.float64), np.asarray(b, np.float64)), np.float64)
