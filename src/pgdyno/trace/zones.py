"""Abbreviations of time zones in log lines, as seconds east of UTC. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from pgdyno.errors import UsageError

_NUMERIC = re.compile(r"([+-])(\d\d):?(\d\d)?")
_HINT = "Name the server's log_timezone: --log-timezone Europe/Berlin. For a capture, set log_timezone = UTC."


def offsets(zone: str | None, year: int) -> dict[str, int]:
    """Return the seconds east of UTC of the abbreviations that a zone has around a year.

    None is a log in UTC. Raises UsageError for a zone that is unknown, or whose abbreviations mean two things.
    """
    found = {"UTC": 0, "GMT": 0}
    if zone is None:
        return found
    try:
        place = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f'time zone "{zone}" is unknown', hint="Name it as in log_timezone, such as Europe/Berlin."
        ) from None
    year = min(max(year, 2), 9997)
    at = datetime(year - 1, 1, 1, tzinfo=UTC)
    told = dict[str, int]()
    while at.year <= year + 1:
        here = at.astimezone(place)
        name, offset = here.tzname() or "", here.utcoffset() or timedelta()
        seconds = int(offset.total_seconds())
        if told.setdefault(name, seconds) != seconds:
            raise UsageError(f'time zone "{zone}": "{name}" means two offsets', hint="Set log_timezone = UTC.")
        at += timedelta(hours=6)
    return found | told


def unknown_zone(name: str) -> UsageError:
    """Return the error for an abbreviation that nothing explains."""
    return UsageError(f'the log\'s times are in "{name}", which is not UTC', hint=_HINT)


def numeric(name: str) -> int | None:
    """Return the seconds of an abbreviation such as +03 or -0330; None for a name."""
    found = _NUMERIC.fullmatch(name)
    if found is None:
        return None
    seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60
    return -seconds if found[1] == "-" else seconds
