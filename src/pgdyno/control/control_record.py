"""Keep how a server is started in an undo bundle, and take it up again in another process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from pgdyno.control import CommandControl, Control, PatroniControl, PgCtl, PgCtlCluster, SystemdControl
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.shapes import Annotation, JsonMember, members_of, plain, shaped
from pgdyno.owner.runner import Runner
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.server.postgres import Postgres

_KINDS: Mapping[str, Callable[..., Control]] = {
    "pg_ctl": PgCtl,
    "pg_ctlcluster": PgCtlCluster,
    "command": CommandControl,
    "systemd": SystemdControl,
    "patroni": PatroniControl,
}
_NOT_KEPT = frozenset({"runner", "postgres", "clock", "sleep", "image", "resets_limit"})
"""What the process that starts the server brings with it, or has of its own."""
_IN_A_FORM = frozenset({"env", "cgroups"})


def to_record(control: Control | None) -> dict[str, object] | None:
    """Return plain JSON values. Raises EnvironmentUnsuitable on a control whose start could not be repeated later."""
    if control is None:
        return None
    word = next((word for word, kind in _KINDS.items() if type(control) is kind), None)
    if word is None:
        raise EnvironmentUnsuitable(f"a rollback could not start the server again by {type(control).__name__}")
    record: dict[str, object] = {one.name: plain(getattr(control, one.name)) for one in _kept(type(control))}
    if isinstance(control, PgCtl):
        record |= {"env": dict(control.env), "cgroups": [str(path) for path in control.cgroups()]}
    return {"kind": word, **record}


def from_record(record: Mapping[str, object] | None, *, runner: Runner, postgres: Postgres) -> Control | None:
    """Rebuild the control. Raises KeyError or ValueError on a record that `to_record` did not make."""
    if record is None:
        return None
    kind = _KINDS.get(str(record["kind"]))
    if kind is None:
        raise ValueError(f"unknown control {record['kind']!r}")
    values: dict[str, Any] = {
        one.name: shaped(one.hint, record[one.name], f"the control's {one.name}")
        for one in _kept(kind)
        if one.name in record or one.default is MISSING
    }
    if "cgroups" in record:
        cgroups = tuple(Path(word) for word in _words(record["cgroups"]))
        values |= {"env": _pairs(record["env"]), "cgroups": lambda: tuple(path for path in cgroups if path.is_dir())}
    handed = {"runner": runner, "postgres": postgres, "resets_limit": True}
    return kind(**values, **{one.name: handed[one.name] for one in members_of(kind) if one.name in handed})


def _kept(kind: Annotation) -> list[JsonMember]:
    return [one for one in members_of(kind) if one.name not in _NOT_KEPT | _IN_A_FORM]


def restart_command(record: Mapping[str, object] | None) -> str:
    """Return the shell command by which a person restarts the server, also when it is down."""
    if record is None:
        return "# restart PostgreSQL the way it is restarted on this machine"
    if record["kind"] == "pg_ctl":
        argv = [f"{record['bin_dir']}/pg_ctl", "-D", str(record["data_directory"]), "-l", str(record["log_file"])]
        options = _words(record["options"])
        argv += ["-o", shlex.join(options)] if options else []
        environment = [f"{name}={value}" for name, value in _pairs(record["env"])]
        argv = ["env", *environment, *argv] if environment else argv
        argv = ["runuser", "-u", str(record["user"]), "--", *argv] if record["user"] else argv
        return shlex.join([*argv, "-w", "-m", "fast", "restart"])
    if record["kind"] == "pg_ctlcluster":
        return shlex.join(["pg_ctlcluster", str(record["version"]), str(record["cluster"]), "restart", "-m", "fast"])
    if record["kind"] == "systemd":
        return shlex.join([*(["sudo"] if record["sudo"] else []), "systemctl", "restart", str(record["unit"])])
    if record["kind"] == "patroni":
        return _patroni_command(PatroniApi.from_record(record["api"]))
    return shlex.join(word.replace("{action}", "restart") for word in _words(record["argv"]))


def _patroni_command(api: PatroniApi) -> str:
    """Return curl's command for each endpoint; curl asks for the password itself when only a user is given."""
    asks = ["--user", "USER"] if api.auth_file is not None else []
    trusts = ["--cacert", str(api.ca_file)] if api.ca_file is not None else []
    return "; ".join(shlex.join(["curl", "-X", "POST", *asks, *trusts, f"{url}/restart"]) for url in api.endpoints)


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("not a list of words")
    return tuple(str(word) for word in value)


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError("not a mapping")
    return tuple((str(name), str(text)) for name, text in value.items())
