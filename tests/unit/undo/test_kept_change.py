"""Changes that stayed after their session: in which order they are taken back."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

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


@pytest.mark.parametrize(
    ("found", "before", "elsewhere", "is_refused"),
    [
        (b"  # pgdyno change s1\nwork_mem = '1MB'\n", None, False, False),  # our head is there
        (b"work_mem = '1MB'\n", None, False, True),
        (b"# another head\nwork_mem = '1MB'\n", b"fsync = on\n", False, True),
        (b"work_mem = '1MB'\n", b"work_mem = '2MB'\n", False, False),  # it was set before us
        (b"fsync = on\n", None, False, False),
        (b"work_mem = '1MB'\n", None, True, False),  # of another file
        (None, None, False, False),
    ],
)
def test_a_line_whose_head_is_gone_is_nobody_s_to_take_out(
    monkeypatch: pytest.MonkeyPatch, found: bytes | None, before: bytes | None, elsewhere: bool, is_refused: bool
) -> None:
    block = SimpleNamespace(heads={b"# pgdyno change s1"}, names={"work_mem"})
    monkeypatch.setattr(kept_change, "block_of", lambda *_: block)
    path = Path("/data/drop-in.conf")
    bundle = SimpleNamespace(id="s1", written=lambda: None, content_of=lambda _: before, directory=Path("/undo/s1"))
    change = SimpleNamespace(path=Path("/data/main.conf") if elsewhere else path, merge=SimpleNamespace(data=found))
    route = SimpleNamespace(dropin=SimpleNamespace(path=path, read=lambda: found), changes=lambda: [change])
    refused = pytest.raises(RollbackError, match="whose the line of work_mem is") if is_refused else nullcontext()
    with refused:
        kept_change._refuse_unrecognised(cast(UndoBundle, bundle), cast(Any, route))


@pytest.mark.parametrize(
    ("data", "target", "is_kept", "found"),
    [
        ("/data", "db1", True, True),
        ("/other", "db1", True, False),
        ("/data", "db2", True, False),
        ("/data", "db1", False, False),
    ],
)
def test_a_change_is_on_the_same_server_by_its_directory_and_its_address(
    monkeypatch: pytest.MonkeyPatch, data: str, target: str, is_kept: bool, found: bool
) -> None:
    def bundle(data: str, target: str, is_kept: bool) -> Any:
        manifest = SimpleNamespace(data_directory=data, target=target)
        return SimpleNamespace(
            manifest=manifest, directory=Path("/undo/s1"), kept=lambda: {"kept": True} if is_kept else None
        )

    other = bundle(data, target, is_kept)

    def read(directory: Path) -> Any:
        if directory.name == "damaged":
            raise RollbackError("it cannot be read")
        return other

    monkeypatch.setattr(kept_change, "bundle_directories", lambda root: [root / "damaged", root / "s2"])
    monkeypatch.setattr(UndoBundle, "open", read)
    assert kept_change._kept_on_same_server(bundle("/data", "db1", True)) == [other] * found
