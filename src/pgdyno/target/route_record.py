"""Take up again the route that an undo bundle names."""

from __future__ import annotations

from pgdyno.target import file_route
from pgdyno.target.bundle import UndoBundle
from pgdyno.target.file_route import FileRoute
from pgdyno.target.postgres import Postgres
from pgdyno.target.route import Route


def from_record(bundle: UndoBundle, postgres: Postgres) -> Route:
    """Rebuild the route of a bundle. Raises KeyError or ValueError on a record that no route made."""
    record = bundle.manifest.route
    if record["kind"] == file_route.KIND:
        return FileRoute.from_record(record, bundle)
    raise ValueError(f"unknown route {record['kind']!r}")
