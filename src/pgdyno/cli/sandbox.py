"""`pgdyno sandbox`: start, stop, look at and remove the embedded servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pgdyno.sandbox.registry import SandboxRecord

_NAME = click.argument("name", default="default")
_BIN = click.option(
    "--sandbox-bin",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The bin folder of another PostgreSQL build.  [default: the embedded 18]",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("sandbox")
def command() -> None:
    """Start, stop and remove embedded PostgreSQL servers.

    A sandbox has a name, by default "default". The other verbs start it and stop it by themselves; start one here to
    look at it with psql. It listens on a Unix socket only.
    """


@command.command("start")
@_NAME
@_BIN
@_JSON
def start(name: str, sandbox_bin: Path | None, as_json: bool) -> None:
    """Start the server, creating it first if necessary; it runs until you stop it."""
    from pgdyno.sandbox.sandbox import Sandbox

    sandbox = Sandbox.open_or_create(name, bin_dir=sandbox_bin)
    try:
        sandbox.start()
    except BaseException:
        sandbox.close()
        raise
    sandbox.leave_running()
    _show(sandbox.record, as_json)


@command.command("stop")
@_NAME
@click.option("--immediate", is_flag=True, help="Without a checkpoint; the next start recovers.")
def stop(name: str, immediate: bool) -> None:
    """Stop the server and keep its data."""
    from pgdyno.sandbox import registry
    from pgdyno.sandbox.sandbox import Sandbox

    registry.record_of(name)
    with Sandbox.open_or_create(name) as sandbox:
        sandbox.stop("immediate" if immediate else "fast")
    click.echo(f'sandbox "{name}" is stopped', err=True)


@command.command("status")
@_NAME
@_JSON
def status(name: str, as_json: bool) -> None:
    """Say whether the server runs, what it is and how to connect."""
    from pgdyno.sandbox import registry

    _show(registry.record_of(name), as_json)


@command.command("list")
@_JSON
def list_(as_json: bool) -> None:
    """List all sandboxes."""
    from pgdyno.sandbox import registry

    facts = [_facts(record) for record in registry.list_records()]
    if as_json:
        click.echo(json.dumps(facts))
        return
    if not facts:
        click.echo("there is no sandbox; pgdyno sandbox start makes one", err=True)
    for fact in facts:
        state = f"runs, process {fact['pid']}" if fact["running"] else "is stopped"
        click.echo(f"{fact['name']}  PostgreSQL {fact['version']}  {state}")


@command.command("remove")
@_NAME
def remove(name: str) -> None:
    """Stop the server and remove the sandbox with its data."""
    from pgdyno.sandbox import registry
    from pgdyno.sandbox.sandbox import Sandbox

    registry.record_of(name)
    Sandbox.open_or_create(name).destroy()
    click.echo(f'sandbox "{name}" is removed', err=True)


@command.command("recreate")
@_NAME
@_BIN
def recreate(name: str, sandbox_bin: Path | None) -> None:
    """Delete the data and recreate the sandbox, with the same build or another; it is stopped afterwards."""
    from pgdyno.sandbox import registry
    from pgdyno.sandbox.sandbox import Sandbox

    registry.record_of(name)
    with Sandbox.open_or_create(name) as sandbox:
        sandbox.recreate(sandbox_bin)
        version = sandbox.record.version
    click.echo(f'sandbox "{name}" is new, with PostgreSQL {version}', err=True)


def _facts(record: SandboxRecord) -> dict[str, object]:
    from pgdyno.sandbox import cluster, registry
    from pgdyno.server import postmaster_lock

    data = registry.sandbox_dir(record.name) / "server" / "data"
    pid = postmaster_lock.postmaster_pid(data)
    return {
        "name": record.name,
        "version": record.version,
        "running": pid is not None,
        "pid": pid,
        "os_user": record.os_user,
        "connect": f"host={record.socket_dir} port={cluster.PORT} user={cluster.SUPERUSER} dbname=postgres",
        "data_directory": str(data),
        "log": str(data.parent / "server.log"),
        "bin_dir": record.bin_dir or "embedded",
    }


def _show(record: SandboxRecord, as_json: bool) -> None:
    facts = _facts(record)
    if as_json:
        click.echo(json.dumps(facts))
        return
    click.echo(f"sandbox  {facts['name']}, PostgreSQL {facts['version']} ({facts['bin_dir']})")
    click.echo(f"server   {'runs, process ' + str(facts['pid']) if facts['running'] else 'is stopped'}")
    click.echo(f'connect  psql "{facts["connect"]}"')
    click.echo(f"data     {facts['data_directory']}")
    click.echo(f"log      {facts['log']}")
