"""The words of the programs that an upgrade by pg_upgrade runs, and the settings of its two clusters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outside.quoting import conf_line

COPY, LINK, SWAP = "copy", "link", "swap"
MODES = (COPY, LINK, SWAP)
SWAP_SINCE = CHECKSUMS_SINCE = STATISTICS_SINCE = 18
PORT = 5432
HBA = "local all all trust\n"
"""The socket is in a folder that nobody but the clusters' owner may enter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """What pg_upgrade wants alike in both clusters. `segment` is the size of a WAL file in bytes."""

    superuser: str
    encoding: str
    collation: str
    type: str
    provider: str = "c"
    """As pg_database has it: c of libc, i of ICU, b of PostgreSQL itself."""
    locale: str | None = None
    checksums: bool
    segment: int


def initdb_words(program: str, folder: Path, shape: ClusterShape, major: int) -> list[str]:
    """Return what makes a cluster of this shape by initdb of version `major`.

    `program` is the path of initdb, `folder` the data directory to make; `shape` is what the old cluster has.
    """
    words = [program, f"--pgdata={folder}", f"--username={shape.superuser}", "--auth-local=trust", "--auth-host=reject",
             f"--encoding={shape.encoding}", "--locale=C", f"--lc-collate={shape.collation}",
             f"--lc-ctype={shape.type}", f"--wal-segsize={shape.segment >> 20}"]  # fmt: skip
    if shape.provider != "c":
        name, option = {"i": ("icu", "--icu-locale"), "b": ("builtin", "--builtin-locale")}[shape.provider]
        words += [f"--locale-provider={name}", f"{option}={shape.locale}"]
    if shape.checksums:
        words.append("--data-checksums")
    elif major >= CHECKSUMS_SINCE:  # which has them unless told otherwise
        words.append("--no-data-checksums")
    return words


def upgrade_words(
    program: str, bins: tuple[Path, Path], data: tuple[Path, Path], superuser: str, sockets: Path, *,
    mode: str, jobs: int, check: bool = False,
) -> list[str]:  # fmt: skip
    """Return the words of pg_upgrade; `bins` and `data` are of the old cluster and the new one.

    `program` is its path, `superuser` the bootstrap superuser of both, and `sockets` the folder of their sockets.
    `mode` is one of MODES and `jobs` how many processes work at a time; with `check` the clusters are only checked.
    """
    words = [program, f"--old-bindir={bins[0]}", f"--new-bindir={bins[1]}", f"--old-datadir={data[0]}",
             f"--new-datadir={data[1]}", f"--username={superuser}", f"--socketdir={sockets}",
             f"--old-port={PORT}", f"--new-port={PORT}", f"--jobs={jobs}"]  # fmt: skip
    return words + ([] if mode == COPY else [f"--{mode}"]) + (["--check"] if check else [])


def analyze_words(program: str, superuser: str, sockets: Path, jobs: int, major: int) -> dict[str, list[str]]:
    """Return by item the runs of vacuumdb after an upgrade to `major`; 18 brings most statistics along.

    `program` is its path. It connects as `superuser` by the socket in the folder `sockets`, with `jobs` sessions.
    """
    words = [program, "--all", f"--host={sockets}", f"--port={PORT}", f"--username={superuser}", "--no-password",
             f"--jobs={jobs}"]  # fmt: skip
    if major < STATISTICS_SINCE:
        return {"statistics": [*words, "--analyze-in-stages"]}
    return {
        "statistics that are missing": [*words, "--analyze-in-stages", "--missing-stats-only"],
        "statistics": [*words, "--analyze-only"],
    }


def settings_text(sockets: Path, tag: str, locks: int) -> str:
    """Return the settings that keep a cluster to itself: no TCP, no archive, and subscriptions that ask nobody."""
    settings = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "cluster_name": tag.encode("ascii", "replace").decode(),
        "logging_collector": "off",
        "log_destination": "stderr",
        "archive_mode": "off",
        "max_logical_replication_workers": "0",
        "max_locks_per_transaction": str(locks),
    }
    lines = ("", "# Written by pgdyno: a copy for a rehearsal.", *(conf_line(*one) for one in settings.items()))
    return "".join(f"{line}\n" for line in lines)


def require_versions(source: int, target: int, options: Mapping[str, str]) -> None:
    """Raise EnvironmentUnsuitable where one major version is not upgraded to another in this mode."""
    if target == source:
        raise EnvironmentUnsuitable(
            f"source and target are both PostgreSQL {source}: there is nothing to upgrade",
            hint="Name a target of a newer version, or use mover dump.",
        )
    if target < source:
        raise EnvironmentUnsuitable(
            f"the target is PostgreSQL {target}, older than the source's {source}",
            hint="pg_upgrade only goes to a newer version.",
        )
    if options.get("mode") == SWAP and target < SWAP_SINCE:
        raise EnvironmentUnsuitable(
            f'mode "swap" needs pg_upgrade of PostgreSQL {SWAP_SINCE} or later, and the target is {target}',
            hint='Write mode = "link".',
        )


def way_back_words(mode: str) -> str:
    """Return what is left to go back to."""
    said = "the source is untouched, because a copy of it was upgraded: keep using it"
    if mode == COPY:
        return said
    how = "are linked into" if mode == LINK else "are moved into"
    return (
        f"{said}. With mode {mode} the files of the old cluster {how} the new one: the copy of the old cluster is "
        "unusable afterwards, and in the real migration the old cluster will be; only a backup leads back to it"
    )
