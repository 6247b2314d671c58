"""`pgdyno compare --replay A B`: a replay held against its capture, or against another replay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.reporting import emit
from pgdyno.errors import UsageError
from pgdyno.outside.files import is_file, is_there

if TYPE_CHECKING:
    from pgdyno.studies.replay.amendments import FixedBefore
    from pgdyno.trace.compared_rows import ReplaySide
    from pgdyno.trace.comparing import Rules
    from pgdyno.trace.outcome_file import OutcomeFacts


def replays_command(flags: CompareFlags, first: Path, second: Path) -> int:
    """Compare B with A and write the page; the exit code is that of the verdict, 3 for a run that does not count."""
    from pgdyno.model.shapes import plain
    from pgdyno.report.replay_page import replay_page
    from pgdyno.report.wording import capital
    from pgdyno.trace.comparing import compare_replay

    again, kept = flags.again, flags.outcome
    _refuse_one_twice(first, second, again)
    trace = flags.trace or _trace_of(first, second)
    _refuse_others(trace, (first, second, again, kept))
    fixed = {path: before for path in (first, second, again, kept) if path and (before := _fixed(flags, path))}
    rules = _rules(flags, fixed.get(kept or second))
    sides = {path: _side(path, trace, fixed.get(path)) for path in (first, second, again, kept) if path is not None}
    if again is not None and sides[again].is_capture:
        hint = "Name the outcome of a second replay on the platform of A."
        raise UsageError(f'--again "{again}" is the capture itself, not a run of it', hint=hint)
    if kept is not None and not sides[kept].outcome:
        raise UsageError(
            f'--outcome "{kept}" is not the outcome of a replay', hint="Name the folder that pgdyno replay made."
        )
    found = compare_replay(
        trace,
        sides[first],
        sides[second],
        again=None if again is None else sides[again],
        kept=None if kept is None else sides[kept],
        rules=rules,
    ).alone()
    found = replace(
        found,
        amendments=tuple(told for one in fixed.values() for told in one.amendments),
        notes=(*found.notes, *(f"{capital(one.unknown)}." for one in fixed.values() if one.unknown)),
    )
    if flags.as_json and flags.output is None:
        click.echo(json.dumps(plain(found)))
    else:
        emit(replay_page(found, ratio_limit=rules.effect.ratio), flags.wanted, flags.output)
    return int(found.exit_code)


def _side(path: Path, trace: Path, before: FixedBefore | None) -> ReplaySide:
    """Return what a path stands for: the capture, an outcome's folder or file, or a server's log as a trace."""
    from pgdyno.trace.compared_rows import ReplaySide, is_outcome, side_of
    from pgdyno.trace.outcome_file import FACTS, recover

    if path.is_dir():
        if is_there(path / FACTS):
            recover(path)
        side = side_of(path)
        return side if before is None else replace(side, speed=before.speed)
    if is_outcome(path):
        return ReplaySide(str(path), (path,))
    return ReplaySide("the capture") if _same(path, trace) else ReplaySide(str(path), log=path)


def _trace_of(first: Path, second: Path) -> Path:
    """Return the trace where no flag names it: A where it is one, else that of which an outcome says it is a replay."""
    from pgdyno.trace.compared_rows import is_outcome

    if first.is_file() and not is_outcome(first):
        return first
    for path in (first, second):
        facts = _facts(path)
        if facts is not None and is_file(Path(facts.trace)):
            return Path(facts.trace)
    raise UsageError(
        f'the trace of "{second}" is not known', hint="Name the file of which it is a replay with --trace."
    )


def _facts(path: Path) -> OutcomeFacts | None:
    """Return what is known of a run; None where nothing stands beside its parts."""
    from pgdyno.trace.outcome_file import FACTS, read_facts

    return read_facts(path) if is_there(path / FACTS) else None


def _refuse_one_twice(first: Path, second: Path, again: Path | None) -> None:
    """Refuse a run that is held against itself: it is as fast in each transaction, which two runs never are."""
    if _same(first, second):
        raise UsageError(f'"{second}" is both sides of the comparison', hint="Name two runs, or the trace and a run.")
    for side in (first, second):
        if again is not None and _same(side, again):
            raise UsageError(
                f'--again "{again}" is one of the two sides', hint="Name a second replay on the platform of A."
            )


def _refuse_others(trace: Path, paths: tuple[Path | None, ...]) -> None:
    """Refuse outcomes that say they are replays of another trace."""
    from pgdyno.trace.parquet import meta_path, read_meta

    known = [(path, facts.trace_digest) for path in paths if path and (facts := _facts(path)) and facts.trace_digest]
    if not known or not is_there(meta_path(trace)):
        return
    digest = read_meta(trace).digest
    for path, other in known:
        if digest and other != digest:
            raise UsageError(
                f'outcome "{path}" is a replay of another trace than "{trace}"',
                hint="Name the trace that both sides replayed with --trace.",
            )


def _fixed(flags: CompareFlags, path: Path) -> FixedBefore | None:
    """Return what was fixed before the run of an outcome, as the store has it; None of what is none."""
    from pgdyno.studies.replay.amendments import fixed_before

    facts = _facts(path)
    if facts is None:
        return None
    return fixed_before(str(path), facts, open_store(flags.store_url) if facts.study else None)


def _rules(flags: CompareFlags, before: FixedBefore | None) -> Rules:
    """Return the rules of the flags; a limit of errors that was fixed before the replay cannot be changed after it."""
    from pgdyno.model.replay_comparison import Limits
    from pgdyno.stats.class_verdicts import EffectLimits
    from pgdyno.stats.delays import DURATION_BOUNDS_MS
    from pgdyno.trace.comparing import Rules

    asked, fixed = flags.error_limit, None if before is None else before.error_limit_percent
    if asked is not None and fixed is not None and asked != fixed:
        raise UsageError(
            f"the error limit of this run was fixed at {fixed:g} % before it began",
            hint="Leave --error-limit out, or replay with the other limit.",
        )
    try:
        parsed = (
            tuple(float(word) for word in flags.duration_classes.split(","))
            if flags.duration_classes
            else DURATION_BOUNDS_MS
        )
    except ValueError as error:
        raise UsageError(
            f'--duration-classes "{flags.duration_classes}" are not milliseconds',
            hint="Write --duration-classes 101,501,1001.",
        ) from error
    limit = fixed if asked is None else asked
    limits = Limits() if limit is None else Limits(error_percent=limit)
    return Rules(
        limits=limits,
        effect=EffectLimits(ratio=1 + flags.effect_percent / 100, least_ms=flags.effect_ms),
        required_percent=flags.required,
        duration_bounds_ms=parsed,
    )


def _same(one: Path, other: Path) -> bool:
    return is_there(one) and is_there(other) and one.samefile(other)
