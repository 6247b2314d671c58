"""What the load is: read-only, mostly read-only, OLTP, write-heavy, OLAP or batch. Pure; thresholds with reasons.

The classes come from the sources (000: OLTP is what was tested, analytic loads may react adversely; 003: mostly
read-only databases may do without autovacuum); the limits are pgdyno's own, and docs/reference/evidence.md lists them.
"""

from __future__ import annotations

from pgdyno.model.evidence import SAMPLED, Statistics, WorkloadClass
from pgdyno.model.facts import LittleLoad, NoLoad, Unknown
from pgdyno.units import percent_text, plural, rate_text

READ_ONLY_BELOW = 0.000_1
"""Share of rows written: less than one row in ten thousand is housekeeping of applications, no load."""
MOSTLY_READ_BELOW = 0.05
"""One row in twenty: WAL, checkpoints and vacuum are then no part of what takes the time."""
WRITES_OFTEN = 0.5
"""Rows written per transaction from which a load is no reading one, however many rows it reads: small tables are
scanned whole, so that pgbench's TPC-B reads some 220 rows for the 4 that it writes, and commits wait for the WAL."""
WRITE_HEAVY_FROM = 0.6
"""More rows written than read: every written row that was found by an index counts one read too, so that a load of
nothing but single-row updates comes out at 0.5; above are inserts and bulk changes."""
OLAP_ROWS = 10_000
"""Rows read per transaction: 10,000 rows are megabytes, which no OLTP transaction touches."""
OLAP_SCANNED = 0.5
BATCH_ROWS = 1_000
"""Rows written per transaction: loading and mass changes."""

IDLE_TRANSACTIONS_S = 5.0
IDLE_ROWS_S = 1_000.0
"""A window below both, and a mean since the reset, is as much as monitoring and autovacuum make: scrapes of some ten
queries each 5 to 15 s. A small server in use may be below, too. It is right not to judge it as a load: a core reads
about a million rows a second, so that a day below the bound kept one core busy for some 90 seconds, in whatever hour
they fell, and no setting that only a load justifies could be seen to matter. A window shows what a mean hides."""
FEWEST_TRANSACTIONS = 10_000
FEWEST_ROWS = 10_000_000
"""Since a reset: what monitoring makes in a day, a thousand rows of catalogues each time; of a server that did less its
counters show no load. Reports and batches are few transactions of many rows."""
MADE_TRANSACTIONS, MADE_ROWS = 2_000, 500_000
"""Twice what making a cluster and looking at it for the first time count: the rate of a young server is theirs."""
OWN_TRANSACTIONS, OWN_ROWS = 30, 20_000
"""What opening pgdyno's own sessions and reading the views adds to a window, whatever its length."""


def classify(statistics: Statistics) -> tuple[WorkloadClass, str] | Unknown:
    """Return the class and the figures that it rests on, in words; unknown when there was no load."""
    share, commits = statistics.write_share, statistics.commits_s
    read, written = statistics.rows_read_s, statistics.rows_written_s
    for value in (share, commits, read, written):
        if isinstance(value, Unknown):
            return value
    if isinstance(share, Unknown) or isinstance(commits, Unknown):
        return UNREACHABLE
    if isinstance(read, Unknown) or isinstance(written, Unknown):
        return UNREACHABLE
    ended = commits + (0.0 if isinstance(statistics.rollbacks_s, Unknown) else statistics.rollbacks_s)
    if ended <= 0:
        return NoLoad("no transaction ended in the window")
    is_sampled = statistics.window.source == SAMPLED
    seconds = statistics.window.seconds
    transactions, rows = _counted(statistics, "commits_s", "rollbacks_s"), _counted(statistics, *_ROWS)
    if is_sampled:
        few = transactions < IDLE_TRANSACTIONS_S * seconds + OWN_TRANSACTIONS
        if few and rows < IDLE_ROWS_S * seconds + OWN_ROWS:
            others = rate_text(max(0.0, transactions - OWN_TRANSACTIONS) / seconds)
            return LittleLoad(
                f"the server was nearly idle in the window: {plural(others, 'transaction')} a second beside pgdyno's "
                "own, as few as monitoring makes"
            )
    elif (no_load := _too_few_since_reset(transactions, rows, seconds)) is not None:
        return no_load
    reads_each, writes_each = read / ended, written / ended
    words = (
        f"{percent_text(share, 2)} of the rows touched were written, "
        f"{reads_each:,.1f} read and {writes_each:,.1f} written a transaction"
    )
    return _class(share, reads_each, writes_each, statistics.analytic_share), words


def _too_few_since_reset(transactions: float, rows: float, seconds: float) -> NoLoad | None:
    """Say why counters since a reset show no load that could be judged; None where they do."""
    is_slow = transactions < IDLE_TRANSACTIONS_S * seconds and rows < IDLE_ROWS_S * seconds
    if transactions < FEWEST_TRANSACTIONS and rows < FEWEST_ROWS:
        bounds = f"{FEWEST_TRANSACTIONS:,} transactions and {FEWEST_ROWS // 1_000_000} million rows"
        counted = f"fewer than {bounds} were counted since the reset"
        if is_slow or (transactions < MADE_TRANSACTIONS and rows < MADE_ROWS):
            return NoLoad(f"{counted}, which is not a load")
        return LittleLoad(f"{counted}; --window SECONDS watches the load")
    if is_slow:
        return LittleLoad(
            f"{plural(rate_text(transactions / seconds), 'transaction')} a second since the reset are as few as "
            "monitoring makes, or a load with much idle time; --window SECONDS watches it"
        )
    return None


_ROWS = ("rows_read_s", "rows_written_s")


def _counted(statistics: Statistics, *rates: str) -> float:
    """Return how much was counted of these rates together; one that is unknown counts nothing."""
    amounts = (statistics.amount(rate) for rate in rates)
    return sum(amount for amount in amounts if not isinstance(amount, Unknown))


UNREACHABLE = Unknown("the statistics of the window are incomplete")


def _class(share: float, reads_each: float, writes_each: float, scanned: float | Unknown) -> WorkloadClass:
    scans = isinstance(scanned, Unknown) or scanned >= OLAP_SCANNED
    if writes_each >= BATCH_ROWS:
        return WorkloadClass.BATCH
    if reads_each >= OLAP_ROWS and scans and share < MOSTLY_READ_BELOW:
        return WorkloadClass.OLAP
    if share < MOSTLY_READ_BELOW and writes_each < WRITES_OFTEN:
        return WorkloadClass.READ_ONLY if share < READ_ONLY_BELOW else WorkloadClass.MOSTLY_READ
    return WorkloadClass.WRITE_HEAVY if share >= WRITE_HEAVY_FROM else WorkloadClass.OLTP
