"""Several runs of a trace, each from the same state, old and new by turns; and what all of them say together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.replay_comparison import ReplayComparison
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.verdict import Word
from pgdyno.replay.captured import asked_of
from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.replay.restore import Restore, StateBack, bring_back
from pgdyno.replay.target_facts import identify, require_another
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.run import Ready, prepare, replay
from pgdyno.studies.replay.slips import require_known, require_new, require_no_stop, require_restored
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.compared_rows import side_of
from pgdyno.trace.comparing import Rules, compare_replay
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.parquet import read_meta
from pgdyno.units import plural, seconds_text

OLD, NEW = "old", "new"
_STARTED = "SELECT pg_catalog.pg_postmaster_start_time()::text AS at"
LEAST_RUNS = 3
"""Of each side for a word on them: what one pair of runs says, chance may have said."""


@dataclass(frozen=True, slots=True)
class ReplayArm:
    """What is replayed to, by its name in a comparison."""

    name: str
    target: Target
    request: TargetRequest
    options: ReplayOptions


@dataclass(frozen=True, slots=True)
class PairWord:
    """What one old and one new run say."""

    word: Word
    sentence: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """All runs, in their order, and what the pairs of them say; none where there is one side alone."""

    results: tuple[ReplayResult, ...]
    pairs: tuple[PairWord, ...]

    @property
    def exit_code(self) -> ExitCode:
        """Return that of the word on all pairs, else the first that is not 0 of the runs."""
        if not self.pairs:
            return next((one.exit_code for one in self.results if one.exit_code), ExitCode.OK)
        if any(one.exit_code is ExitCode.RESTORED for one in self.results):
            return ExitCode.RESTORED
        word, _ = said_together(self.pairs)
        codes = {Word.WORSE: ExitCode.FINDINGS, Word.NOT_RESOLVED: ExitCode.NOT_RESOLVED}
        return codes.get(word, ExitCode.OK)


def rounds_json(found: Rounds, runs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return what several runs say as one object; `runs` are they themselves, in their order."""
    word, sentence = said_together(found.pairs) if found.pairs else (None, None)
    pairs = [{"word": one.word.value, "sentence": one.sentence} for one in found.pairs]
    return {"runs": list(runs), "pairs": pairs, "word": None if word is None else word.value, "sentence": sentence}


def turns(names: Sequence[str], runs: int) -> Iterator[tuple[int, str]]:
    """Give round and name of each run: the side that begins changes from round to round."""
    for number in range(1, runs + 1):
        for name in names if number % 2 else tuple(reversed(names)):
            yield number, name


def said_together(pairs: Sequence[PairWord]) -> tuple[Word, str]:
    """Return the word that all pairs have, and how many have which; no word of fewer pairs than three."""
    counts = {word: sum(one.word is word for one in pairs) for word in Word}
    told = ", ".join(f"{count} {word.value}" for word, count in counts.items() if count)
    if len(pairs) < LEAST_RUNS:
        return Word.NOT_RESOLVED, f"no verdict: at least {LEAST_RUNS} runs of each side are needed ({told})"
    if any(count == len(pairs) for count in counts.values()):
        word = pairs[0].word
        return word, f"{word.value}: all {plural(len(pairs), 'pair')} say so"
    return Word.NOT_RESOLVED, f"{Word.NOT_RESOLVED.value}: the pairs differ: {told}"


def outcome_of(output: Path, name: str, number: int, *, is_only: bool) -> Path:
    """Return the folder of a run's outcome: `output` for the only one, else beside it with `name` and `number`.

    `name` is that of the side and `number` that of the round, from 1 on; `is_only` says that no other run is made.
    """
    return output if is_only else output.with_name(f"{output.stem}-{name}-{number}{output.suffix}")


def known_of(side: ReplayArm) -> ReplayTarget:
    """Return who a target is, proved to be another server than the source before anything is brought back."""
    known = identify(side.target, read_facts(side.target))
    meta = read_meta(side.options.trace)
    require_another(known, meta.system_identifier or side.options.source_identifier)
    return known


def check_settings(target: Target, settings: Mapping[str, str]) -> None:
    """Raise UsageError on a setting that a session may not have of its own."""
    query = "SELECT name::text FROM pg_catalog.pg_settings WHERE context = 'user' AND name = ANY (%s)"
    known = {str(row["name"]) for row in target.postgres.fetch(query, [list(settings)])}
    if wrong := sorted(settings.keys() - known):
        raise UsageError(
            f'"{wrong[0]}" is not a setting that any session may change',
            hint="Set it on a second target, --versus CONNINFO, or measure it by pgdyno experiment -w replay:TRACE.",
        )


def require_apart(sides: Sequence[ReplayArm]) -> None:
    """Raise UsageError where the targets of two sides are one server, by when it was started: names may differ."""
    targets = {id(side.target): side.target for side in sides}.values()
    if len(targets) > len({str(target.postgres.fetch(_STARTED)) for target in targets}):
        raise UsageError(
            f"both sides are one server: {' and '.join(target.name for target in targets)}",
            hint="Name the new platform with --versus, or a setting of its sessions with --versus-set.",
        )


def check_rounds(sides: Sequence[ReplayArm], runs: int, restore: Restore | None) -> None:
    """Raise an error that names what would be in the way of one of the runs. Reads the trace, and the targets."""
    names, is_only = tuple(side.name for side in sides), len(sides) * runs == 1
    require_apart(sides)
    asked = asked_of(sides[0].options.trace)
    for side in sides:
        require_new(outcome_of(side.options.output, name, n, is_only=is_only) for n, name in turns(names, runs))
        require_no_stop(side.options)
        require_known(side.options, asked)
        if restore is not None:
            require_restored(restore, side.options, asked)
    for side in {side.target.name: side for side in sides}.values():
        known = known_of(side)
        if restore is not None:
            restore.check(side.target, known)


def run_rounds(
    store: Store,
    sides: Sequence[ReplayArm],
    runs: int,
    restore: Restore | None,
    *,
    announce: Callable[[str], None],
    teller: Callable[[Ready], Callable[[RunTally], None]],
) -> Rounds:
    """Run all sides by turns, each run from the state that `restore` brings back, and compare old with new.

    `sides` begin by turns, in their order in the first round; each has `runs` runs, every one a study in `store`. With
    `restore` None, runs begin with whatever the target holds. `announce` takes lines of progress; `teller` is called
    with each run that is about to begin, and returns what is given its counts so far about five times a second.

    Side effects on the targets: what `restore` and the captured statements do. Every target is proved again before its
    state is brought back, and after that. No run follows one that a guard ended: its target is not to be loaded so.
    """
    by_name, is_only = {side.name: side for side in sides}, len(sides) * runs == 1
    results = dict[tuple[str, int], ReplayResult]()
    for number, name in turns(tuple(by_name), runs):
        side = by_name[name]
        restored: StateBack | None = None
        if restore is not None:
            announce(f"restoring the state of {side.target.name} by {restore.words}")
            restored = bring_back(restore, side.target, known_of(side), time.monotonic)
            announce(f"state restored after {seconds_text(restored.seconds)}; caches: {restored.cache}")
        folder = outcome_of(side.options.output, name, number, is_only=is_only)
        options = replace(side.options, output=folder)
        ready = prepare(side.target, options)
        if not is_only:
            announce(f"run {number} of {runs}, {name}")
        follows = any(by_name[done].target.name == side.target.name for done, _ in results)
        told = replay(
            store, ready, side.request, options, announce=announce, tell=teller(ready), restored=restored,
            follows=follows,
        )  # fmt: skip
        results[name, number] = told
        if told.exit_code is ExitCode.RESTORED:
            announce(f"no further run: {told.ended}")
            break
    trace = sides[0].options.trace
    whole = [number for number in range(1, runs + 1) if {(OLD, number), (NEW, number)} <= results.keys()]
    pairs = [_pair(trace, results, number, runs) for number in whole]
    for number, one in enumerate(pairs, start=1):
        announce(f"pair {number}: {one.sentence}")
    if pairs:
        announce(f"{plural(len(pairs), 'pair')} together: {said_together(pairs)[1]}")
    return Rounds(tuple(results.values()), tuple(pairs))


def compared_pair(
    trace: Path, results: Mapping[tuple[str, int], ReplayResult], number: int, runs: int
) -> ReplayComparison | str:
    """Compare a new run with the old one of its round, the old one of the next standing for equal platforms.

    `trace` is the file that all runs sent. `number` is the round, from 1 to `runs`; `results` are by side and round.
    Reads the outcomes. Returns why nothing is told where a run of them does not count.
    """
    again = (OLD, number % runs + 1)
    keys = [(OLD, number), (NEW, number), *([again] if runs > 1 and again in results else [])]
    if void := void_runs({key: results[key] for key in keys}):
        return void
    old, new, *others = (side_of(Path(results[key].outcome)) for key in keys)
    rules = Rules(limits=results[keys[1]].fidelity.limits)
    return compare_replay(trace, old, new, again=others[0] if others else None, rules=rules)


def _pair(trace: Path, results: Mapping[tuple[str, int], ReplayResult], number: int, runs: int) -> PairWord:
    found = compared_pair(trace, results, number, runs)
    return PairWord(Word.NOT_RESOLVED, found) if isinstance(found, str) else PairWord(found.word, found.sentence)


def void_runs(results: Mapping[tuple[str, int], ReplayResult]) -> str:
    """Return which runs do not count, on whichever side, so that nothing is told by them; empty where all do."""
    void = [f"{name} {number}" for (name, number), result in results.items() if not result.is_valid]
    if not void:
        return ""
    return f"not resolved: {', '.join(void)} {'does' if len(void) == 1 else 'do'} not count"
