"""The board of what runs: one row a study while it runs, overwritten every second, read by the dashboard."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import bindparam, delete, insert, select, update

from pgdyno.model.live import Live
from pgdyno.store.catalogue import Store
from pgdyno.store.schema import LIVE, STUDY

_OVERWRITE = update(LIVE).where(LIVE.c.study_id == bindparam("id")).values(at=bindparam("at"), state=bindparam("state"))
"""Made once, since it is run each second: making it again took as long as running it."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LiveBoard:
    """What the studies of a store are doing now. Each method is one transaction; raises StoreError as the store does.

    Nothing here is a measurement: a row may be lost, and it goes when its study ends. The row of a study that was
    killed stays until it is resumed; its age shows that nobody writes it any more (`Live.is_silent`). A row also says
    which process the study belongs to (`claim`).
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def show(self, live: Live, points: Sequence[str] | None = None) -> None:
        """Write a study's row, or overwrite it. The study must be in the store.

        `points` are the texts of its points, made once: five minutes of them take four times as long as all the rest.
        """
        row = {"at": live.at, "state": live.to_json() if points is None else live.to_text(points)}
        with self._store.write(fleeting=True) as connection:
            done = connection.execute(_OVERWRITE, {"id": live.study, **row})
            if not done.rowcount:
                connection.execute(insert(LIVE), {"study_id": live.study, **row})

    def row(self, study_id: str) -> Live | None:
        """Return the row of one study as it was written, None when it has none that can be read."""
        with self._store.read() as connection:
            found = connection.execute(select(LIVE.c.state).where(LIVE.c.study_id == study_id)).scalar()
        return _read(found)

    def claim(self, live: Live, *, instead_of: Live | None) -> Live | None:
        """Write the row of a study that this process runs from now on; None when that was done.

        Only where the row still is the one that was looked at, or has gone: else somebody else writes it, and it is
        returned. Of two who claim a study at once one succeeds.
        """
        row = {"at": live.at, "state": live.to_json()}
        with self._store.write() as connection:
            connection.execute(select(STUDY.c.id).where(STUDY.c.id == live.study).with_for_update())
            state = connection.execute(select(LIVE.c.state).where(LIVE.c.study_id == live.study)).scalar()
            there = _read(state)
            if there is not None and there != instead_of:
                return there
            if state is None:
                connection.execute(insert(LIVE), {"study_id": live.study, **row})
            else:
                connection.execute(update(LIVE).where(LIVE.c.study_id == live.study).values(row))
        return None

    def clear(self, study_id: str) -> None:
        """Take a study's row away; nothing happens when it has none."""
        with self._store.write(fleeting=True) as connection:
            connection.execute(delete(LIVE).where(LIVE.c.study_id == study_id))

    def running(self) -> list[Live]:
        """Return all rows that can be read and are of their own study, the study that began last first.

        Of those that were written on this host since it started, `at` is by the clock as it stands now: it may have
        been set meanwhile, and a study that writes every second would look silent for years, or to come.
        """
        with self._store.read() as connection:
            rows = connection.execute(select(LIVE.c.study_id, LIVE.c.state)).all()
        found = [_by_our_clock(live) for name, row in rows if (live := _read(row)) is not None and live.study == name]
        return sorted(found, key=lambda live: live.began_at, reverse=True)


def _by_our_clock(live: Live) -> Live:
    if not live.boot_id or live.boot_id != boot_id():
        return live
    return replace(live, at=time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - live.uptime))


def boot_id() -> str:
    """Return the name of this host's run since it started."""
    return _BOOT_ID.read_text().strip()


def _read(row: object) -> Live | None:
    """Return a row's state; None for what another version of pgdyno wrote in a way that is not ours."""
    try:
        return Live.from_json(row) if isinstance(row, dict) else None
    except ValueError:
        return None
