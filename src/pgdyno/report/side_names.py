"""How the two sides of a comparison are called. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SideNames:
    """How the two sides of a comparison are called."""

    subject: str
    reference: str
