"""The page of a captured load: what ran, when, how long, what failed, and what will not be sent again. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno import __version__
from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.stats.ratios import rounded
from pgdyno.trace.summary import Spread, TraceSummary
from pgdyno.trace.whole import cut_words, missing_words, sampled_text
from pgdyno.units import agreeing, plural

_CLASSES = ("fingerprint", "calls", "errors", "seconds", "share", "mean ms", "p99 ms", "statement")


def trace_page(summary: TraceSummary, name: str) -> Report:
    """Return the report of a trace that has this name."""
    meta = summary.meta
    lost = missing_words(meta)
    never = sum(summary.refused.values())
    return Report(
        study=name,
        kind="trace",
        title=f"{plural(meta.statements, 'statement')} of {plural(meta.sessions, 'session')} in "
        f"{rounded(meta.seconds, 1)} s",
        word="not whole" if lost else "whole",
        tone=Tone.BAD if lost else Tone.GOOD,
        lead=f"{plural(meta.transactions, 'transaction')}, {plural(meta.errors, 'error')}; {never:,} "
        f"statements are never sent again",
        stamp=f"{meta.style} from {meta.begins_at}",
        tiles=_tiles(summary),
        sections=(
            Section("whole", "Wholeness", "Does the trace have all that ran?", _whole(summary, lost)),
            Section("time", "Over time", "When did it run?", (Charts(_figures(summary)),)),
            Section("classes", "Classes", "Which statements take the time?", (_classes(summary),)),
            Section("pace", "Pace", "How much ran at once, and how long do users think?", (_pace(summary),)),
            Section("errors", "Errors", "What failed?", _errors(summary)),
            Section("refused", "Not sent", "What will not be replayed, and why?", _refused(summary)),
            Section("who", "Sources", "Whose load is it?", _who(summary)),
        ),
        provenance={"written by": f"pgdyno {__version__}", "digest": meta.digest},
        label=f"trace {name}",
    )


def _tiles(summary: TraceSummary) -> tuple[Tile, ...]:
    meta = summary.meta
    rate = meta.statements / meta.seconds if meta.seconds else 0.0
    return (
        Tile("rate", f"{rounded(rate, 1)}/s", "", "statements, on average", "", Tone.NEUTRAL),
        Tile(
            "at once",
            _count(summary.most_at_once),
            "",
            f"statements; {plural(summary.most_sessions, 'session')}",
            "",
            Tone.NEUTRAL,
        ),
        Tile(
            "server time",
            "unknown" if summary.server_seconds is None else f"{rounded(summary.server_seconds, 1)} s",
            "",
            "the log has no durations" if summary.server_seconds is None else "as logged",
            "",
            Tone.NEUTRAL,
        ),
    )


def _whole(summary: TraceSummary, lost: list[str]) -> tuple[Block, ...]:
    told = [f"Missing: {words}." for words in lost]
    blocks: list[Block] = [Notice(tuple(told))] if told else [Prose(("Nothing that was logged is missing.",))]
    cut = cut_words(summary.meta.lost)
    if cut:
        blocks.append(Prose((f"Cut by the edges of the log: {', '.join(cut)}.",)))
    if joined := _joined(summary):
        blocks.append(Prose(joined))
    if summary.implied:
        blocks.append(Prose((f"The beginning or end is inferred for {plural(summary.implied, 'session')}.",)))
    if summary.meta.masked:
        blocks.append(Notice(("Values were removed: this trace can be shown, not replayed.",)))
    if summary.meta.sampled is not None:
        share = sampled_text(summary.meta.sampled)
        blocks.append(Notice((f"A sample, {share}: for response times, not for a replay.",)))
    return tuple(blocks)


def _joined(summary: TraceSummary) -> tuple[str, ...]:
    """Say what is known of the sessions that were open when the log began, and what is not."""
    if not summary.meta.lost.cut_sessions:
        return ()
    told = [f"{agreeing(summary.meta.lost.cut_sessions, 'session', 'was', 'were')} open before this log begins."]
    if summary.joined_in_tx:
        told.append(
            f"{agreeing(summary.joined_in_tx, 'session', 'was', 'were')} in a transaction: the rest of it is not sent."
        )
    if summary.joined_prepared:
        told.append(
            f"{agreeing(summary.joined_prepared, 'session', 'uses', 'use')} statements prepared before it: "
            "they are prepared again."
        )
    if count := summary.joined_unprepared:
        told.append(f"{agreeing(count, 'session', 'executes', 'execute')} what SQL had prepared before it: this fails.")
    told.append("What they had SET, and temporary tables, are in no log: statements that need them fail.")
    return (" ".join(told),)


def _figures(summary: TraceSummary) -> tuple[Figure, ...]:
    at = tuple(one.at_s for one in summary.slices)
    width = summary.meta.seconds / max(len(at), 1) or 1.0
    busy = tuple(one.busy for one in summary.slices if one.busy is not None)
    drawn = (
        ("statements", "statements/s", tuple(one.statements / width for one in summary.slices)),
        ("sessions", "sessions that sent", tuple(float(one.sessions) for one in summary.slices)),
        *((("busy", "statements at once", busy),) if busy else ()),
    )
    return tuple(
        Figure(
            kind=FigureKind.TIMELINE,
            id=f"trace-{key}",
            title=f"{label}: at most {rounded(max(values, default=0.0), 1)}",
            question=f"How many {label}?",
            x=Axis("time", "s"),
            y=Axis(label, lo=0),
            series=(Series(label, at, values, style="step"),),
            group="trace",
        )
        for key, label, values in drawn
    )


def _classes(summary: TraceSummary) -> Block:
    rows = tuple(
        (
            one.fingerprint or "unknown: does not parse", f"{one.calls:,}", f"{one.errors:,}",
            "unknown" if one.seconds is None else rounded(one.seconds, 3),
            "unknown" if one.share is None else f"{rounded(100 * one.share, 1)} %",
            _ms(one.mean_ms), _ms(one.p99_ms), one.sql,
        )
        for one in summary.classes
    )  # fmt: skip
    caption = f"The first {len(rows)} of {plural(summary.distinct_classes, 'class')}, by the server's time:"
    return TableBlock(Table(_CLASSES, rows, _CLASSES[1:7]), caption)


def _pace(summary: TraceSummary) -> Block:
    return FactList(
        (
            ("statements at once, at most", _count(summary.most_at_once)),
            ("sessions at once, at most", str(summary.most_sessions)),
            ("think time p50 / p90 / p99", _spread(summary.think)),
            ("transaction p50 / p90 / p99", _spread(summary.transaction)),
        )
    )


def _errors(summary: TraceSummary) -> tuple[Block, ...]:
    counts = _counts(summary.errors, "SQLSTATE", "No statement failed.")
    if not (count := summary.unseen_timeouts):
        return (counts,)
    told = (
        f"{plural(count, 'statement')} of SQLSTATE 55P03 got no lock within a lock_timeout that no statement of the "
        "session had set: it is that of the role, the database or the server, which is in no log. In a replay the lock "
        "may be free by then, or the timeout not set: the expected error is missing there."
    )
    return counts, Prose((told,))


def _refused(summary: TraceSummary) -> tuple[Block, ...]:
    method = "COPY, LISTEN and cursors go by the log alone: what the client sent beside a statement is not in it."
    told = [method]
    if summary.pipelined:
        told.append(
            f"{agreeing(summary.pipelined, 'transaction', 'was', 'were')} sent as a pipeline, several statements "
            "without a BEGIN: they are committed together, though each waits for the answer to the one before."
        )
    return (_counts(summary.refused, "reason", "Every statement may be sent again."), Prose((" ".join(told),)))


def _who(summary: TraceSummary) -> tuple[Block, ...]:
    named = (("user", summary.users), ("database", summary.databases), ("application", summary.applications))
    return tuple(_counts(counts, name, "Unknown.") for name, counts in (*named, ("kind of row", summary.kinds)))


def _counts(counts: Mapping[str, int], name: str, none: str) -> Block:
    if not counts:
        return Prose((none,))
    rows = tuple((key, f"{count:,}") for key, count in counts.items())
    return TableBlock(Table((name, "count"), rows, ("count",)), f"By {name}:")


def _spread(spread: Spread) -> str:
    if spread.p50 is None:
        return "unknown: there is none"
    return " / ".join(_ms(one) for one in (spread.p50, spread.p90, spread.p99)) + " ms"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _ms(value: float | None) -> str:
    return "unknown" if value is None else rounded(value, 3)
