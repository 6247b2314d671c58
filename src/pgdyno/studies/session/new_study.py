"""How a study begins: its id, and for what is read from files, its place in the store until all of it is kept."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pgdyno import __version__
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.study import VERSION, Study, StudyKind, StudyState
from pgdyno.store.catalogue import Store


def study_id(kind: StudyKind, at: float) -> str:
    """Return a new id: the moment in UTC, the kind, and letters by lot that tell studies of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}-{kind.value}-{secrets.token_hex(2)}"


def version_option() -> dict[str, object]:
    """Return the option that says which pgdyno begins a study."""
    return {VERSION: __version__}


R = TypeVar("R", bound=StudyResult)


def keep_import(store: Store, study: Study, body: Callable[[], R]) -> R:
    """Put a study of files into the store, complete it with the result of `body`, and return that.

    A study that cannot be kept to its end is marked as failed, with what was kept of it.
    """
    store.add_study(replace(study, options={**study.options, **version_option()}))
    try:
        result = body()
    except BaseException:
        store.update_study(study.id, state=StudyState.FAILED)
        raise
    store.update_study(study.id, state=StudyState.COMPLETE, result=result)
    return result
