"""Keep how a server is started in an undo bundle, and take it up again in another process."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from pgdyno.control import CommandControl, Control, PatroniControl, PgCtl, PgCtlCluster, SystemdControl
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.runner import Runner
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.server.postgres import Postgres


def to_record(control: Control | None) -> dict[str, object] | None:
    """Return plain JSON values. Raises EnvironmentUnsuitable on a control whose start could not be repeated later."""
    if control is None:
        return None
    if isinstance(control, PgCtl):
        return {
            "kind": "pg_ctl",
            "bin_dir": str(control.bin_dir),
            "data_directory": str(control.data_directory),
            "log_file": str(control.log_file),
            "user": control.user,
            "timeout_s": control.timeout_s,
            "options": list(control.options),
            "env": dict(control.env),
            "cgroups": [str(path) for path in control.cgroups()],
        }
    if isinstance(control, PgCtlCluster):
        return {
            "kind": "pg_ctlcluster",
            "version": control.version,
            "cluster": control.cluster,
            "data_directory": str(control.data_directory),
            "log_file": None if control.log_file is None else str(control.log_file),
            "user": control.user,
            "timeout_s": control.timeout_s,
        }
    if isinstance(control, CommandControl):
        return {"kind": "command", "argv": list(control.argv), "timeout_s": control.timeout_s}
    if isinstance(control, SystemdControl):
        return {
            "kind": "systemd",
            "unit": control.unit,
            "data_directory": None if control.data_directory is None else str(control.data_directory),
            "sudo": control.sudo,
            "timeout_s": control.timeout_s,
        }
    if isinstance(control, PatroniControl):
        return {"kind": "patroni", "api": control.api.record(), "timeout_s": control.timeout_s}
    raise EnvironmentUnsuitable(f"a rollback could not start the server again by {type(control).__name__}")


def from_record(record: Mapping[str, object] | None, *, runner: Runner, postgres: Postgres) -> Control | None:
    """Rebuild the control. Raises KeyError or ValueError on a record that `to_record` did not make."""
    if record is None:
        return None
    kind, timeout_s = record["kind"], float(str(record["timeout_s"]))
    if kind == "pg_ctl":
        cgroups = tuple(Path(word) for word in _words(record["cgroups"]))
        return PgCtl(
            runner=runner,
            bin_dir=Path(str(record["bin_dir"])),
            data_directory=Path(str(record["data_directory"])),
            log_file=Path(str(record["log_file"])),
            user=None if record["user"] is None else str(record["user"]),
            timeout_s=timeout_s,
            options=_words(record["options"]),
            env=_pairs(record["env"]),
            cgroups=lambda: tuple(path for path in cgroups if path.is_dir()),
        )
    if kind == "pg_ctlcluster":
        log_file = record["log_file"]
        return PgCtlCluster(
            runner=runner,
            version=str(record["version"]),
            cluster=str(record["cluster"]),
            data_directory=Path(str(record["data_directory"])),
            log_file=None if log_file is None else Path(str(log_file)),
            timeout_s=timeout_s,
            user=None if record.get("user") is None else str(record["user"]),
        )
    if kind == "command":
        return CommandControl(argv=_words(record["argv"]), runner=runner, postgres=postgres, timeout_s=timeout_s)
    if kind == "systemd":
        folder = record["data_directory"]
        return SystemdControl(
            runner=runner,
            postgres=postgres,
            unit=str(record["unit"]),
            data_directory=None if folder is None else Path(str(folder)),
            sudo=bool(record["sudo"]),
            resets_limit=True,
            timeout_s=timeout_s,
        )
    if kind == "patroni":
        return PatroniControl(api=_api(record["api"]), postgres=postgres, timeout_s=timeout_s)
    raise ValueError(f"unknown control {kind!r}")


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
        return _patroni_command(_api(record["api"]))
    return shlex.join(word.replace("{action}", "restart") for word in _words(record["argv"]))


def _api(value: object) -> PatroniApi:
    if not isinstance(value, dict):
        raise ValueError("not the record of an API")
    return PatroniApi.from_record(value)


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
