"""Take up again the route that an undo bundle names."""

from __future__ import annotations

from pgdyno.routes import file_route, mixed_route, patroni_route, sql_route
from pgdyno.routes.patroni_route import PatroniRoute
from pgdyno.routes.route import Route
from pgdyno.routes.sql_route import SqlRoute
from pgdyno.server.postgres import Postgres
from pgdyno.undo.bundle import UndoBundle


def from_record(bundle: UndoBundle, postgres: Postgres) -> Route:
    """Rebuild the route of a bundle. Raises KeyError or ValueError on a record that no route made."""
    record = bundle.manifest.route
    if record["kind"] in (file_route.KIND, mixed_route.KIND):
        return mixed_route.from_record(record, bundle, postgres)
    if record["kind"] == sql_route.KIND:
        return SqlRoute.from_record(record, postgres=postgres, written=bundle.written())
    if record["kind"] == patroni_route.KIND:
        return PatroniRoute.from_record(record, postgres=postgres, written=bundle.written())
    raise ValueError(f"unknown route {record['kind']!r}")
