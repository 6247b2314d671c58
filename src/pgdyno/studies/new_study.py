"""How a study begins: its id, and for what is read from files, its place in the store until all of it is kept."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.store.catalogue import Store


def study_id(kind: StudyKind, at: float) -> str:
    """Return a new id: the moment in UTC, the kind, and letters by lot that tell studies of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}-{kind.value}-{secrets.token_hex(2)}"


@contextmanager
def imported(store: Store, study: Study) -> Iterator[dict[str, object]]:
    """Put a study of files into the store, and complete it with the result that is filled in inside.

    A study that cannot be kept to its end is marked as failed, with what was kept of it.
    """
    store.add_study(study)
    result: dict[str, object] = {"study": study.id}
    try:
        yield result
    except BaseException:
        store.update_study(study.id, state=StudyState.FAILED)
        raise
    store.update_study(study.id, state=StudyState.COMPLETE, result=result)
