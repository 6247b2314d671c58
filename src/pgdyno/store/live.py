"""The board of what runs: one row a study while it runs, overwritten every second, read by the dashboard."""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from pgdyno.model.live import Live
from pgdyno.store.catalogue import Store
from pgdyno.store.schema import LIVE


class LiveBoard:
    """What the studies of a store are doing now. Each method is one transaction; raises StoreError as the store does.

    Nothing here is a measurement: a row may be lost, and it goes when its study ends. The row of a study that was
    killed stays until it is resumed; its age shows that nobody writes it any more (`Live.is_silent`).
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def show(self, live: Live) -> None:
        """Write a study's row, or overwrite it. The study must be in the store."""
        row = {"at": live.at, "state": live.to_json()}
        with self._store.write(fleeting=True) as connection:
            done = connection.execute(update(LIVE).where(LIVE.c.study_id == live.study).values(row))
            if not done.rowcount:
                connection.execute(insert(LIVE), {"study_id": live.study, **row})

    def clear(self, study_id: str) -> None:
        """Take a study's row away; nothing happens when it has none."""
        with self._store.write(fleeting=True) as connection:
            connection.execute(delete(LIVE).where(LIVE.c.study_id == study_id))

    def running(self) -> list[Live]:
        """Return all rows that can be read, the study that began last first."""
        with self._store.read() as connection:
            rows = connection.execute(select(LIVE.c.state)).scalars().all()
        found = [live for row in rows if (live := _read(row)) is not None]
        return sorted(found, key=lambda live: live.began_at, reverse=True)


def _read(row: object) -> Live | None:
    """Return a row's state; None for what another version of pgdyno wrote in a way that is not ours."""
    try:
        return Live.from_json(row) if isinstance(row, dict) else None
    except ValueError:
        return None
