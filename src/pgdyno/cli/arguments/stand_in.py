"""Flags that stand for a server that cannot be asked, checked alike by every verb that takes them."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import UsageError


def check_stand_in(conf: Path | None, settings: Path | None, version: str | None) -> None:
    """Refuse flags that do not fit each other. A list of settings may come without a version, a postgresql.conf never.

    Raises UsageError.
    """
    if conf is not None and settings is not None:
        raise UsageError(
            "--pg-conf and --pg-settings cannot be used together", hint="Give only --pg-settings, which has more."
        )
    if conf is not None and version is None:
        raise UsageError("--pg-conf and --pg-version go together", hint="Write --pg-conf FILE --pg-version 16.")
    if version is not None and conf is None and settings is None:
        raise UsageError(
            "--pg-version is for --pg-conf and --pg-settings",
            hint="Write --pg-conf FILE --pg-version 16; a live server reports its own.",
        )
