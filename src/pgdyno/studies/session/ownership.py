"""Which process runs a study: claimed before anything of it is touched, and seen by whoever would go on with it.

The claim is the study's row on the live board, which its process writes again every second and which says exactly which
process that is. A process of this host is looked for; of another host, or of a container with process numbers of its
own, only its signs of life can be seen. No wall clock decides: it may have been set by years in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pgdyno.errors import EnvironmentUnsuitable, StoreError, UsageError
from pgdyno.linux.identity import ProcessIdentity, pid_namespace, uptime
from pgdyno.model.live import SILENT_S, Live
from pgdyno.model.study import STUDY_ID, Study, StudyState
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.trial.live_row import LiveRow, first_state

_LOOK_S = 0.5


def runner_of(store: Store, study_id: str, *, sleep: Callable[[float], None] = time.sleep) -> Live | None:
    """Return who runs a study just now, None when nobody does. Raises StoreError as the store does.

    Takes up to `SILENT_S` for a study that another host or container has begun and not ended.
    """
    board = LiveBoard(store)
    seen = board.row(study_id)
    if seen is None:
        return None
    verdict = is_alive_here(seen)
    if verdict is not None:
        return seen if verdict else None
    waited_s = 0.0
    while waited_s < SILENT_S:
        sleep(_LOOK_S)
        waited_s += _LOOK_S
        now = board.row(study_id)
        if now != seen:
            return now
    return None


def is_alive_here(live: Live) -> bool | None:
    """Tell whether the process of a row lives; None when it cannot be seen from here."""
    own = ProcessIdentity.own()
    if live.boot_id != own.boot_id:
        return None
    if live.namespace == pid_namespace():
        return ProcessIdentity(live.pid, live.start_ticks, live.boot_id).is_alive()
    return uptime() - live.uptime <= SILENT_S


def check_resumable(study: Study) -> None:
    """Raise UsageError for a study that nobody can go on with here."""
    if not STUDY_ID.fullmatch(study.id):  # its run's folder is called by it, and others may write the store
        raise UsageError(f'"{study.id}" is not an id of a study', hint="Find out who wrote that into the store.")
    if IMPORTED in study.options:
        raise UsageError(
            f"study {study.id} was imported: it was measured on another machine",
            detail=f"What it would change, {study.target}, is not what it was measured on.",
            hint=f"Read it with pgdyno report {study.id}; continue it on the machine that began it.",
        )
    if study.state is StudyState.COMPLETE:
        raise UsageError(f"study {study.id} is complete", hint=f"Read it with pgdyno report {study.id}.")


def runs_elsewhere(live: Live) -> EnvironmentUnsuitable:
    """Return the error for a study that another process runs."""
    return EnvironmentUnsuitable(
        f"study {live.study} is running as process {live.pid} on {live.host}",
        detail="Nothing of it was touched.",
        hint=f"Wait for its end, or end it with kill {live.pid} there: it restores its server and can be resumed.",
    )


@contextmanager
def owning(
    store: Store, study_id: str, now: float, *, resumes: bool, clock: Callable[[], float] = time.time
) -> Iterator[LiveRow]:
    """Hold a study as its one process until the block ends, and give its row, which is written each second until then.

    The row of `study_id` is on the live board of `store`; `now` is the moment of the claim and `clock` gives that of
    each later write, both in seconds since the epoch. Raises EnvironmentUnsuitable that names the process which runs
    it, and UsageError as `check_resumable` where it `resumes`; nothing of the study was touched then.
    """
    board = LiveBoard(store)
    seen: Live | None = None
    if resumes:
        check_resumable(store.study(study_id))
        seen = board.row(study_id)
        runner = runner_of(store, study_id)
        if runner is not None:
            raise runs_elsewhere(runner)
    other = board.claim(first_state(study_id, now), instead_of=seen)
    if other is not None:
        raise runs_elsewhere(other)
    if resumes and store.study(study_id).state is StudyState.RUNNING:  # it was killed: until it is begun again ...
        store.update_study(study_id, state=StudyState.INTERRUPTED)  # ... and where that is refused, it says so
    try:
        with LiveRow(board, study_id, clock=clock) as row:
            yield row
    finally:
        with suppress(StoreError):  # the row stays, and shows that its process is gone
            board.clear(study_id)
