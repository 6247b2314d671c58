"""Why a configuration is not tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a configuration is not tried, with the numbers, and the knobs that it is about."""

    reason: str
    knobs: tuple[str, ...]
