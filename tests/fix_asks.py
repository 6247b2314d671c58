"""The answers of the optimiser that simulated tunes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def kept_asks() -> Iterator[None]:
    """Keep what the simulated tunes of this module ask of the optimiser for all modules that ask the same."""
    from simulated_asks import asks_kept  # which loads the optimiser: no worker that tunes nothing needs it

    with asks_kept():
        yield
