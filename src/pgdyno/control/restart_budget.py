"""How often, and at what time of day, a study may restart a server: pure, the clock is the caller's.

    --restarts none            reloads only
    --restarts 3               three restarts
    --restarts 22:00-05:00     any number, but only then, by this machine's clock
    --restarts 3@22:00-05:00   both

The budget bounds what a study tries. The way back is never bounded by it: restoring the server comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time

from pgdyno.errors import UsageError

_FORM = re.compile(r"(?:(?P<limit>[0-9]{1,9}|none)(?:@|$))?(?:(?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d))?")
_HINT = "Write none, a number, HH:MM-HH:MM, or both as 3@22:00-05:00."


@dataclass(frozen=True, slots=True)
class DayWindow:
    """A time of day, `begin` included and `end` not; it may reach over midnight."""

    begin: time
    end: time

    def holds(self, at: time) -> bool:
        """Return True when the moment lies in the window."""
        if self.begin < self.end:
            return self.begin <= at < self.end
        return at >= self.begin or at < self.end

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a restart may be made now, and why. `final` says that no later moment changes a refusal."""

    allowed: bool
    reason: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """At most `limit` restarts, in the `window`; None is no bound."""

    limit: int | None = None
    window: DayWindow | None = None

    @classmethod
    def parse(cls, text: str) -> RestartBudget:
        """Read the flag's form. Raises UsageError on any other."""
        match = _FORM.fullmatch(text.strip())
        if match is None or not text.strip() or text.strip().endswith("@"):
            raise UsageError(f'restart budget "{text}" cannot be read', hint=_HINT)
        limit, begin, end = match["limit"], match["begin"], match["end"]
        try:
            window = DayWindow(time.fromisoformat(begin), time.fromisoformat(end)) if begin else None
        except ValueError as error:
            raise UsageError(f'restart budget "{text}" has no time of day', detail=str(error), hint=_HINT) from error
        if window is not None and window.begin == window.end:
            raise UsageError(f'restart budget "{text}" is an empty window', hint=_HINT)
        return cls(None if limit is None else 0 if limit == "none" else int(limit), window)

    @property
    def is_reload_only(self) -> bool:
        """Return True when no restart is ever allowed."""
        return self.limit == 0

    def ask(self, used: int, at: time) -> Permission:
        """Return whether a restart may be made at this time of day, after so many."""
        if self.limit is not None and used >= self.limit:
            many = "no restart is allowed" if self.limit == 0 else f"the budget of {self.limit} restarts is used up"
            return Permission(False, many, final=True)
        if self.window is not None and not self.window.holds(at):
            return Permission(False, f"restarts are allowed {self.window} only, and it is {at:%H:%M}")
        left = "any number" if self.limit is None else f"{self.limit - used} of {self.limit}"
        return Permission(True, f"{left} left" + (f", {self.window}" if self.window else ""))

    def __str__(self) -> str:
        count = "" if self.limit is None else "none" if self.limit == 0 else str(self.limit)
        return "@".join(part for part in (count, str(self.window or "")) if part) or "any"


class RestartLedger:
    """Counts the restarts of one study against its budget; `used` are those of before, when it is resumed."""

    def __init__(self, budget: RestartBudget, *, used: int = 0, now: Callable[[], datetime] = datetime.now) -> None:
        self.budget = budget
        self.used = used
        self._now = now

    def permission(self) -> Permission:
        """Return whether a restart may be made now."""
        return self.budget.ask(self.used, self._now().time())

    def spend(self) -> None:
        """Count a restart that was made, or tried."""
        self.used += 1
