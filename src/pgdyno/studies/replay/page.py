"""The page of a replay: first whether it counts, then how it was answered."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.parts.contents import ContentsComparison
from pgdyno.model.results.replay import KeysKept, ReplayResult
from pgdyno.model.study import Study, StudyState
from pgdyno.report.judgement import standing
from pgdyno.report.page_frame import observed
from pgdyno.report.sections import FactList, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital
from pgdyno.studies.replay.blocks import COUNTED_WITH, answers_table, lateness_table
from pgdyno.studies.replay.kind import KIND
from pgdyno.studies.replay.words import COUNTS, VOID, judgement
from pgdyno.units import digits_text, plural, seconds_text

_UNSEEN_KEYS = (
    "Values in arrays and in expressions, and constants in statements of the extended protocol, are sent as captured; "
    "those that equal a key of the column beside them are counted above, of each array the first 1,000."
)
_METHOD = (
    "Each statement is due at its captured moment, divided by the speed, and is sent then or, where its session "
    "waits for an answer, right after it. Lateness is split into what the injector, the order between sessions and "
    "the server caused.",
    "Before anything was sent, the target was proved not to be the source.",
)


def replay_page(record: StudyRecord) -> Report:
    """Return the report, of a replay that still runs or was interrupted too."""
    study, result = record.study, record.study.told(ReplayResult)
    sections = _left(study) if result is None else _sections(result)
    told = standing(study) if result is None else judgement(result)
    tiles, lead = () if result is None else _tiles(result), f"A captured load, sent to {study.target}"
    return observed(record, told, sections, sections, _METHOD, done="sent", lead=lead, tiles=tiles)


def _left(study: Study) -> tuple[Section, ...]:
    """Return what is left of a run that has ended without a result."""
    if study.state is StudyState.RUNNING:
        return ()
    told = (f"{capital(KIND.after_kill(study))}.",)
    return (Section("left", "What is left", "What did it do until then?", (Prose(told),)),)


def _tiles(result: ReplayResult) -> tuple[Tile, ...]:
    tone = Tone.GOOD if result.is_valid else Tone.BAD
    injector = result.fidelity.lateness[0]
    off = result.fidelity.rate_off_percent
    return (
        Tile(
            "sent",
            f"{result.fidelity.sent:,}",
            f"of {result.fidelity.statements:,}",
            f"{digits_text(result.speed, 4)} x the captured schedule",
            COUNTS if result.is_valid else VOID,
            tone,
        ),
        Tile(
            "lateness of the injector",
            f"{injector.p99:,.2f} ms",
            "99th percentile",
            f"limit {digits_text(result.fidelity.injector_limit_ms or 0, 3)} ms",
            "",
            Tone.NEUTRAL,
        ),
        Tile(
            "schedule",
            seconds_text(result.wanted_s),
            "wanted",
            "unknown" if off is None else f"{off:+.2f} % by injector and gates",
            "",
            Tone.NEUTRAL,
        ),
    )


def _sections(result: ReplayResult) -> tuple[Section, ...]:
    kept = Section(
        "fidelity",
        "Was the schedule kept?",
        "Does this run count, and who was late?",
        (
            *((Notice(result.fidelity.invalid),) if result.fidelity.invalid else ()),
            TableBlock(
                lateness_table(result.fidelity.lateness),
                "Only the injector and the gates can void a run; a slow server is what is measured.",
            ),
            FactList(
                (
                    ("ended", result.ended),
                    ("speed", f"{digits_text(result.speed, 4)}, the {digits_text(result.level, 4)} % level"),
                    ("clock", result.clock),
                    (
                        "order between sessions",
                        f"{result.order}; {plural(result.gated, 'statement')} waited by it, "
                        f"{plural(result.stalls, 'stall')}"
                        if result.gated
                        else "not kept",
                    ),
                    *_state(result),
                    *_stood_for(result),
                    ("schedule", seconds_text(result.wanted_s)),
                    *_paused(result),
                    ("last answer", f"after {seconds_text(result.took_s)}"),
                    ("sent by", f"{result.engine}; it took {seconds_text(result.cpu_s)} of CPU"),
                    *((name, seconds_text(value)) for name, value in result.phases.items()),
                )
            ),
            *((Prose(result.fidelity.warnings),) if result.fidelity.warnings else ()),
        ),
    )
    lost = tuple(f"{plural(count, 'session')}: {reason}" for reason, count in result.reasons.items())
    errors = Section(
        "answers",
        "How was it answered?",
        "Are the answers those of the capture?",
        (
            TableBlock(answers_table(result.answers), COUNTED_WITH),
            *((Notice(lost),) if lost else ()),
        ),
    )
    names = tuple(result.service_ms)
    times = Table(
        ("time", *(f"{name} ms" for name in names)),
        (
            ("service: from sending", *(f"{result.service_ms[name]:,.3f}" for name in names)),
            ("response: from the due moment", *(f"{result.response_ms[name]:,.3f}" for name in names)),
        ),
        tuple(f"{name} ms" for name in names),
    )
    caption = "As this injector saw them, network included; of statements without an error."
    waited = Section("times", "How long did it take?", "What would callers have waited?", (TableBlock(times, caption),))
    keys = () if result.keys is None else (_keys(result.keys),)
    return (kept, errors, *keys, *([waited] if names else []), *([_data(result.data)] if result.data else []))


def _keys(keys: KeysKept) -> Section:
    known = keys.captured - sum(keys.without.values())
    facts = (
        ("captured", f"{plural(keys.captured, 'key')} that the source made"),
        ("mapped", f"{known:,}: answers of the replay bring its own; of those named later {keys.learned:,} came"),
        *((f"not mapped, {count:,}", reason) for reason, count in keys.without.items()),
        ("named later", f"in {plural(keys.named, 'place')} of statements"),
        ("sent as this replay's key", plural(keys.sent, "place")),
        ("sent as captured", f"{plural(keys.unknown, 'place')}, as the key had not come back before"),
        *((f"left as captured, {count:,}", why) for why, count in keys.left.items()),
    )  # fmt: skip
    lost = f"{plural(keys.unplaced, 'transaction')} with keys could not be told from others, by id or by time"
    return Section(
        "keys", "Were generated keys kept apart?", "Did statements find the rows that they meant?",
        (FactList(facts), Prose((_UNSEEN_KEYS,)), *((Notice((lost,)),) if keys.unplaced else ())),
    )  # fmt: skip


def _data(compared: tuple[ContentsComparison, ...]) -> Section:
    differing = [(one.database, table) for one in compared for table in one.different]
    figures = ("rows", "missing", "extra", "changed")
    table = Table(
        ("database", "table", *figures),
        tuple(
            (name, one.table, f"{one.rows_a:,}", f"{one.missing:,}", f"{one.extra:,}", f"{one.changed:,}")
            for name, one in differing
        ),
        figures,
    )
    lines = tuple(line.strip() for one in compared for line in one.lines())
    block = (TableBlock(table, "Missing rows are in the expected data alone, extra ones in the target alone."),)
    return Section(
        "data", "Are the data the same?", "Which rows differ at the end?",
        (*(block if differing else ()), Prose(lines, points=True)),
    )  # fmt: skip


def _paused(result: ReplayResult) -> tuple[tuple[str, str], ...]:
    """Return a line for each pause of the run."""
    return tuple(
        (
            "paused",
            f"from {seconds_text(one.begin_s)} to {seconds_text(one.end_s)} after the begin, "
            f"{seconds_text(one.seconds)}"
            + (f"; {plural(one.open_sessions, 'session')} did not rest" if one.open_sessions else ""),
        )
        for one in result.pauses
    )


def _stood_for(result: ReplayResult) -> tuple[tuple[str, str], ...]:
    """Return whose sessions somebody else opened, and what of theirs is missing for it."""
    if not result.stood_for:
        return ()
    roles = f"{result.stand_in}, who took on {'the role' if len(result.stood_for) == 1 else 'each role'}"
    return (
        (
            f"sessions of {', '.join(result.stood_for)}",
            f"opened by {roles} by SET SESSION AUTHORIZATION, as the password is not known; "
            "settings that ALTER ROLE gave to it do not apply",
        ),
    )


def _state(result: ReplayResult) -> tuple[tuple[str, str], ...]:
    """Return from which state the run began, where that was brought back."""
    caches = (("caches at the begin", result.cache),) if result.cache else ()
    if not result.restored_by:
        return (("state at the begin", "as it was found; not brought back by this run"), *caches)
    took = "" if result.restored_s is None else f", in {seconds_text(result.restored_s)}"
    return (("state at the begin", f"{result.restored_by}{took}"), *caches)
