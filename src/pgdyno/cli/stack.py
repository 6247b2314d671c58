"""Put several flags on a verb as if they were one decorator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def stack(function: F, options: Sequence[Callable[[F], F]]) -> F:
    """Return the function with these flags, in the order in which help lists them."""
    for option in reversed(options):
        function = option(function)
    return function
