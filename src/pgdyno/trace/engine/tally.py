"""What an engine tells while it runs, and at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

COMPLETE = "complete"
"""How a run ended that has sent its whole tape."""
MOST_REASONS = 20
LONGEST_REASON = 1000
"""Characters: a server says why it refuses, and may say it at length."""


@dataclass(slots=True)
class RunTally:
    """Counts since the begin of the run."""

    at_us: int = 0
    """Of this telling; negative before the run begins."""
    sent: int = 0
    done: int = 0
    errors: int = 0
    """Answers with another SQLSTATE than the capture's, or with one where it had none."""
    skipped: int = 0
    open_sessions: int = 0
    not_opened: int = 0
    lost_sessions: int = 0
    cancelled: int = 0
    stalls: int = 0
    """Gates that were opened as they were closed for too long."""
    keys_learned: int = 0
    """Keys that the server made and gave back, where the trace has its own."""
    keys_sent: int = 0
    """Places of statements that had them, instead of the captured ones."""
    keys_unknown: int = 0
    """Places that were sent as captured, as the key had not come back before."""
    late_us: int = 0
    """The largest lag by the engine itself."""
    cpu_s: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    """Why sessions could not be opened, or were lost: the first few kinds, by count."""
    pauses: list[list[int]] = field(default_factory=list)
    """Of each its begin, its end (-1: it lasts, as none ends before the run begins), both in us since the begin of the
    run, and how many sessions were at a statement or in a transaction at its end, or are now."""
    ended: str = ""
    """At the end: `complete`, or why it ended before."""

    @property
    def is_paused(self) -> bool:
        """Return whether a pause lasts."""
        return any(end < 0 for _, end, _ in self.pauses)

    @property
    def resting(self) -> tuple[float | None, int]:
        """Return for how many seconds the pause lasts, None where none does, and how many sessions do not rest."""
        if not self.is_paused:
            return None, 0
        begin, _, busy = self.pauses[-1]
        return (self.at_us - begin) / 1e6, busy

    @property
    def schedule_us(self) -> int:
        """Return where the schedule is: the moment of this telling, without what pauses took until then."""
        return self.at_us - sum((self.at_us if end < 0 else end) - begin for begin, end, _ in self.pauses)

    def because(self, reason: str, count: int = 1) -> None:
        """Count a reason; of more kinds than are kept, what is left is one kind."""
        reason = reason[:LONGEST_REASON]
        if reason not in self.reasons and len(self.reasons) >= MOST_REASONS:
            reason = "other reasons"
        self.reasons[reason] = self.reasons.get(reason, 0) + count
