"""Changes that stayed after their session: in which order they are taken back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.errors import RollbackError
from pgdyno.routes.route import Route
from pgdyno.undo import kept_change
from pgdyno.undo.bundle import UndoBundle


def kept(number: int) -> UndoBundle:
    return cast(UndoBundle, SimpleNamespace(id=f"20261127T00000{number}Z", kept=lambda: "kept"))


def test_of_the_changes_that_stayed_the_newest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants an older one back is told of the newest: one in between would be refused again."""
    bundles = [kept(number) for number in (2, 1, 4, 3)]
    monkeypatch.setattr(kept_change, "_kept_on_same_server", lambda _bundle: bundles)
    route = cast(Route, SimpleNamespace())
    kept_change.refuse_stale(kept(4), route)
    for number in (1, 2, 3):
        with pytest.raises(RollbackError, match=f"before {kept(4).id}, which changed the same server") as refused:
            kept_change.refuse_stale(kept(number), route)
        assert refused.value.hint == f"Run pgdyno rollback {kept(4).id} first."
