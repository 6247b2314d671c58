"""What a database driver said, as an error that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pgdyno.errors import StoreError
from pgdyno.store.holder import holder_text

_OTHER = "Name another store with --store URL or PGDYNO_STORE."
_LOCKED = ("database is locked", "database table is locked", "database schema is locked")
_CAUSES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        _LOCKED,
        "is locked by another program",
        "Wait until it is done, or see who holds the file with fuser.",
    ),
    (
        ("disk is full",),
        "has no room left on its disk",
        "Free some space; finished trials are safe, and a study goes on with --resume.",
    ),
    (
        ("readonly database", "read-only file system"),
        "cannot be written",
        f"Give this user write permission to the file and its folder. {_OTHER}",
    ),
    (
        ("unable to open database file",),
        "cannot be opened",
        f"Check that its folder exists and that this user may write there. {_OTHER}",
    ),
    (
        ("file is not a database", "malformed", "file is encrypted", "unsupported file format"),
        "is damaged, or not a store",
        f"Move the file away, or rescue it with sqlite3 FILE .recover. {_OTHER}",
    ),
    (
        ("disk i/o error",),
        "could not be read or written by the operating system",
        "Look for disk errors and limits on file size with dmesg and ulimit -a.",
    ),
    (
        ("a finished trial never changes",),
        "does not let a finished trial be changed",
        "Run the trial again: a new one gets a new id.",
    ),
    (
        ("permission denied for", "insufficient privilege", "must be owner"),
        "does not let this role do that",
        "Grant the role CREATE on the schema, or name a database of its own with --store URL.",
    ),
    (
        ("connection", "could not translate host", "password authentication", "does not exist"),
        "cannot be reached",
        "Try the same address with psql; the password belongs in ~/.pgpass or PGPASSWORD.",
    ),
)


def label(url: URL) -> str:
    """Return how messages name the store: the path of the file, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return url.database or "in memory"
    return url.render_as_string(hide_password=True)


def explain(name: str, error: SQLAlchemyError) -> StoreError:
    """Return the error for what the driver said; the driver's own words become the detail."""
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    lower = said.lower()
    for words, problem, hint in _CAUSES:
        if any(word in lower for word in words):
            detail = said.strip()
            if words is _LOCKED and (holder := holder_text(name)) is not None:
                detail = f"{holder} holds it"
            return StoreError(f'store "{name}" {problem}', detail=detail, hint=hint)
    return StoreError(
        f'store "{name}" refused a statement',
        detail=said.strip(),
        hint="Name another store with --store PATH|URL; pgdyno bundle export takes studies there.",
    )


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what the driver raises inside into a StoreError that names the store and says what to do."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(name, error) from error
    except JSONDecodeError as error:  # of a JSON column, while its row is fetched
        raise StoreError(f'store "{name}" holds a value that is no JSON', detail=str(error), hint=_OTHER) from error
