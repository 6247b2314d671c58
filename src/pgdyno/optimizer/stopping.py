"""When more search is not worth it: the model expects less than the noise from going on."""

from __future__ import annotations

import math
from collections.abc import Sequence

EARLIEST = 25
"""Suggestions before which nobody stops: a model of fewer trials is too sure of itself."""
PATIENCE = 5
"""How many suggestions in a row must promise less than the noise."""


def should_stop(log_expected_improvements: Sequence[float | None], noise_sd: float) -> str | None:
    """Return why the search should end, None while it is worth going on.

    `log_expected_improvements` are those of the suggestions so far, None where no model led; `noise_sd` is the
    standard deviation of ln(performance) of one trial. The rule is a proposal of the project's study of optimisers
    (five asks in a row, at 25 trials or more) and bounds regret by what could not be measured anyway.
    """
    if len(log_expected_improvements) < EARLIEST or noise_sd <= 0:
        return None
    floor = math.log(noise_sd) + math.log(0.1)
    last = log_expected_improvements[-PATIENCE:]
    if any(promise is None or promise > floor for promise in last):
        return None
    return f"{PATIENCE} suggestions in a row promised less than a tenth of the noise of one trial"
