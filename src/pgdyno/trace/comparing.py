"""A replay held against its capture or another replay: from files to a `ReplayComparison`.

The unit of the shares is the transaction. Its time is that of its statements, and for a caller the lateness of the
first as well: what a later one was late is in the time of those before. Think time is no part of it. Errors never
enter a time: a transaction with one is counted beside those that are timed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.replay_comparison import (
    Basis,
    ClassTable,
    DelayedStatement,
    Errors,
    Fidelity,
    Limits,
    RawShare,
    ReplayComparison,
    RowsCompared,
    ShareDifference,
)
from pgdyno.model.verdict import Word
from pgdyno.stats import delays
from pgdyno.stats.arrays import Integers
from pgdyno.stats.block_bootstrap import DependentBlocks, Weights, drawn, make_blocks, share_interval
from pgdyno.stats.class_verdicts import EffectLimits, Timed, judge_classes
from pgdyno.stats.replay_fidelity import Schedule, judge_fidelity
from pgdyno.trace.compared_rows import (
    NOT_SENT,
    OF_ENVIRONMENT,
    REPRODUCED,
    UNLIKE,
    ComparedRows,
    ReadComparison,
    ReplaySide,
    Times,
    reading,
)
from pgdyno.trace.engine.tally import COMPLETE
from pgdyno.trace.error_causes import told_errors
from pgdyno.trace.fingerprints import normalized
from pgdyno.trace.verdict_words import replay_verdict

MOST_DELAYED = 20
LONGEST_TEXT = 400
_NAMED_STATEMENTS = 6
UNPARSED = "does not parse"
NO_OUTCOME = "only the server's log of the replay is there: name its outcome to judge the schedule"


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a comparison; fixed before the replay where it decides."""

    limits: Limits = field(default_factory=Limits)
    effect: EffectLimits = field(default_factory=EffectLimits)
    required_percent: float = delays.REQUIRED_PERCENT
    tolerance_points: float = 5.0
    """Of the difference between the shares of B and of the A/A run."""
    duration_bounds_ms: tuple[float, ...] = delays.DURATION_BOUNDS_MS
    seed: int = 1


@dataclass(frozen=True, slots=True)
class _Transactions:
    """One element a transaction; times in microseconds, -1 where a statement of it has none."""

    first: Integers
    """The row of its first statement."""
    worst: Integers
    """The largest value of `differs`."""
    has_unlike: NDArray[np.bool_]
    kind: Integers
    kinds: Integers
    """Of each kind of transaction, one that is of it."""
    a: Times
    b: Times
    again: Times | None


def compare_replay(
    trace: Path,
    a: ReplaySide,
    b: ReplaySide,
    *,
    again: ReplaySide | None = None,
    kept: ReplaySide | None = None,
    rules: Rules | None = None,
) -> ReplayComparison:
    """Compare B with A over the statements of a trace.

    `trace` is a Parquet file, `a` a replay or the capture itself, `b` the replay that is judged. `again` is a second
    replay on A's platform, `kept` the outcome of B where B is the log of its server; None where there is none. `rules`
    None are the defaults. Reads files, writes to a temporary folder. Raises UsageError for files that do not fit.
    """
    rules, basis = rules or Rules(), basis_of(a, b)
    told = _read(trace, a, b, again, kept, rules.limits)  # what joined the files is gone: it is half of the memory
    rows, errors, fidelity, texts = told.rows, told.errors, told.fidelity, told.texts
    found = _transactions(rows, told.first)
    blocks = make_blocks(rows.session, rows.due)
    weights = drawn(blocks.count, rules.seed)
    statements, delayed = _statement_classes(rows, blocks, weights, rules, texts)
    by_transaction = DependentBlocks(blocks.of[found.first], blocks.count, blocks.made_of)
    timed = (found.worst == 0) & (found.a.service >= 0) & (found.b.service >= 0)
    kinds = _transaction_classes(rows, found, timed, by_transaction, weights, rules, texts)
    before, after = _response(found.a)[timed], _response(found.b)[timed]
    good = int(delays.not_slower(before, after).sum())
    bad = int((found.has_unlike).sum())
    share = _raw(good, int(timed.sum()) + bad, rules)
    difference = _difference(found, timed, by_transaction, weights, rules)
    word, sentence = replay_verdict(basis, fidelity, share, difference, statements, kinds)
    return ReplayComparison(
        a=a.name,
        b=b.name,
        again=again.name if again else None,
        basis=basis,
        word=word,
        sentence=sentence,
        fidelity=fidelity,
        transactions=delays.shares({"success": good, "delayed": int(timed.sum()) - good, "error": bad}),
        left_out=_left_out(found, timed),
        share=share,
        difference=difference,
        service_share=_service_share(found, timed, bad, rules) if basis is not Basis.SERVER else None,
        change=delays.global_change(before, after),
        delays=delays.delay_tables(before, after, rules.duration_bounds_ms),
        statements=statements,
        transaction_classes=kinds,
        delayed=delayed,
        errors=errors,
        rows=told.compared,
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What the files of a comparison say."""

    rows: ComparedRows
    first: Integers
    """The rows with which transactions begin."""
    errors: Errors
    fidelity: Fidelity
    compared: RowsCompared
    texts: _Texts


def _read(
    trace: Path, a: ReplaySide, b: ReplaySide, again: ReplaySide | None, kept: ReplaySide | None, limits: Limits
) -> _Told:
    with reading(trace, a, b, again, kept) as read:
        rows = read.rows
        first = _firsts(rows)
        suspects = read.suspects()
        texts = _Texts(read.texts())
        errors = told_errors(
            suspects,
            int((rows.differs == REPRODUCED).sum()),
            {one.fingerprint: texts.of(one.fingerprint) for one in suspects},
            has_control=read.has_control,
        )
        errors = replace(errors, unseen_timeouts=read.unseen_timeouts())
        controls = {"a": ("A", a), **({"g": ("the A/A run", again)} if again else {})}
        fidelity = _fidelity(read, rows, errors, int(first.size), limits)
        void = (*_ended(kept or b), *fidelity.invalid, *_controls(read, controls, limits))
        return _Told(rows, first, errors, replace(fidelity, invalid=void), read.rows_compared(), texts)


def basis_of(a: ReplaySide, b: ReplaySide) -> Basis:
    """Return whether both sides are of one kind of clock."""
    of_server = [not side.outcome for side in (a, b)]
    if all(of_server):
        return Basis.SERVER
    return Basis.UNLIKE if any(of_server) else Basis.CLIENT


class _Texts:
    """Texts of statements, normalised when they are asked for."""

    def __init__(self, raw: dict[int, str]) -> None:
        self._raw = raw

    def of(self, fingerprint: int | str) -> str:
        """Return the text of a fingerprint, or of its hexadecimal name, without values; empty where none is known."""
        number = fingerprint if isinstance(fingerprint, int) else int(fingerprint, 16)
        return (normalized(self._raw.get(number, "")) or "")[:LONGEST_TEXT]


def _firsts(rows: ComparedRows) -> Integers:
    """Return the rows with which transactions begin: neighbours with the same session and ordinal are one."""
    starts = np.ones(rows.session.size, np.bool_)
    starts[1:] = (rows.session[1:] != rows.session[:-1]) | (rows.tx[1:] != rows.tx[:-1])
    return np.flatnonzero(starts)


def _transactions(rows: ComparedRows, first: Integers) -> _Transactions:
    """Join statements to transactions."""
    n = rows.session.size
    if not n:
        empty = np.zeros(0, np.int64)
        times, none = Times(empty, empty), np.zeros(0, np.bool_)
        return _Transactions(first, empty, none, empty, empty, times, times, times if rows.again else None)

    def joined(times: Times) -> Times:
        total = np.add.reduceat(times.service, first, dtype=np.int64)
        return Times(np.where(np.minimum.reduceat(times.service, first) < 0, -1, total), times.lag[first])

    place = np.arange(n) - np.repeat(first, np.diff(np.append(first, n)))
    # a sequence of fingerprints as one number: wrapping arithmetic on 64 bits
    mixed = (rows.fingerprint ^ (rows.fingerprint >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    turned = (mixed + np.uint64(1)) * (2 * place.astype(np.uint64) + np.uint64(0xBF58476D1CE4E5B9))
    _, example, kind = np.unique(np.add.reduceat(turned, first), return_index=True, return_inverse=True)
    return _Transactions(
        first,
        np.maximum.reduceat(rows.differs, first),
        np.maximum.reduceat(rows.differs == UNLIKE, first),
        kind,
        example,
        joined(rows.a),
        joined(rows.b),
        joined(rows.again) if rows.again else None,
    )


def _response(times: Times) -> Integers:
    return np.where(times.service < 0, -1, times.service + times.lag)


def _left_out(found: _Transactions, timed: NDArray[np.bool_]) -> dict[str, int]:
    counted = found.has_unlike
    rest = ~counted & ~timed
    counts = {
        "not sent, or not found in the log": rest & (found.worst == NOT_SENT),
        "an error of the environment": rest & (found.worst == OF_ENVIRONMENT),
        "an error that the capture has as well": rest & (found.worst == REPRODUCED),
        "no time on one side": rest & (found.worst == 0),
    }
    return {why: int(where.sum()) for why, where in counts.items() if where.any()}


def _raw(good: int, of: int, rules: Rules) -> RawShare:
    return RawShare(good, of, rules.required_percent, delays.passes(good, of, rules.required_percent))


def _service_share(found: _Transactions, timed: NDArray[np.bool_], bad: int, rules: Rules) -> RawShare:
    good = delays.not_slower(found.a.service[timed], found.b.service[timed])
    return _raw(int(good.sum()), int(good.size) + bad, rules)


def _difference(
    found: _Transactions, timed: NDArray[np.bool_], blocks: DependentBlocks, weights: Weights, rules: Rules
) -> ShareDifference | None:
    """Hold the share of B against that of the A/A run, over the transactions that all three have."""
    if found.again is None:
        return None
    where = timed & (found.again.service >= 0)
    if not where.any():
        return None
    a, b, again = (_response(times)[where] for times in (found.a, found.b, found.again))
    of_b, of_again = delays.not_slower(a, b), delays.not_slower(a, again)
    chosen = DependentBlocks(blocks.of[where], blocks.count, blocks.made_of)
    mean, low, high = share_interval(of_b.astype(np.int8) - of_again.astype(np.int8), chosen, weights)
    word = Word.NOT_RESOLVED
    if max(abs(100 * low), abs(100 * high)) <= rules.tolerance_points:
        word = Word.EQUIVALENT
    elif low > 0 or high < 0:
        word = Word.BETTER if low > 0 else Word.WORSE
    return ShareDifference(
        _raw(int(of_again.sum()), int(of_again.size), rules),
        100 * mean,
        100 * low,
        100 * high,
        0.95,
        rules.tolerance_points,
        int(np.unique(chosen.of).size),
        blocks.made_of,
        word,
    )


def _statement_classes(
    rows: ComparedRows, blocks: DependentBlocks, weights: Weights, rules: Rules, texts: _Texts
) -> tuple[ClassTable, tuple[DelayedStatement, ...]]:
    usable = (rows.differs == 0) & (rows.a.service >= 0) & (rows.b.service >= 0) & ~rows.is_parse
    numbers, of_class = np.unique(rows.fingerprint[usable], return_inverse=True)
    a, b = _response(rows.a)[usable], _response(rows.b)[usable]
    again = _response(rows.again)[usable] if rows.again else np.zeros(0, np.int64)
    names = [f"{int(number):016x}" if number else UNPARSED for number in numbers]
    timed = Timed(of_class, a, b, again, DependentBlocks(blocks.of[usable], blocks.count, blocks.made_of))
    table = judge_classes(timed, names.__getitem__, weights, rules.effect)
    delayed = _delayed(of_class, a, b, rows.session[usable], names)
    told = {name: "" if name == UNPARSED else texts.of(name) for name in names}
    classes = tuple(replace(one, text=told[one.name]) for one in table.classes)
    return replace(table, classes=classes), tuple(replace(one, text=told[one.name]) for one in delayed)


def _delayed(
    of_class: Integers, a: Integers, b: Integers, session: Integers, names: list[str]
) -> list[DelayedStatement]:
    """Rank classes by the time that users lost in their delayed executions."""
    late = delays.hundredths(b) > delays.hundredths(a)
    lost = np.bincount(of_class[late], (b - a)[late], len(names))
    count = np.bincount(of_class[late], minlength=len(names))
    every = np.bincount(of_class, minlength=len(names))
    found = []
    for number in np.argsort(-lost, kind="stable")[:MOST_DELAYED]:
        if not count[number]:
            break
        mine = late & (of_class == number)
        found.append(
            DelayedStatement(
                names[number],
                "",
                int(count[number]),
                int(every[number]),
                float(lost[number]) / 1e6,
                float((b - a)[mine].max()) / 1000,
                int(np.unique(session[mine]).size),
            )
        )
    return found


def _transaction_classes(
    rows: ComparedRows,
    found: _Transactions,
    timed: NDArray[np.bool_],
    blocks: DependentBlocks,
    weights: Weights,
    rules: Rules,
    texts: _Texts,
) -> ClassTable:
    ends = np.append(found.first[1:], rows.session.size)
    again = _response(found.again)[timed] if found.again else np.zeros(0, np.int64)
    chosen = DependentBlocks(blocks.of[timed], blocks.count, blocks.made_of)
    given = Timed(found.kind[timed], _response(found.a)[timed], _response(found.b)[timed], again, chosen)
    table = judge_classes(given, str, weights, rules.effect)
    members = {}
    for one in table.classes:
        at = found.kinds[int(one.name)]
        members[one.name] = [int(number) for number in rows.fingerprint[found.first[at] : ends[at]]]
    return replace(
        table,
        classes=tuple(
            replace(one, name=_sequence_name(members[one.name]), text=_sequence_text(members[one.name], texts))
            for one in table.classes
        ),
    )


def _sequence_name(members: list[int]) -> str:
    head = "+".join(f"{number:016x}"[:6] for number in members[:_NAMED_STATEMENTS])
    return head + (f"+{len(members) - _NAMED_STATEMENTS} more" if len(members) > _NAMED_STATEMENTS else "")


def _sequence_text(members: list[int], texts: _Texts) -> str:
    return "; ".join(texts.of(number) or "?" for number in members[:_NAMED_STATEMENTS])[:LONGEST_TEXT]


def _fidelity(read: ReadComparison, rows: ComparedRows, errors: Errors, transactions: int, limits: Limits) -> Fidelity:
    kept = read.schedule("b")
    if kept is not None:
        return judge_fidelity(kept, errors, transactions, limits)
    found, none = int((rows.differs != NOT_SENT).sum()), np.zeros(0, np.int64)
    schedule = Schedule(none, none, none, none, none, int(rows.session.size), found, read.refused(), read.left_out())
    judged = judge_fidelity(schedule, errors, transactions, limits)
    return replace(judged, unknown=NO_OUTCOME, lateness=(), injector_limit_ms=None)


def _ended(side: ReplaySide) -> tuple[str, ...]:
    """Return that a run did not send its whole trace, where it did not."""
    if side.ended == COMPLETE:
        return ()
    return (f"the run ended before the trace did: {side.ended}" if side.ended else "the run has not ended",)


def _controls(read: ReadComparison, sides: dict[str, tuple[str, ReplaySide]], limits: Limits) -> list[str]:
    """Return why runs that B is held against do not count; their answers are the environment's, which is discounted."""
    found = list[str]()
    for name, (words, side) in sides.items():
        void = _ended(side)
        if (kept := read.schedule(name)) is not None:
            judged = judge_fidelity(replace(kept, refused=0), Errors(0, (), has_control=True), 0, limits)
            void += judged.invalid
        found += [f"of {words}, {why}" for why in void]
    return found
