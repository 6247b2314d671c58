"""The three axes on which a database is classed: how busy it is, how large, and what depends on it."""

from __future__ import annotations

from enum import StrEnum


class Utilization(StrEnum):
    """How busy the database is."""

    LOW = "low"
    HIGH = "high"


class SizeClass(StrEnum):
    """How large the databases are against the memory that the server may use."""

    SMALL = "small"
    """They fit into a quarter of it, which is what shared_buffers usually gets."""
    MEDIUM = "medium"
    """They fit into it."""
    LARGE = "large"
    """They are larger."""


class Criticality(StrEnum):
    """What depends on the database."""

    BUSINESS_CRITICAL = "business-critical"
    PRODUCTION = "production"
    DEVELOPMENT = "development"
    TEST = "test"
