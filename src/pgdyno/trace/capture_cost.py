"""What a capture costs a server: log bytes and processor time, from the rate of its statements. Pure.

Measured on PostgreSQL 15, csvlog against none, server CPU with the collector's: statements of 33 to 42 us, the worst
case, took 17.6 us more in a prepared read-only load (x1.42) and 29 us more in TPC-B (x1.89); 600 bytes a statement, of
about 90 characters, whose text stands in a line for its binding and in one for its execution. jsonlog x1.62 the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.units import bytes_text, digits_text

CPU_US = (17.6, 29.0)
"""Microseconds of server CPU a statement, the least and the most."""
_LINES = 2
_LINE_BYTES = 210
_USUAL_TEXT = 90.0
_JSON = 1.62
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class LoadRate:
    """What the server does now, over `seconds`; None where it cannot be told."""

    seconds: float
    transactions_per_s: float
    statements_per_s: float | None = None
    """By pg_stat_statements; without it there are at least as many as transactions."""
    mean_ms: float | None = None
    """Time of the server a statement."""
    mean_text: float | None = None
    """Characters of a statement's text, weighted by its calls."""


@dataclass(frozen=True, slots=True)
class CaptureCost:
    """What to expect: bytes of log a second, and CPU seconds a second (least, most)."""

    rate: LoadRate
    bytes_per_statement: float
    bytes_per_s: float
    cpu_per_s: tuple[float, float]

    @property
    def bytes_per_hour(self) -> float:
        """Return the bytes of log that an hour like now gives."""
        return self.bytes_per_s * _HOUR_S

    def seconds_to_fill(self, free: float) -> float | None:
        """Return after how long so many bytes are full at this rate; None where there is no load."""
        return free / self.bytes_per_s if self.bytes_per_s > 0 else None

    def lines(self) -> list[str]:
        """Return it in sentences for people."""
        rate = self.rate
        per_s = rate.transactions_per_s if rate.statements_per_s is None else rate.statements_per_s
        what = "transactions, each at least one statement" if rate.statements_per_s is None else "statements"
        least, most = self.cpu_per_s
        found = [
            f"load now: {digits_text(per_s)} {what} a second, over {rate.seconds:.0f} s",
            f"log: about {digits_text(self.bytes_per_statement)} bytes a statement, "
            f"{bytes_text(self.bytes_per_hour)} an hour",
            f"server CPU: {100 * least:.2g} to {100 * most:.2g} % of one core more "
            f"({CPU_US[0]:g} to {CPU_US[1]:g} us a statement, measured elsewhere)",
        ]
        if rate.mean_ms:
            low, high = (us / 10 / rate.mean_ms for us in CPU_US)
            found.append(
                f"a statement takes {digits_text(rate.mean_ms)} ms now: {low:.2g} to {high:.2g} % more; of 0.04 ms it "
                "was 42 % (read-only, prepared) to 89 % (TPC-B), of 1 ms 2 to 3 %"
            )
        return found


def cost_of(rate: LoadRate, style: str, sampled: float | None = None) -> CaptureCost:
    """Return what a capture of this load costs. A sample logs that share of it, and its processor time is the share."""
    share = 1.0 if sampled is None else sampled
    per_s = share * (rate.transactions_per_s if rate.statements_per_s is None else rate.statements_per_s)
    size = _LINES * (_LINE_BYTES + (_USUAL_TEXT if rate.mean_text is None else rate.mean_text))
    size *= _JSON if style == "jsonlog" else 1.0
    least, most = (us * per_s / 1e6 for us in CPU_US)
    return CaptureCost(rate, size, size * per_s, (least, most))
