"""The critical values of a t test that is looked at after every pair, computed so that the whole keeps its error.

Where no effect exists and the log ratios are normal, write U_n for the sum of n log ratios over the root of their sum
of squares. U_n tells the direction of the data vector, its length R_n tells the scale, and for a normal sample the
two are independent. With the angle theta = atan(x / R_n) of the next value,

    U_{n+1} = U_n cos(theta) + sin(theta),    density of theta proportional to cos(theta)^(n-1) on (-pi/2, pi/2),

so U is a Markov chain that knows nothing of the scale, and |t_n| >= c is the same event as |U_n| >= c sqrt(n) /
sqrt(n - 1 + c^2). One backward recursion by quadrature therefore gives the exact probability that any look claims a
difference; no table and no Monte Carlo is needed, for any number of looks and any confidence.

The shape is that of Wang and Tsiatis (Biometrics 43, 1987) on the scale of nominal levels: the level of look n is
that of the normal value C (n/N)^(SHAPE - 1/2), and C is solved for. One share of the error is kept for the first look,
where a t test is weakest and where a tripled throughput should already be enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from pgdyno.errors import UsageError
from pgdyno.stats.arrays import Floats
from pgdyno.stats.distributions import beta, ndtr, stdtrit

SHAPE = 0.4
"""Between O'Brien-Fleming (0) and Pocock (0.5): near the least mean number of pairs for a true effect."""
FIRST_LOOK_SHARE = 0.2
"""The share of the error that the first look may spend."""

_GRID = np.sin(np.linspace(0.0, np.pi / 2, 160))  # dense near the bound, where the next look matters most
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_TAIL_SD = 9.0
_TOLERANCE = 1e-7


@cache
def critical_values(min_pairs: int, max_pairs: int, confidence: float) -> tuple[float, ...]:
    """Return the critical |t| (n - 1 degrees of freedom) of the looks at `min_pairs`, ..., `max_pairs` pairs.

    The probability that normal data without an effect exceed any of them is 1 - `confidence`, whatever their scale.
    Takes some 0.1 s once for each design. Raises UsageError as `require_possible` does.
    """
    require_possible(min_pairs, max_pairs, confidence)
    error = 1.0 - confidence
    constant = _solve(min_pairs, max_pairs, error)
    return tuple(float(t) for t in _shape(constant, min_pairs, max_pairs, error))


def require_possible(min_pairs: int, max_pairs: int, confidence: float) -> None:
    """Raise UsageError unless 2 <= `min_pairs` <= `max_pairs` <= 1000 and `confidence` lies in [0.8, 0.99999]."""
    if not 2 <= min_pairs <= max_pairs <= 1000:
        raise UsageError(f"a design from {min_pairs} to {max_pairs} pairs is not possible", hint="Use 2 to 1000 pairs.")
    if not 0.8 <= confidence <= 0.99999:
        raise UsageError(f"confidence {confidence} is not in 0.8 to 0.99999", hint="Use 0.95, or 0.99 to be stricter.")


def crossing_probability(critical: Sequence[float] | Floats, min_pairs: int) -> float:
    """Return the probability that |t| exceeds a critical value at any look when there is no effect.

    `critical` holds one value a look, the first at `min_pairs` pairs. Exact to about 1e-5 for normal data.
    """
    t = np.asarray(critical, dtype=np.float64)
    pairs = np.arange(min_pairs, min_pairs + len(t))
    return 1.0 - _stay_probability(t * np.sqrt(pairs) / np.sqrt(pairs - 1 + t * t), min_pairs)


def _shape(constant: float, min_pairs: int, max_pairs: int, error: float) -> Floats:
    """Return the critical |t| of every look for the constant C of the boundary."""
    pairs = np.arange(min_pairs, max_pairs + 1, dtype=np.float64)
    one_sided = ndtr(-constant * (pairs / max_pairs) ** (SHAPE - 0.5))
    if max_pairs > min_pairs:
        one_sided[0] = max(one_sided[0], FIRST_LOOK_SHARE * error / 2)
    return np.asarray(-stdtrit(pairs - 1, one_sided), dtype=np.float64)


def _solve(min_pairs: int, max_pairs: int, error: float) -> float:
    """Find C by bisection and secant steps on the logarithm of the error, which is smooth and falls in C."""

    def excess(constant: float) -> float:
        critical = _shape(constant, min_pairs, max_pairs, error)
        return float(np.log(crossing_probability(critical, min_pairs) / error))

    lo, hi = 0.2, 8.0
    guess, previous = 2.5, None
    for _ in range(60):
        value = excess(guess)
        if abs(value) < _TOLERANCE:
            break
        lo, hi = (guess, hi) if value > 0 else (lo, guess)
        step = (lo + hi) / 2
        if previous is not None and value != previous[1]:
            secant = guess - value * (guess - previous[0]) / (value - previous[1])
            step = secant if lo < secant < hi else step
        elif previous is None:
            step = guess + 0.2 * value
        previous, guess = (guess, value), step
        if hi - lo < 1e-9:
            break
    return guess


def _stay_probability(bounds: Floats, min_pairs: int) -> float:
    """Return the probability that |U| stays below every bound, by backward recursion over the looks."""
    grid = bounds[-1] * _GRID
    stay = np.ones_like(grid)
    for index in range(len(bounds) - 2, -1, -1):
        here = bounds[index] * _GRID
        stay = _step_back(here, min_pairs + index, bounds[index + 1], grid, stay)
        grid = here
    reach = min(np.arcsin(min(bounds[0] / np.sqrt(min_pairs), 1.0)), _TAIL_SD / np.sqrt(min_pairs))
    angle = reach / 2 * (_NODES + 1)
    density = np.cos(angle) ** (min_pairs - 2) / beta((min_pairs - 1) / 2, 0.5)
    return float(reach * np.sum(_WEIGHTS * density * np.interp(np.sqrt(min_pairs) * np.sin(angle), grid, stay)))


def _step_back(here: Floats, pairs: int, bound: float, grid: Floats, stay: Floats) -> Floats:
    """Return, for each U of `here` at `pairs` pairs, the probability to stay inside from the next look on.

    From U >= 0 only the upper bound can be crossed, for theta between the two angles where U' equals it; what
    remains of (-pi/2, pi/2) is integrated piece by piece, so that the integrand is smooth.
    """
    turn = np.arctan(here)
    rise = np.arcsin(np.minimum(bound / np.sqrt(1 + here * here), 1.0))
    reach = min(np.pi / 2, _TAIL_SD / np.sqrt(pairs))
    before, after = np.clip(rise - turn, -reach, reach), np.clip(np.pi - rise - turn, -reach, reach)
    total = np.zeros_like(here)
    for lo, hi in ((np.full_like(here, -reach), before), (after, np.full_like(here, reach))):
        half = (hi - lo) / 2
        wide = np.flatnonzero(half)  # of most U one of the two pieces is empty
        theta = ((hi + lo) / 2)[wide, None] + half[wide, None] * _NODES
        cosine = np.cos(theta)
        following = np.abs(here[wide, None] * cosine + np.sin(theta))
        inside = np.zeros((here.size, _NODES.size))
        inside[wide] = cosine ** (pairs - 1) * np.interp(following, grid, stay)
        total += half * (inside @ _WEIGHTS)
    return np.asarray(total / beta(pairs / 2, 0.5), dtype=np.float64)
