"""The requests of operators to running studies: put here by the dashboard, answered by the study's own process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import insert, select, update

from pgdyno.model.person.operator_request import OperatorRequest, RequestState
from pgdyno.store.catalogue import Store
from pgdyno.store.schema import REQUEST

LONGEST = 50_000
"""Characters of a request: no form makes a longer one."""
AT_ONCE = 20
"""So many are looked at in one turn: whoever fills the table keeps a study from nothing else."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A row that waits; `request` is None where it cannot be read."""

    number: int
    request: OperatorRequest | None


class RequestBoard:
    """The requests of a store. Each method is one transaction; raises StoreError as the store does.

    Nothing here is believed for being here: a study looks at signatures.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, request: OperatorRequest) -> None:
        """Record a request, on disk before this returns. The study must be in the store."""
        row = {"study_id": request.study, "at": request.at, "content": json.dumps(request.to_json()), "said": ""}
        with self._store.write() as connection:
            connection.execute(insert(REQUEST), {**row, "state": RequestState.WAITING.value})

    def waiting(self, study_id: str) -> list[RequestRow]:
        """Return the oldest requests to a study that nobody has answered."""
        which = (REQUEST.c.study_id == study_id) & (REQUEST.c.state == RequestState.WAITING.value)
        query = select(REQUEST).where(which).order_by(REQUEST.c.id).limit(AT_ONCE)
        with self._store.read() as connection:
            return [RequestRow(int(row["id"]), _read(dict(row))) for row in connection.execute(query).mappings()]

    def settle(self, number: int, state: RequestState, said: str, at: float) -> None:
        """Record the `state` of the request `number` as of `at`, a Unix time, and what the study `said` to it."""
        values = {"state": state.value, "said": said, "answered_at": at}
        with self._store.write() as connection:
            connection.execute(update(REQUEST).where(REQUEST.c.id == number).values(values))

    def of_study(self, study_id: str, *, most: int = 100) -> list[OperatorRequest]:
        """Return the newest requests to a study that can be read, the newest first."""
        query = select(REQUEST).where(REQUEST.c.study_id == study_id).order_by(REQUEST.c.id.desc()).limit(most)
        with self._store.read() as connection:
            found = [_read(dict(row)) for row in connection.execute(query).mappings()]
        return [one for one in found if one is not None]


def _read(row: Mapping[str, Any]) -> OperatorRequest | None:
    try:
        content = row["content"]
        if not isinstance(content, str) or len(content) > LONGEST:
            return None
        found = OperatorRequest.from_json(json.loads(content))
        at = row["answered_at"]
        return replace(
            found,
            state=RequestState(str(row["state"])),
            said=str(row["said"]),
            answered_at=None if at is None else float(at),
        )
    except (ValueError, TypeError, RecursionError):
        return None
