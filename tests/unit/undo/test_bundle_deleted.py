"""When a watchdog takes its bundle for deleted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.undo import watchdog


@pytest.mark.parametrize(
    ("named", "there", "expected"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_a_bundle_was_deleted_where_its_lock_has_no_name_and_its_folder_is_gone(
    tmp_path: Path, named: bool, there: bool, expected: bool
) -> None:
    bundle: Any = SimpleNamespace(directory=tmp_path if there else tmp_path / "gone")
    with (tmp_path / "lock").open("w") as lock:
        if not named:
            (tmp_path / "lock").unlink()
        assert watchdog._is_unlinked(bundle, lock.fileno()) is expected
