"""The flags that several verbs share: target, workload, load and store."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgdyno.cli.arguments.bounds import bounds_options
from pgdyno.cli.arguments.flags import F, Flags, stack
from pgdyno.cli.arguments.numbers import Time
from pgdyno.model.matrix import BUILTIN, MODES

if TYPE_CHECKING:
    from pgdyno.model.trial import LoadPlan
    from pgdyno.remote.deploy import HostRequest
    from pgdyno.store.catalogue import Store
    from pgdyno.studies.session.target_request import TargetRequest


class WorkloadName(click.Choice[str]):
    """A workload by name: one of pgdyno's own, or one that an installed package offers."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises BadParameter for one that nobody offers."""
        if value not in self.choices:
            from pgdyno.workloads.registry import is_installed

            if is_installed(value):
                return value
        return super().convert(value, param, ctx)


def _warned(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Warn of a password on the command line: pgdyno keeps it to itself, but every user of the host can read it."""
    typed = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    if value and typed and ("@" in value or "password" in value.lower()):  # else without the wait for psycopg
        from pgdyno.server.postgres import redact

        if redact(value) != value:
            place = "~/.pgpass, the file of PGPASSFILE, or a service file"
            flag = parameter.opts[0]
            click.echo(f"warning: the password in {flag} is seen by every user of this host who runs ps", err=True)
            click.echo(f"hint: Put it into {place}, and leave it out of {flag}.", err=True)
    return value


def host_options(function: F) -> F:
    """Add the flags that name a database host."""
    return stack(
        function,
        [
            click.option(
                "--host",
                metavar="ssh://[USER@]HOST",
                help="The server's host, by your own ssh; --target is as seen from there.",
            ),
            click.option("--sudo-user", metavar="USER", help="Work on --host as this user, such as postgres, by sudo."),
            click.option("--sudo", is_flag=True, help="Work on --host as root, by sudo."),
        ],
    )


def target_options(function: F) -> F:
    """Add the flags that name the server."""
    return stack(
        host_options(function),
        [
            click.option(
                "--target",
                metavar="CONNINFO",
                callback=_warned,
                help="A server, as libpq names it: URI, key=value or a service.",
            ),
            click.option(
                "--restart-command",
                metavar="ARGV",
                help="How to restart --target, as one quoted argument list; no shell.",
            ),
            click.option(
                "--patroni",
                multiple=True,
                metavar="URL",
                help="Patroni's API, such as http://db1:8008: settings and restarts go through it; may be given again.",
            ),
            click.option(
                "--patroni-auth",
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="File with user:password of Patroni's API.  [default: PGDYNO_PATRONI_AUTH]",
            ),
            click.option(
                "--patroni-ca",
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="Certificate of the authority that signed Patroni's.",
            ),
            click.option(
                "--patroni-cert",
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="Our certificate with its key, where Patroni's API asks for one.",
            ),
            click.option(
                "--sql-only",
                is_flag=True,
                help="Use nothing but SQL on --target: settings by ALTER SYSTEM, its host is not looked at.",
            ),
            click.option(
                "--sandbox", metavar="NAME", default="default", show_default=True, help="Which sandbox to use."
            ),
            click.option(
                "--sandbox-bin",
                metavar="DIR",
                type=click.Path(path_type=Path),
                help="bin folder of another PostgreSQL build for the sandbox (13 to 18).",
            ),
            click.option(
                "--sandbox-memory",
                metavar="SIZE",
                help="Bound the sandbox's server to this much memory, page cache included, such as 1GB; needs root.",
            ),
            click.option(
                "--keep/--discard", default=True, help="Keep the sandbox afterwards, or remove it.  [default: keep]"
            ),
        ],
    )


def names_a_server(request: TargetRequest) -> bool:
    """Tell whether flags or the environment named a server, a sandbox by its name included."""
    context = click.get_current_context()
    typed = context.get_parameter_source("sandbox") is ParameterSource.COMMANDLINE
    return typed or request.dsn is not None or request.host is not None or bool(request.patroni)


def workload_options(function: F) -> F:
    """Add the flags that say what is run, how it is driven, and what disturbs it."""
    return stack(
        bounds_options(function),
        [
            click.option(
                "--workload",
                "-w",
                type=WorkloadName(MODES),
                default="tpcb-like",
                show_default=True,
                help="What is run.",
            ),
            click.option(
                "--param",
                "-D",
                "params",
                multiple=True,
                metavar="NAME=VALUE",
                help="A parameter of the workload, such as scale=50 or tab_rows=1e6; may be given again.",
            ),
            click.option(
                "--script",
                "scripts",
                multiple=True,
                metavar="FILE[@WEIGHT]",
                help="A pgbench script of workload custom.",
            ),
            click.option(
                "--init", metavar="FILE", type=click.Path(path_type=Path), help="SQL that loads custom's data."
            ),
            click.option(
                "--clients", "-c", type=click.IntRange(1), default=None, help="Sessions.  [default: the host's cores]"
            ),
            click.option(
                "--jobs",
                "-j",
                type=click.IntRange(1),
                default=None,
                help="pgbench threads.  [default: 1 for 8 clients]",
            ),
            click.option(
                "--protocol",
                "-M",
                type=click.Choice(["simple", "extended", "prepared"]),
                default="prepared",
                show_default=True,
                help="pgbench's query protocol.",
            ),
            click.option(
                "--rate",
                "-R",
                type=click.FloatRange(0, min_open=True),
                help="Open loop: transactions per second to schedule.",
            ),
            click.option("--connect-each", "-C", is_flag=True, help="A new connection for each transaction."),
            click.option(
                "--warmup",
                type=Time("s", 0),
                default=20.0,
                show_default=True,
                help="Longest warm-up, in seconds.",
            ),
            click.option(
                "--measure",
                type=Time("s", 2),
                default=30.0,
                show_default=True,
                help="Measured window, in seconds.",
            ),
            click.option(
                "--reset",
                type=click.Choice(["auto", "always", "never"]),
                default="auto",
                show_default=True,
                help="When the data is cloned anew: auto is before each trial of a load that writes.",
            ),
            click.option("--load-seed", type=int, help="pgbench's random seed.  [default: drawn for each run]"),
        ],
    )


def guard_options(function: F) -> F:
    """Add the flags that set the guards."""
    return stack(
        function,
        [
            click.option(
                "--guard",
                "guards",
                multiple=True,
                metavar="NAME=VALUE",
                help="Where a guard trips, such as disk=2GB or errors=20%, or NAME=off; see pgdyno guards.",
            ),
            click.option(
                "--guard-trips",
                type=click.IntRange(1),
                default=3,
                show_default=True,
                help="How many configurations guards may reject before the study ends.",
            ),
        ],
    )


def store_option(function: F) -> F:
    """Add the flag that names the store."""
    return stack(
        function,
        [
            click.option(
                "--store",
                "store_url",
                metavar="PATH|URL",
                envvar="PGDYNO_STORE",
                callback=_warned,
                help="Where measurements are kept.  [default: pgdyno.db in the data folder]",
            )
        ],
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


def target_request(flags: Flags) -> TargetRequest:
    """Build the target request; PG* variables name a server as they do for psql when no --target is given."""
    from pgdyno.studies.session.target_request import TargetRequest

    target, restart, host = flags.text("target"), flags.text("restart_command"), host_request(flags)
    if target is None and host is None and any(os.environ.get(name) for name in ("PGHOST", "PGSERVICE", "PGHOSTADDR")):
        target = ""
    patroni = flags.words("patroni")
    if patroni and target is None:
        target = ""
    return TargetRequest(
        dsn=target,
        restart_command=restart_words(restart),
        sandbox=flags.choice("sandbox"),
        sandbox_bin=flags.path("sandbox_bin"),
        keep=flags.on("keep"),
        host=None if host is None else str(host.address),
        sudo_user=None if host is None else host.sudo_user,
        patroni=patroni,
        patroni_auth=_absolute(flags.path("patroni_auth")),
        patroni_ca=_absolute(flags.path("patroni_ca")),
        patroni_cert=_absolute(flags.path("patroni_cert")),
        sql_only=flags.on("sql_only"),
        sandbox_memory=_memory(flags.text("sandbox_memory")),
        keep_data="keep_data" in flags.values and flags.on("keep_data"),
    )


def _memory(text: str | None) -> int | None:
    from pgdyno.errors import UsageError
    from pgdyno.units import parse_quantity

    if text is None:
        return None
    size = parse_quantity(text, "B")
    if size <= 0:
        raise UsageError(
            f'--sandbox-memory "{text}" is not an amount of memory', hint="Write it as --sandbox-memory 1GB."
        )
    return int(size)


def host_request(flags: Flags) -> HostRequest | None:
    """Build the request of a database host; None without --host."""
    from pgdyno.errors import UsageError

    host, user = flags.text("host"), flags.text("sudo_user") or ("root" if flags.on("sudo") else None)
    if host is None:
        if user is not None:
            raise UsageError("--sudo and --sudo-user are for another host", hint="Name it with --host ssh://user@db1.")
        return None
    from pgdyno.remote.address import HostAddress  # what ssh needs: loaded for another host alone
    from pgdyno.remote.deploy import HostRequest

    return HostRequest(HostAddress.parse(host), user)


def _absolute(path: Path | None) -> Path | None:
    """Return the path from any folder: a resumed study and a rollback read the file again."""
    return None if path is None else path.absolute()


def workload_parameters(flags: Flags) -> dict[str, str | int | float | bool]:
    """Read -D NAME=VALUE, --script and --init into the workload's parameters."""
    from pgdyno.cli.arguments.planned import planned_parameters
    from pgdyno.errors import UsageError

    parameters = planned_parameters(flags.values.get("workload"))
    for word in flags.words("params"):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f'parameter "{word}" is not NAME=VALUE', hint="Write it as -D scale=50.")
        parameters[name] = _typed(value)
    given = [name for name in ("scripts", "init") if flags.values[name]]
    if given and flags.values.get("workload", "custom") != "custom":  # a matrix has modes instead
        raise UsageError(f"--{given[0].removesuffix('s')} is for workload custom", hint="Add --workload custom.")
    if flags.words("scripts"):
        parameters["scripts"] = ",".join(_absolute_script(word) for word in flags.words("scripts"))
    if flags.path("init") is not None:
        parameters["init"] = str(Path(flags.choice("init")).absolute())
    return parameters


def _absolute_script(word: str) -> str:
    """Return the script's absolute path, so that a study is resumed from any folder; a built-in's name stays."""
    path = word.rpartition("@")[0] or word
    return word if path in BUILTIN or not path else str(Path.cwd() / word)


def restart_words(text: str | None) -> tuple[str, ...] | None:
    """Return the words of --restart-command. Raises UsageError when a quote has no end."""
    from pgdyno.errors import UsageError

    try:
        return tuple(shlex.split(text)) if text else None
    except ValueError as error:
        raise UsageError(
            f'--restart-command "{text}": {str(error).lower()}', hint="Close each quote: 'sudo systemctl restart db'."
        ) from error


def _typed(value: str) -> str | int | float | bool:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        number = float(value)
    except ValueError:
        return value
    if not abs(number) < _BEYOND:  # nan, too
        return value
    return int(number) if number.is_integer() else number


_BEYOND = 1e15


def load_plan(flags: Flags) -> LoadPlan:
    """Build the load plan; clients default to the host's cores. Raises UsageError where it is too short."""
    from pgdyno.model.trial import LoadPlan, check_length

    check_length(flags.real("warmup"), flags.real("measure"))
    cores = os.cpu_count() or 1
    clients = int(flags.number("clients") or cores)
    seed = flags.number("load_seed")
    return LoadPlan(
        clients=clients,
        jobs=int(flags.number("jobs") or max(1, min(clients // 8, cores))),
        warmup_s=flags.real("warmup"),
        measure_s=flags.real("measure"),
        protocol=flags.choice("protocol"),
        rate=flags.number("rate"),
        connect_each=flags.on("connect_each"),
        reset=flags.choice("reset"),
        seed=None if seed is None else int(seed),
    )
