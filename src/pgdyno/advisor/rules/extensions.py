"""The judge of the rule on pg_stat_statements: the list of libraries keeps what it holds."""

from __future__ import annotations

from pgdyno.advisor.case import Case
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Cost

LIBRARY = "pg_stat_statements"


def pg_stat_statements(case: Case) -> Judgement:
    """Ask for the library beside those that are loaded, and for the extension where it is missing.

    A library that is not installed would keep the server from starting: it is asked for in words only. The undo drops
    no extension that may have been there.
    """
    current = case.text("shared_preload_libraries")
    loaded = [name.strip().strip("'\"") for name in current.split(",") if name.strip()]
    created = case.server.extensions
    extension = isinstance(created, Unknown) or LIBRARY in created
    preloaded = any(name.rpartition("/")[2].removesuffix(".so") == LIBRARY for name in loaded)
    if preloaded and extension:
        return InOrder(f"shared_preload_libraries holds {LIBRARY}.")
    missing = "is not loaded" if not preloaded else "is loaded, but its extension is not created in this database"
    absent = _not_offered(case)
    if absent:
        return Fires(
            current=f"shared_preload_libraries = '{current}'",
            proposed="the contrib package first, then the library",
            values={"missing": missing},
            evidence=(f"{LIBRARY} {missing}.", *absent),
        )
    changes = []
    if not preloaded:
        changes.append(Change(ChangeKind.POSTGRESQL, "shared_preload_libraries", ",".join([*loaded, LIBRARY]), current))
    if isinstance(created, Unknown) or LIBRARY not in created:
        changes.append(
            Change(
                ChangeKind.DDL,
                commands=(f"CREATE EXTENSION IF NOT EXISTS {LIBRARY};",),
                undo=() if isinstance(created, Unknown) else (f"DROP EXTENSION IF EXISTS {LIBRARY};",),
            )
        )
    others = [name for name in loaded if name.rpartition("/")[2].removesuffix(".so") != LIBRARY]
    verb = "stays" if len(others) == 1 else "stay"
    kept = f"{', '.join(others)} {verb} loaded." if others else "No other library is loaded."
    return Fires(
        changes=tuple(changes),
        current=f"shared_preload_libraries = '{current}'",
        proposed=", then ".join(change.value or change.commands[0] for change in changes),
        values={"missing": missing},
        evidence=(f"{LIBRARY} {missing}. {kept}",),
        cost=Cost.NONE if preloaded else Cost.RESTART,
    )


def _not_offered(case: Case) -> tuple[str, ...]:
    offered = case.server.available_extensions
    if isinstance(offered, Unknown) or LIBRARY in offered:
        return ()
    return ("This installation does not offer it: install the contrib package first, or the server will not start.",)
