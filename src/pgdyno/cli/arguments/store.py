"""The flag that names the store, and the store that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags, flag
from pgdyno.cli.arguments.passwords import warn_of_password

if TYPE_CHECKING:
    from pgdyno.store.catalogue import Store


class StoreFlag(Flags):
    """The store that is meant."""

    store_url: str | None = flag(
        "Where measurements are kept.  [default: pgdyno.db in the data folder]",
        "--store",
        metavar="PATH|URL",
        envvar="PGDYNO_STORE",
        callback=warn_of_password,
    )


def open_store(url: str | None) -> Store:
    """Open the store that was asked for, or the user's own in the data folder; the end of the verb closes it."""
    from pgdyno.server import places
    from pgdyno.store.catalogue import Store

    store = Store.open(url or places.ensure(places.data_dir()) / "pgdyno.db")
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(store.close)
    return store
