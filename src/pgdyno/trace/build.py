"""Build a trace of logs: segments are read and paired one after another, and one external sort writes the file.

Memory does not grow with the log: texts are in DuckDB, which spills beside the output; between two segments only open
statements and a few numbers of each session that has not ended are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.outside.files import read_bytes
from pgdyno.trace.capture_record import RECORD, CaptureRecord, parse_record
from pgdyno.trace.compiled_builder import OddLog, build_compiled, unsuitable
from pgdyno.trace.fingerprints import check_parser, fingerprint, takes_values, tree
from pgdyno.trace.found import FoundLoad, checked, cut_values, meta_of, with_changes_alone
from pgdyno.trace.keys.commits import read_commits
from pgdyno.trace.lines import CSV_COLUMNS, csv_source, events_query, json_source
from pgdyno.trace.logs import SEGMENT, Log, Segment, codec, count_records, look, salvage, segments
from pgdyno.trace.pairing import NONE, D, Events, N, Paired, Pairing, R, SeenSession, T, U
from pgdyno.trace.parquet import (
    DICTIONARY,
    MEMORY_MB,
    bad_input,
    connection,
    let_take,
    no_records,
    sort_mb,
    work_folder,
    write_meta,
    write_parquet,
)
from pgdyno.trace.refusals import judge
from pgdyno.trace.rows import KEYED, PART, PEOPLE, REFUSED, SETUP, final_query, implied_end, values_queries
from pgdyno.trace.schema import Lost, TraceMeta
from pgdyno.trace.stderr_log import StderrReader, in_order
from pgdyno.trace.zones import numeric, offsets, unknown_zone

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

_COMMON = 8 << 20
"""Bytes of a record above which DuckDB is given more memory."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How logs are to be read."""

    encodings: Mapping[str, str] = field(default_factory=dict)
    """Python's names of encodings, by database."""
    log_timezone: str | None = None
    prefix: str | None = None
    """log_line_prefix of logs to stderr."""
    captured_level: float = 100.0
    allow_truncated: bool = False
    record: CaptureRecord | None = None
    """What pgdyno kept beside the log when it captured it."""
    commits: Path | None = None
    """The file of its commit order."""
    segment: int = SEGMENT
    builder: str | None = None
    """`python` or `compiled`; None takes the compiled one where it can."""
    tell: Callable[[str], None] = lambda words: None
    """Is told which builder made the trace, and why it was that one."""


def build_trace(paths: Sequence[Path], out: Path, options: BuildOptions) -> TraceMeta:
    """Write NAME.parquet and NAME.json of logs; return the facts. Both are whole or not there.

    Raises UsageError for logs that cannot be read, and for such as hold no statement.
    """
    check_parser()
    stderr = None if options.prefix is None else StderrReader(options.prefix, options.encodings)
    given, options = _given(paths, options)
    logs = in_order(given, stderr)
    with work_folder(out) as folder:
        found, digest = _built(logs, stderr, folder, out, options)
    found = with_changes_alone(found, options.record, out)
    meta = meta_of(found, logs[0].format, options.record, captured_level=options.captured_level, digest=digest)
    write_meta(out, meta)
    return meta


def _built(
    logs: list[Log], stderr: StderrReader | None, folder: Path, out: Path, options: BuildOptions
) -> tuple[FoundLoad, str]:
    """Write the trace by one builder or the other; return what was found, and the digest of the file."""

    def check(found: FoundLoad) -> FoundLoad:
        return checked(found, options.record, allow_truncated=options.allow_truncated)

    why = "as asked for" if options.builder == "python" else unsuitable(logs, options.encodings, options.commits)
    if why is None:
        try:
            zone, segment = options.log_timezone, options.segment
            built = build_compiled(logs, folder, out, log_timezone=zone, segment=segment, check=check)
        except OddLog as odd:
            why = f"the compiled one leaves this log to it, as {odd}"
        else:
            options.tell("the compiled builder")
            return built
    if options.builder == "compiled":
        raise EnvironmentUnsuitable(
            "the compiled builder cannot read this", detail=why, hint="Leave it out: the Python builder can."
        )
    with connection(folder, keeps_memory=True) as db:
        db.execute("SET preserve_insertion_order = true")  # carried lines stand before the others
        db.execute("SET disabled_optimizers = 'build_side_probe_side'")  # rows are many, what is joined to them is not
        db.execute("SET enable_external_file_cache = false")  # segments are read once, parts twice
        builder = _Builder(db, folder, options, stderr)
        for log in logs:
            builder.read(log)
        builder.end()
        found = builder.found()
        found = builder.place_keys(check(found))
        built = found, builder.write(out, found)
    options.tell(f"the Python builder: {why}")
    return built


def _given(paths: Sequence[Path], options: BuildOptions) -> tuple[list[Log], BuildOptions]:
    """Return the logs that paths name; the folder of a capture also says what they are of."""
    if len(paths) != 1 or not paths[0].is_dir():
        return [look(path) for path in paths], options
    folder = paths[0]
    try:
        record = parse_record(read_bytes(folder / RECORD), str(folder / RECORD))
    except (OSError, ValueError) as error:
        hint = "Name files, or a folder that pgdyno capture start printed."
        raise UsageError(f'"{folder}" is not the folder of a capture', detail=str(error), hint=hint) from error
    encodings = {one.name: codec(one.encoding) for one in record.databases if one.encoding not in ("UTF8", "SQL_ASCII")}
    logs = list[Log]()
    for one in record.logs:
        if one.copy is None:
            logs.append(look(Path(one.path), one.begin, one.end))
        elif Path(one.copy).name == one.copy:
            logs.append(look(folder / one.copy))
        else:
            raise UsageError(f'"{folder / RECORD}" names the copy "{one.copy}", which is not in its folder')
    commits = None if record.commits is None else folder / Path(record.commits).name
    return logs, replace(options, encodings=encodings | dict(options.encodings), record=record, commits=commits)


class _Builder:
    """Holds what is known between two segments."""

    def __init__(self, db: Connection, folder: Path, options: BuildOptions, stderr: StderrReader | None) -> None:
        self.stderr = stderr
        self.db, self.folder, self.options = db, folder, options
        self.pairing = Pairing()
        self.zones = dict[str, int]()
        self.kinds = dict[str, int]()
        self.lost = Lost()
        self.parts = 0
        self.lines = 0
        """Of the segment at hand, with those carried into it."""
        self.carried = 0
        self.doubtful = 0
        self.most_mb = 0
        """What records beyond the common length need."""
        self.last_t = 0
        self.quickest = (1 << 63) - 1
        self.starts: list[int] = []
        """When the server came up again, after which no session of before was there."""

    def read(self, log: Log) -> None:
        """Read a log after those that were before it."""
        if not self.zones:
            self.zones = offsets(self.options.log_timezone, int(log.first[:4]))
        size = self.options.segment
        if log.format == "stderr" and self.stderr is not None:
            found = self.stderr.segments(log, self.folder, size=size)
        else:
            found = segments(log, self.options.encodings, size=size)
        for segment in found:
            self._take(segment, log.path)

    def _take(self, segment: Segment, path: Path) -> None:
        if segment.format == "csvlog" and segment.columns not in CSV_COLUMNS:
            raise UsageError(f'log "{path}": a record has {segment.columns} fields', hint="A csvlog has 23 to 26.")
        source = self._source(segment)
        records: int | None = None
        try:
            self._load(events_query(source, self.zones))
        except bad_input():
            records = count_records(segment)
            source = self._source(salvage(segment))  # what it leaves out is missing in the count below
            try:
                self._load(events_query(source, self.zones))
            except no_records() as error:
                raise UsageError(
                    f'log "{path}" cannot be read as {segment.format}',
                    detail=str(error).partition("\n")[0],
                    hint="Name the file as the server wrote it: with its line ends, and not edited.",
                ) from error
        while odd := self.db.execute("SELECT DISTINCT zone FROM events WHERE zone IS NOT NULL").fetchall():
            for (name,) in odd:
                seconds = numeric(name)
                if seconds is None or name in self.zones:
                    raise unknown_zone(name)
                self.zones[name] = seconds
            self._load(events_query(source, self.zones))
        unread = 0
        if (read := self.lines - self.carried) < segment.records:
            unread = max((count_records(segment) if records is None else records) - read, 0)
        self.lost = replace(self.lost, unreadable=self.lost.unreadable + unread + segment.unreadable)
        self._pair(is_last=False)

    def _source(self, segment: Segment) -> str:
        """Return the FROM of a segment, and let its longest record have memory."""
        if segment.longest > _COMMON:
            self.most_mb = max(self.most_mb, 12 * segment.longest >> 20)
            let_take(self.db, max(MEMORY_MB, self.most_mb))
        if segment.format == "jsonlog":
            return json_source(str(segment.path), segment.longest)
        return csv_source(str(segment.path), segment.columns, segment.longest)

    def _load(self, query: str) -> None:
        carried = "SELECT * FROM carry UNION ALL " if self.carried else ""
        self.lines = self._number(f"CREATE OR REPLACE TEMP TABLE events AS {carried}({query})")

    def _number(self, query: str) -> int:
        """Return the number of rows that a command wrote."""
        return int(self.db.execute(query).fetchall()[0][0])

    def end(self) -> None:
        """Pair what is left open."""
        if self.carried:
            self.lines = self._number("CREATE OR REPLACE TEMP TABLE events AS SELECT * FROM carry")
            self._pair(is_last=True)
        if self.stderr is not None:
            self.lost = replace(self.lost, unreadable=self.lost.unreadable + self.stderr.unreadable)
        self._retire(list(self.pairing.sessions.values()))

    def _pair(self, *, is_last: bool) -> None:
        if not self.parts:
            for command in SETUP:
                self.db.execute(command)
        found = self.db.execute(
            "SELECT rowid AS rid, sid, n, t, ascii(kind)::BIGINT AS kind, dur, vx, xid, ctl::BIGINT AS ctl, h"
            " FROM events WHERE sid IS NOT NULL AND n IS NOT NULL AND t IS NOT NULL"
        ).fetchnumpy()
        lines = Events(**{name: np.asarray(column, np.int64) for name, column in found.items()})
        self.lost = replace(self.lost, unreadable=self.lost.unreadable + self.lines - len(lines.t))
        if len(lines.t):
            self.last_t = max(self.last_t, int(lines.t.max()))
        for letter, count in enumerate(np.bincount(lines.kind).tolist()):
            self.kinds[chr(letter)] = self.kinds.get(chr(letter), 0) + count
        self.quickest = int(lines.dur[np.isin(lines.kind, (D, T, U))].min(initial=self.quickest))
        self.starts += lines.t[lines.kind == R].tolist()
        paired = self.pairing.pair(lines, again=self.carried, is_last=is_last)
        self._emit(lines, paired)
        self._carry(lines, paired)
        if self.pairing.twice:
            raise UsageError(
                "lines of a session come twice, or out of order",
                detail=f"{self.pairing.twice} line numbers are not above those before them.",
                hint="Name each file of the log once.",
            )

    def _emit(self, lines: Events, paired: Paired) -> None:
        db, rows = self.db, paired.rows
        of_lines = dict[str, NDArray[np.int64]]()
        for one in fields(rows):
            if one.name not in ("rid", "sid"):
                of_lines[one.name] = np.full(self.lines, NONE, np.int64)
                of_lines[one.name][rows.rid] = getattr(rows, one.name)
        db.register("paired", of_lines)
        db.execute(KEYED)
        if N in lines.kind:
            db.execute("INSERT INTO names SELECT DISTINCT sid, label, hash(sql) FROM events WHERE kind = 'N'")
        for sid, seq, rid in paired.late:
            db.execute("INSERT INTO late SELECT ?, ?, state FROM events WHERE rowid = ?", [sid, seq, rid])
        self._assess()
        part = self.folder / f"part-{self.parts}.parquet"
        db.execute(f"COPY ({PART}) TO '{part}' (FORMAT parquet, COMPRESSION snappy, {DICTIONARY})")
        self.parts += 1
        db.unregister("paired")
        if len(rows.due):
            self.last_t = max(self.last_t, int(rows.due.max()))

    def _assess(self) -> None:
        """Give each new text its fingerprint and its judgement."""
        db = self.db
        if db.execute("SELECT count(*) FROM known").fetchall()[0][0] > 50_000:
            db.execute("DELETE FROM known")
        new = db.execute(
            "SELECT DISTINCT key FROM keyed WHERE key NOT NULL AND NOT EXISTS (FROM known WHERE known.key = keyed.key)"
        ).fetchall()
        if not new:
            return
        keys = [key for (key,) in new]
        verdicts = [judge(key, tree) for key in keys]
        db.execute(
            "INSERT INTO known"
            " SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
            [
                keys,
                [fingerprint(key) for key in keys],
                [verdict and verdict.reason.value for verdict in verdicts],
                [verdict and verdict.shown for verdict in verdicts],
            ],
        )

    def _carry(self, lines: Events, paired: Paired) -> None:
        self.carried = len(paired.carried)
        if self.carried:
            first, chosen = paired.carried.min(), ", ".join(map(str, paired.carried.tolist()))
            where = f"rowid >= {first} AND rowid IN ({chosen})"  # such lines are the last of their sessions
            self.db.execute(f"CREATE OR REPLACE TEMP TABLE carry AS SELECT * FROM events WHERE {where}")
        again = set(lines.sid[np.isin(lines.rid, paired.carried)].tolist())
        self._retire([one for one in self.pairing.sessions.values() if one.ended and one.sid not in again])

    def _retire(self, sessions: list[SeenSession]) -> None:
        """Put down sessions that need no more attention."""
        for one in sessions:
            del self.pairing.sessions[one.sid]
        kept = [one for one in sessions if one.seq]
        cut = sum(one.is_older and not one.connected for one in kept)
        self.lost = replace(self.lost, cut_sessions=self.lost.cut_sessions + cut)
        if kept:
            numbers = ("sid", "start_us", "first_t", "first_due", "seq", "tx", "end")
            names = (*numbers, "connected", "ended", "begins_within_tx")
            each = ", ".join(f"unnest(?::{'BIGINT' if name in numbers else 'BOOLEAN'}[])" for name in names)
            self.db.execute(
                f"INSERT INTO sessions SELECT {each}",
                [[getattr(one, name) for one in kept] for name in names],
            )

    def place_keys(self, found: FoundLoad) -> FoundLoad:
        """Read the commit order of a capture, where there is one, and put its keys beside the rows."""
        path = self.options.commits
        return found if path is None else replace(found, keys_unplaced=read_commits(self.db, path, self._parts()))

    def _parts(self) -> str:
        return "[" + ", ".join(f"'{self.folder}/part-{number}.parquet'" for number in range(self.parts)) + "]"

    def found(self) -> FoundLoad:
        """Return what all logs came to."""
        db, pairing_ = self.db, self.pairing
        parts = f"read_parquet({self._parts()})"
        counts = db.execute(
            f"SELECT {REFUSED}, count(*), count(state), count(*) FILTER (is_broken), count(*) FILTER (is_doubtful),"
            f" count(*) FILTER (is_unbound) FROM {parts} WHERE kind IN ('simple', 'parse', 'extended') GROUP BY 1"
            " ORDER BY 1"
        ).fetchall()
        statements, errors, broken, self.doubtful, unbound = (sum(row[at] for row in counts) for at in range(1, 6))
        begin, sessions = db.execute("SELECT coalesce(min(first_due), 0), count(*) FROM sessions").fetchall()[0]
        # one that goes on after its end comes twice, and its transactions are counted from 0 again
        transactions = db.execute(
            "SELECT sum(most) FROM (SELECT max(last_tx) + 1 AS most FROM sessions GROUP BY sid)"
        ).fetchall()[0][0]
        late = db.execute("SELECT count(*) FROM late").fetchall()[0][0]
        lost = replace(
            self.lost,
            truncated=broken + pairing_.orphans + self._bare(parts),
            unworded=pairing_.unworded,
            without_params=unbound,
            gaps=pairing_.gaps,
            not_english=self.kinds.get("A", 0),
            cut_statements=pairing_.cut,
        )
        return FoundLoad(
            begin=begin,
            end=self.last_t,
            sessions=sessions,
            statements=statements,
            transactions=int(transactions or 0),
            errors=errors + late - pairing_.refused_logins,
            lines=sum(self.kinds.values()),
            alone=self.kinds.get("D", 0),
            whole=self.kinds.get("T", 0) + self.kinds.get("U", 0),
            quickest=self.quickest,
            cut_values=cut_values(db, parts) if self.doubtful else 0,
            lost=lost,
            refused={row[0]: row[1] for row in counts if row[0] is not None},
        )

    def _bare(self, parts: str) -> int:
        """Return how many statements succeeded whose values are not in the log at all."""
        texts = self.db.execute(f"SELECT sql, count(*) FROM {parts} WHERE is_bare GROUP BY sql")
        return sum(count for sql, count in iter(texts.fetchone, None) if takes_values(sql))

    def write(self, out: Path, found: FoundLoad) -> str:
        """Write the trace; return its digest."""
        self.db.execute(PEOPLE.format(parts=self._parts()))
        let_take(self.db, max(sort_mb(found.statements), self.most_mb))
        values = {
            name: [value for (value,) in self.db.execute(query).fetchall() if value is not None]
            for name, query in values_queries(self._parts()).items()
        }
        left = implied_end(found.end, self.starts, are_logged=bool(self.kinds.get("Q")))
        return write_parquet(self.db, final_query(self._parts(), found.begin, left, values), out)
