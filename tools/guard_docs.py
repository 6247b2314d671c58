"""Write docs/reference/guards.md from model/guard_table.py.

Run `python tools/guard_docs.py`, or with `--check` to exit 1 when the page is not what the table says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from generated import keep_page
from pgdyno.model.guard import Guard, GuardKind
from pgdyno.model.guard_table import CAPTURE_GUARDS, GUARDS, LIVE_GUARDS
from pgdyno.trial.guard_settings import limit_text

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "guards.md"
_HEAD = """<!-- Made by tools/guard_docs.py from src/pgdyno/model/guard_table.py: edit there. -->

# Guards

During a trial pgdyno reads the host and the server twice a second. When a guard is breached, the load is ended, the
baseline is applied, and both moments are printed and kept as events of the trial (kind `guard`), with the seconds
between them. The trial ends *failed* with the guard, the reading and the limit as its reason.

- A guard of the **configuration** rejects it, and the study goes on: the optimiser learns a failure. The study ends
  (exit code 4) when it was the baseline's own trial, or after `--guard-trips` rejections.
- A guard of the **environment** ends the study at once: no configuration is to blame.
- Guards fail closed. What cannot be read for longer than guard `readings` allows is a breach. What a host does not have
  at all, such as swap or a standby, is told once before the first trial, and its guard is off.
- Before the first change all guards are read once. One that is in breach already refuses the session (exit code 6).
- They work from the moment a configuration is in force to the end of its trial: while data are cloned (where a breach
  interrupts the wait), in the warm-up, in the measurement. They do not watch a restart, which has its own deadline.

`--guard NAME=VALUE` sets a limit, in the unit of the table or as PostgreSQL writes it (`2GB`, `30s`); a guard with a
share as its default takes a percentage too. `--guard NAME=off` switches off those that can be, which every study then
says at its beginning. `pgdyno guards` shows every guard as it stands now.

An indicator is amber from 80 % of a ceiling or below 1.5 times a floor, green again below 70 % or above 1.75 times.

| guard | breached when | default | a breach ends the | can be off |
|---|---|---|---|---|
"""

_LIVE = f"""
{", ".join(f"`{name}`" for name in LIVE_GUARDS)} watch `pgdyno live` alone, whose load has no driver;
`throughput` and `p99` are off there. A breach under B ends the study after `--guard-trips`, by default the first; one
under A, or of the environment, lets the server rest for ten minutes.

{" and ".join(f"`{name}`" for name in CAPTURE_GUARDS)} watches `pgdyno capture` alone. A breach of any guard ends the
capture, and the server logs as it did before.
"""
_ALL = (*GUARDS.values(), *LIVE_GUARDS.values(), *CAPTURE_GUARDS.values())


def page() -> str:
    """Return the page."""
    table = "".join(f"{row}\n" for row in _rows())
    return _HEAD + table + _LIVE + "".join(_section(guard) for guard in _ALL)


def _rows() -> Iterator[str]:
    for guard in _ALL:
        side = "below" if guard.is_floor else "above"
        lasting = f"{side} for {guard.hold_s:g} s" if guard.hold_s else side
        ends = "trial" if guard.kind is GuardKind.CONFIGURATION else "study"
        yield f"| `{guard.name}` | {lasting} | {limit_text(guard)} | {ends} | {'yes' if guard.can_be_off else 'no'} |"


def _section(guard: Guard) -> str:
    reads = guard.reads[0].upper() + guard.reads[1:]
    reason = guard.reason[0].upper() + guard.reason[1:]
    return f"\n## {guard.name}\n\nReads: {reads}.\n\nDefault {limit_text(guard)}: {reason}\n"


if __name__ == "__main__":
    sys.exit(keep_page(page(), PAGE, sys.argv))
