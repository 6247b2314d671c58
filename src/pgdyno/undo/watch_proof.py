"""Whether this process could put a server back, by its own means and before anything is changed.

Files: the undo can be read, the folders be written, the postmaster be signalled; no session is needed. Where SQL is
the only way in: a session, with the rights that the way back needs. Read-only on the server.
"""

from __future__ import annotations

from pathlib import Path

from pgdyno.control import CommandControl, Control, SystemdControl, control_record, sighup
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.owner.runner import LocalRunner
from pgdyno.routes import route_record
from pgdyno.routes.file_route import FileRoute
from pgdyno.routes.sql_route import SqlRoute
from pgdyno.server import sql_rights
from pgdyno.server.postgres import Postgres
from pgdyno.undo.bundle import UndoBundle


def obstacle(bundle: UndoBundle, postgres: Postgres) -> PgdynoError | None:
    """Return what would keep this process from restoring; None when nothing is seen that would."""
    try:
        _prove(bundle, postgres)
    except PgdynoError as error:
        return error
    except (OSError, KeyError, ValueError) as error:
        return EnvironmentUnsuitable(f"the undo of session {bundle.id} cannot be used", detail=str(error))
    return None


def _prove(bundle: UndoBundle, postgres: Postgres) -> None:
    control = control_record.from_record(bundle.manifest.control, runner=LocalRunner(), postgres=postgres)
    route = route_record.from_record(bundle, postgres)
    bundle.settings()
    if isinstance(route, FileRoute):
        _prove_files(bundle, control)
        return
    postgres.connect().close()
    route.leftovers()
    if isinstance(route, SqlRoute):
        sql_rights.check(postgres)


def _prove_files(bundle: UndoBundle, control: Control | None) -> None:
    hands = bundle.hands()
    for image in bundle.manifest.images:
        bundle.content(image)
        folder = Path(image.path).parent
        if not hands.may_write(folder):
            raise EnvironmentUnsuitable(
                f'"{image.path}" could not be put back: "{folder}" cannot be written',
                hint="Run pgdyno as the owner of the configuration files, or let the server's account write there.",
            )
    try:
        sighup.require_right(Path(bundle.manifest.data_directory))
    except PermissionError as error:
        if not _tells(control):
            raise EnvironmentUnsuitable(
                f'the server in "{bundle.manifest.data_directory}" takes no signal of this user',
                hint="Run pgdyno as the server's own user or as root.",
            ) from error


def _tells(control: Control | None) -> bool:
    """Tell whether a control makes the server read its files without a session."""
    if isinstance(control, CommandControl):
        return control.takes_action
    return isinstance(control, SystemdControl) and control.state().can_reload
