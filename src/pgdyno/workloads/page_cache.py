"""Reading data that an earlier study left into the page cache, so that the first run is not the one that fills it.

A load that only reads keeps its database from study to study. After a reboot, or once the kernel has reclaimed what
nobody touched, its pages come from the disk one by one: of 919 MB read in scattered order a session needed 37 s for a
transaction that takes 0.1 s from memory, and no warm-up of a few seconds reaches past that. In their order on the disk
the same pages take seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.loading import LoadedShare
from pgdyno.server.postgres import query_error
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text, seconds_text
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.protocol import Progress, Workload

FITS_SHARE = 0.75
"""Of the server's memory: data that take more than this do not stay in the page cache beside everything else."""
CHUNK_BYTES = 8 << 20
"""What the server holds in memory at a time while it reads."""
BATCH_BYTES = 64 << 20
"""What one statement reads; between two of them progress is told and Ctrl-C is heard."""
WORTH_TELLING_S = 1.0

_FILES = """
SELECT pg_relation_filepath(oid) AS path, pg_relation_size(oid) AS bytes,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size')
           * current_setting('block_size')::bigint AS segment
FROM pg_class
WHERE oid >= 16384 AND relkind IN ('r', 'i', 't', 'm') AND pg_relation_size(oid) > 0
ORDER BY oid
"""
_READ = """
SELECT sum(length(pg_read_binary_file(%(path)s, from_byte, %(chunk)s, true))) AS bytes
FROM generate_series(%(begin)s::bigint, %(end)s::bigint - 1, %(chunk)s) AS from_byte
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a file of the data directory: `begin` and `end` are offsets in bytes, `end` is the first one after."""

    path: str
    begin: int
    end: int


def read_in(workload: Workload, target: Target, facts: Facts, *, policy: str, progress: Progress) -> int:
    """Read tables and indexes of the load's database in their order on disk; return the bytes that were read.

    The database is the one that an earlier study with `workload` left on `target`; `facts` has the server's memory in
    bytes. 0 where nothing is read: the database is cloned for each run (by `policy`, which is `LoadPlan.reset`) and in
    memory by that, the data do not fit, or the server's memory is not known. The server reads them itself, by
    pg_read_binary_file (a superuser, or EXECUTE on it in that database), so that a memory cgroup of the server counts
    them; shared_buffers and the statistics of reads stay as they are. A server that refuses ends nothing: the load runs
    all the same, and `progress` hears why its first runs may be cold. Raises ConnectError.
    """
    name = workload.kept_database(target, policy) if isinstance(workload, PgbenchWorkload) else None
    if name is None:
        return 0
    files = [
        (str(r["path"]), _whole(r["bytes"]), _whole(r["segment"])) for r in target.postgres.fetch(_FILES, None, name)
    ]
    size = sum(length for _, length, _ in files)
    if not fits(size, facts.host.memory_limit_bytes):
        return 0
    began, done = time.monotonic(), 0
    about = f"{workload.spec().name}: reading {bytes_text(size)} into the page cache"
    try:
        with target.postgres.connect(name) as session:
            for stretch in stretches(files):
                values = {"path": stretch.path, "begin": stretch.begin, "end": stretch.end, "chunk": CHUNK_BYTES}
                row = session.execute(_READ, values).fetchone()
                done += _whole((row or {}).get("bytes"))
                if time.monotonic() - began > WORTH_TELLING_S:
                    progress(LoadedShare(about, min(99, 100 * done // size)))
    except psycopg.Error as error:
        reason = query_error(target.postgres.label, error).message
        progress(f"{workload.spec().name}: the data are not read into the page cache: {reason}")
        return done
    if (spent := time.monotonic() - began) > WORTH_TELLING_S:
        progress(f"{workload.spec().name}: {bytes_text(done)} read into the page cache in {seconds_text(spent)}")
    return done


def fits(size: int, memory: int | Unknown) -> bool:
    """Return True where data of so many bytes stay in the page cache of a server with this memory."""
    return not isinstance(memory, Unknown) and 0 < size <= FITS_SHARE * memory


def stretches(files: list[tuple[str, int, int]]) -> Iterator[Stretch]:
    """Yield the parts to be read of relations given as path, length and segment size, each at most BATCH_BYTES long.

    A relation longer than its segments goes on in files of its name with .1, .2 and so on.
    """
    for path, length, segment in files:
        for number in range(-(-length // segment)):
            held = min(segment, length - number * segment)
            name = path if number == 0 else f"{path}.{number}"
            for begin in range(0, held, BATCH_BYTES):
                yield Stretch(name, begin, min(begin + BATCH_BYTES, held))


def _whole(value: object) -> int:
    return 0 if value is None else int(str(value))
