"""Units of systemd for night runs, as text: nothing here installs or starts them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

SERVICE, TIMER = "pgdyno-night.service", "pgdyno-night.timer"


def service_text(argv: Sequence[str], *, user: str, home: str | None, stop_s: float) -> str:
    """Return the service: one window, ended by SIGTERM with enough time, `stop_s`, to put a server back.

    `home` is PGDYNO_HOME for its runs, None where it is not set.
    """
    environment = 'Environment="PGDYNO_HOME={}"\n'.format(home.replace("%", "%%")) if home else ""
    command = " ".join(shlex.quote(word).replace("%", "%%").replace("$", "$$") for word in argv)
    return (
        "[Unit]\n"
        "Description=pgdyno: the runs of one night\n"
        "Documentation=man:systemd.service(5)\n"
        "After=network-online.target postgresql.service\n"
        "Wants=network-online.target\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        f"User={user}\n"
        f"{environment}"
        f"ExecStart={command}\n"
        "# Only the runner is told to end: it ends its job, which restores the server.\n"
        "KillMode=mixed\n"
        f"TimeoutStopSec={stop_s:.0f}\n"
    )


def timer_text(begin: str, zone: str | None) -> str:
    """Return the timer: every day when the window opens; a night that was missed is not made up for by day."""
    calendar = f"*-*-* {begin}:00" + (f" {zone}" if zone else "")
    return (
        "[Unit]\n"
        "Description=pgdyno: when the night begins\n"
        "\n"
        "[Timer]\n"
        f"OnCalendar={calendar}\n"
        "AccuracySec=1s\n"
        "Persistent=false\n"
        f"Unit={SERVICE}\n"
        "\n"
        "[Install]\n"
        "WantedBy=timers.target\n"
    )
