"""The page of a replay that is held against its capture or another replay: first whether it counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno import __version__
from pgdyno.model.figure import Table
from pgdyno.model.replay_comparison import (
    Cause,
    ClassComparison,
    ClassTable,
    CountedShare,
    RawShare,
    ReplayComparison,
)
from pgdyno.model.verdict import Word
from pgdyno.report.replay_figures import bin_text, class_forest, class_text, delay_bars
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.report.wording import TONES, bare_range_text, capital, number_text
from pgdyno.stats.ratios import rounded, signed
from pgdyno.units import agreeing, digits_text, plural

RATIO_LIMIT = 1.05
_MOST_CLASSES = 100
_METHOD = (
    "A transaction's time is that of its statements, and for a caller also how late its first was sent: that is the "
    "response time from the due moment. Pauses of users are not part of it. Times are compared at two decimals of a "
    "millisecond; errors are in no time.",
    "Of two runs on equal platforms, each transaction is the faster one in half of the cases: a share of 50 % is what "
    "equal platforms give, and a requirement of 95 % asks for a faster one. The verdict is on the difference from the "
    "A/A run; its interval resamples whole sessions, or slices of time where sessions are few.",
    "A class is slower where a rank test says so after the adjustment for all classes (Benjamini and Hochberg, 5 %), "
    "the median or a higher quantile is beyond the limits of effect with an interval that excludes 1, and the A/A run "
    "does not show as much. Equivalent is shown by an interval, never by the absence of a finding.",
    "A quantile is given only if ten executions lie beyond it. Causes of errors are evidence, not proof.",
)


def replay_page(found: ReplayComparison, *, ratio_limit: float = RATIO_LIMIT) -> Report:
    """Return the report of a comparison."""
    is_valid = found.fidelity.is_valid
    return Report(
        study=found.b,
        kind="comparison",
        title=capital(found.sentence),
        word=found.word.value if is_valid else "invalid",
        tone=TONES[found.word] if is_valid else Tone.BAD,
        lead=f"B is {found.b}, A is {found.a}" + (f", the A/A run is {found.again}" if found.again else ""),
        stamp=found.basis.sentence,
        tiles=_tiles(found) if is_valid else (),
        sections=replay_sections(found, ratio_limit=ratio_limit),
        provenance={"written by": f"pgdyno {__version__}"},
        label="replay",
    )


def replay_sections(found: ReplayComparison, *, ratio_limit: float = RATIO_LIMIT) -> tuple[Section, ...]:
    """Return the sections of a comparison, whether the schedule was kept first."""
    return (
        Section("fidelity", "Fidelity", "Did the replay keep its schedule?", tuple(_fidelity(found))),
        Section("outcome", "Outcome", "How many transactions were not slower?", tuple(_outcome(found))),
        Section("delays", "Delays", "How long were delays, and whose?", tuple(_delays(found))),
        *(
            Section(id_, title, f"Which classes of {what} changed?", tuple(_classes(table, what, ratio_limit)))
            for id_, title, what, table in (
                ("statements", "Statements", "statements", found.statements),
                ("transactions", "Transactions", "transactions", found.transaction_classes),
            )
        ),
        Section("errors", "Errors", "Which answers are not the captured ones?", tuple(_errors(found))),
        Section("method", "Method", "What do the figures mean?", (Prose(_METHOD, points=True),)),
    )


def _tiles(found: ReplayComparison) -> tuple[Tile, ...]:
    difference, change = found.difference, found.change.improvement_percent
    beside = "" if difference is None else f"{_percent(difference.again)} in the A/A run"
    word = "passes" if found.share.is_passed else "does not pass"
    return (
        Tile(
            "not slower",
            _percent(found.share),
            "" if difference is None else f"{difference.confidence * 100:g} % interval of the difference "
            f"[{signed(difference.lo)}, {signed(difference.hi)}] points",
            beside,
            f"{word} {found.share.required_percent:g} %",
            Tone.GOOD if found.share.is_passed else Tone.UNSURE,
        ),
        Tile(
            "time of all transactions",
            "unknown" if change is None else f"{signed(-change, 1)} %",
            "",
            f"{number_text(found.change.a_seconds)} s before, {number_text(found.change.b_seconds)} s after",
            "",
            Tone.NEUTRAL,
        ),
        Tile(
            "slower classes", str(found.statements.count(Word.WORSE)), "",
            f"of {len(found.statements.classes) + found.statements.left_out:,} that have enough executions",
            "", Tone.BAD if found.statements.count(Word.WORSE) else Tone.GOOD,
        ),
    )  # fmt: skip


def _fidelity(found: ReplayComparison) -> Iterable[Block]:
    fidelity = found.fidelity
    if found.amendments:
        held = "What was fixed before the run holds."
        yield Notice((*(f"AMENDED after the start: {one}." for one in found.amendments), held))
    if fidelity.invalid:
        yield Notice(tuple(f"INVALID: {why}." for why in fidelity.invalid))
    if fidelity.unknown:
        yield Notice((f"Unknown: {fidelity.unknown}.",))
    elif fidelity.is_valid:
        yield Prose(("The schedule was kept: nothing voids this run.",))
    if fidelity.warnings:
        yield Notice(fidelity.warnings)
    facts = [
        ("statements to send", f"{fidelity.statements:,}"),
        ("sent", f"{fidelity.sent:,}"),
        ("refused, never sent", f"{fidelity.refused:,}"),
    ]
    if fidelity.injector_limit_ms is not None:
        pause = "none" if fidelity.think_ms is None else f"{number_text(fidelity.think_ms)} ms"
        facts.append(("median pause of the capture, at this speed", pause))
        facts.append(("limit of the injector's p99", f"{number_text(fidelity.injector_limit_ms)} ms"))
    if fidelity.rate_off_percent is not None:
        facts.append(("schedule longer by injector and gates", f"{rounded(fidelity.rate_off_percent)} %"))
    yield FactList(tuple(facts))
    if fidelity.lateness:
        rows = tuple(
            (one.part, *(rounded(ms, 3) for ms in (one.p50, one.p99, one.largest))) for one in fidelity.lateness
        )
        yield TableBlock(
            Table(("late by", "p50 ms", "p99 ms", "max ms"), rows, ("p50 ms", "p99 ms", "max ms")),
            "Lateness of statements by who caused it. The server's never voids a run: it is in the response time.",
        )


def _outcome(found: ReplayComparison) -> Iterable[Block]:
    yield Prose((found.basis.sentence, *found.notes))
    yield TableBlock(
        _shares(found.transactions, "transactions"), "Transactions that were timed, or had another answer:"
    )
    if found.left_out:
        rows = tuple((why, f"{count:,}") for why, count in found.left_out.items())
        yield TableBlock(Table(("not counted above", "transactions"), rows, ("transactions",)), "Left out:")
    against = [("B against A", found.share)]
    if found.service_share is not None:
        against.append(("B against A, from sending", found.service_share))
    if found.difference is not None:
        against.append(("A/A run against A", found.difference.again))
    yield TableBlock(
        Table(
            ("not slower", "transactions", "of", "share"),
            tuple((name, f"{share.not_slower:,}", f"{share.of:,}", _percent(share)) for name, share in against),
            ("transactions", "of", "share"),
        ),
        f"Share that is not slower, of which {found.share.required_percent:g} % are required. A transaction with "
        "another answer is no success; the A/A run is compared where all three have a time:",
    )
    if found.difference is None:
        yield Notice(("Without an A/A run nobody knows what share equal platforms would have here.",))
    else:
        one = found.difference
        yield Prose(
            (
                f"Against the A/A run: {plural(signed(one.points), 'point')} [{signed(one.lo)}, "
                f"{signed(one.hi)}], from "
                f"{plural(one.blocks, 'block')} of {one.made_of}: {one.word.value}"
                + (f" within {one.tolerance_points:g} points." if one.word is Word.EQUIVALENT else "."),
            )
        )


def _delays(found: ReplayComparison) -> Iterable[Block]:
    yield TableBlock(_shares(found.delays.by_length, "delayed transactions"), "Delays by their length:")
    rows = tuple(
        (
            bin_text(one.low, one.high), f"{one.transactions:,}", f"{one.delayed:,}",
            "" if one.mean_delay_percent is None else f"{rounded(one.mean_delay_percent, 1)} %",
            "" if one.mean_delay_ms is None else rounded(one.mean_delay_ms),
        )
        for one in found.delays.by_duration
    )  # fmt: skip
    columns = ("took before", "transactions", "delayed", "mean delay", "mean delay ms")
    yield TableBlock(Table(columns, rows, columns[1:]), "Mean delay of delayed transactions by what they took before:")
    if (bars := delay_bars(found.delays.histogram)) is not None:
        yield Charts((bars,))
    if found.delayed:
        heads = ("statement", "s lost", "delayed", "of", "largest ms", "sessions")
        yield TableBlock(
            Table(
                heads,
                tuple(
                    (
                        one.text or one.name, rounded(one.seconds_lost), f"{one.delayed:,}", f"{one.executions:,}",
                        rounded(one.largest_ms), f"{one.sessions:,}",
                    )
                    for one in found.delayed
                ),
                heads[1:],
            ),
            "Statements by the time that users lost in their delayed executions: study these first.",
        )  # fmt: skip


def _classes(table: ClassTable, what: str, ratio_limit: float) -> Iterable[Block]:
    counts = ", ".join(f"{table.count(word):,} {word.value}" for word in Word)
    few = f"{table.too_few:,} more have fewer than 20 executions to compare."
    yield Prose((f"Classes of {what}: {counts}.", *((few,) if table.too_few else ())))
    if (forest := class_forest(table, what, ratio_limit)) is not None:
        yield Charts((forest,))
    if table.classes:
        columns = ("class", "times", "verdict", "p50", "p90", "p95", "p99", "p slower", "s lost")
        shown = table.classes[:_MOST_CLASSES]
        rest = len(table.classes) - len(shown) + table.left_out
        yield TableBlock(
            Table(columns, tuple(_class_row(one) for one in shown), columns[1:2] + columns[3:]),
            "Ratios of quantiles, B over A, with their intervals; p is adjusted for all classes."
            + (f" {rest:,} more are in the JSON form or lost less." if rest else ""),
            folded=True,
        )


def _class_row(one: ClassComparison) -> tuple[str, ...]:
    cells = []
    for quantile in one.quantiles:
        if quantile.a_ms is None or quantile.b_ms is None:
            cells.append("too few")
        elif quantile.interval is None:
            cells.append("no interval")
        else:
            cells.append(f"{digits_text(quantile.interval.ratio)} {bare_range_text(quantile.interval)}")
    word = one.word.value + (f": {one.reason}" if one.reason else "")
    return (class_text(one), f"{one.executions:,}", word, *cells, f"{one.p_slower:.3g}", rounded(one.seconds_lost))


def _errors(found: ReplayComparison) -> Iterable[Block]:
    errors = found.errors
    told = [
        f"{plural(errors.expected, 'error')} of the capture came again.",
        agreeing(errors.unexpected, "answer", "is not the captured one.", "are not the captured ones."),
    ]
    told += [
        f"Of these, {n:,}: {cause.value}."
        for cause in Cause
        if (n := errors.count(cause)) and cause is not Cause.ENVIRONMENT
    ]
    if n := errors.count(Cause.ENVIRONMENT):
        told.append(f"{n:,} more are the same in the control run: they are the environment's, not the platform's.")
    if n := errors.unseen_timeouts:
        told.append(
            f"Of the missing ones, {n:,}: a lock that was not had in time (55P03), by a lock_timeout of the role, the "
            "database or the server. It is in no log: here the lock was free by then, or the timeout is not set."
        )
    if not errors.has_control:
        told.append("There is no control run: errors of the environment cannot be told from the rest.")
    yield Prose(tuple(told))
    if errors.lines:
        columns = ("answer", "captured", "came", "cause", "times", "such as")
        rows = tuple(
            (
                line.answer,
                line.captured or "success",
                line.came or "success",
                line.cause.value,
                f"{line.count:,}",
                line.text,
            )
            for line in errors.lines[:_MOST_CLASSES]
        )
        yield TableBlock(Table(columns, rows, ("times",)), "Answers that are not the captured ones:")
    rows_ = found.rows
    yield Prose(
        (
            f"Rows of statements: unknown, {rows_.reason}."
            if rows_.reason
            else f"Of {plural(rows_.compared, 'statement')}, {rows_.different:,} returned or changed "
            f"a different number of rows, "
            f"{rows_.by_row_identity:,} of them name rows by what each database chooses for itself.",
        )
    )


def _shares(found: Iterable[CountedShare], what: str) -> Table:
    rows = tuple((one.name, f"{one.count:,}", f"{rounded(one.percent)} %") for one in found)
    return Table(("outcome", what, "share"), rows, (what, "share"))


def _percent(share: RawShare) -> str:
    return "unknown" if share.percent is None else f"{rounded(share.percent)} %"
