"""The self-test: on this machine equal is called equal, and three sabotages are found. Each case is a comparison.

A sabotage is a setting of class A or B that no one would choose and whose harm is known beforehand, so that what is
tested is the method here: target, load, clocks, noise and rule. Everything is undone like any other study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.knobs.policy import check_settings
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import Facts
from pgdyno.model.results.parts import Pair
from pgdyno.model.results.selftest import CaseRecord, CaseWord, SelftestResult
from pgdyno.model.trial import Role, Trial, TrialSpec
from pgdyno.model.verdict import Metric, Verdict, Word
from pgdyno.stats.sequential import Design, is_final
from pgdyno.studies.ab.run import A, B
from pgdyno.studies.pairs.blocks import Blocks, run_blocks
from pgdyno.studies.pairs.judging import verdict_of
from pgdyno.studies.pairs.result import pairs_of, parts_of
from pgdyno.trial.laboratory import Laboratory
from pgdyno.units import parse_quantity
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.study_data import StudyData

Parameters = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class SelftestCase:
    """One comparison with the server as it is, and the words in which it must end."""

    name: str
    what: str
    harm: str
    workload: str
    parameters: Parameters
    settings: Mapping[str, str]
    expected: tuple[Word, ...]

    def judge(self, word: Word) -> CaseWord:
        """Say what the word means for the test: a sabotage that is not resolved was not missed, only not shown."""
        if word in self.expected:
            return CaseWord.AS_EXPECTED
        return CaseWord.NOT_RESOLVED if word is Word.NOT_RESOLVED else CaseWord.MISSED


_LOOKUPS: Parameters = {"scale": 2}
YBIO_ROWS = 60_000
CASES = (
    SelftestCase(
        "equal",
        "the server as it is against itself",
        "none: whatever differs is noise",
        "select-only",
        _LOOKUPS,
        {},
        (Word.EQUIVALENT, Word.NOT_RESOLVED),
    ),
    SelftestCase(
        "cache",
        "shared_buffers starved to 1MB under scattered reads of 30 MB",
        "every page is read from the operating system again",
        "ybio",
        {"tab_rows": YBIO_ROWS, "batch_size": 2000},
        {"shared_buffers": "1MB"},
        (Word.WORSE,),
    ),
    SelftestCase(
        "planner",
        "random_page_cost so high that lookups of one row read the whole table",
        "the planner leaves the index",
        "select-only",
        _LOOKUPS,
        {"random_page_cost": "1000000"},
        (Word.WORSE,),
    ),
    SelftestCase(
        "wal",
        "commit_delay of 100 ms before each flush of the WAL",
        "each commit waits for others that do not come",
        "tpcb-like",
        {"scale": 2},
        {"commit_delay": "100000", "commit_siblings": "0"},
        (Word.WORSE,),
    ),
)
_CACHED_BYTES = 48 << 20
"""The least shared_buffers that the cache case starves; below it nothing would be lost."""


class _With:
    """A laboratory whose trials run a case's workload."""

    def __init__(self, laboratory: Laboratory, workload: Workload) -> None:
        self.study, self.store, self.company = laboratory.study, laboratory.store, laboratory.company
        self._laboratory, self._workload = laboratory, workload

    def run(self, spec: TrialSpec, /) -> Trial:
        return self._laboratory.run(spec, workload=self._workload)

    def expect(self, trials: int, *, at_most: bool = False) -> None:
        self._laboratory.expect(trials, at_most=at_most)


def chosen(names: Sequence[str]) -> tuple[SelftestCase, ...]:
    """Return the cases of these names in their order, all without a name."""
    return tuple(case for case in CASES if not names or case.name in names)


def obstacle(case: SelftestCase, facts: Facts) -> str | None:
    """Say why a sabotage would do no harm on this server, None when it should."""
    settings = {name: row.setting for name, row in facts.settings.items()}
    if case.name == "wal" and (settings.get("fsync") == "off" or settings.get("synchronous_commit") == "off"):
        return "commits do not wait for the WAL on this server (fsync or synchronous_commit is off)"
    if case.name == "cache":
        row = facts.settings.get("shared_buffers")
        if row is not None and float(row.setting) * parse_quantity(f"1{row.unit or 'B'}", "B") < _CACHED_BYTES:
            return "shared_buffers is smaller than the case's data already"
    return None


def run_selftest(
    laboratory: Laboratory,
    data: StudyData,
    cases: Sequence[SelftestCase],
    *,
    design: Design,
    seed: int,
    announce: Callable[[str], None],
) -> list[CaseRecord]:
    """Run the cases one after another; one that this machine cannot measure does not keep the others from theirs.

    `laboratory` runs the trials, and `data` makes ready what `cases` work on. `design` is how each case is judged,
    `seed` draws the order of its arms in each block, and `announce` takes lines of progress.
    """
    outcomes = []
    for number, case in enumerate(cases, start=1):
        announce(f"case {number} of {len(cases)}, {case.name}: {case.what}")
        outcome = _run_case(laboratory, data, case, design, seed, 1000 * number)
        word = f"{outcome.verdict.word.value}, " if outcome.verdict else ""
        announce(f"case {case.name}: {word}{outcome.result.value}" + (f": {outcome.reason}" if outcome.reason else ""))
        outcomes.append(outcome)
    return outcomes


def _run_case(
    laboratory: Laboratory,
    data: StudyData,
    case: SelftestCase,
    design: Design,
    seed: int,
    first_block: int,
) -> CaseRecord:
    reason = obstacle(case, laboratory.facts)
    if reason is not None:
        return record_of(case, CaseWord.NOT_RESOLVED, reason=reason)

    def is_enough(blocks: Blocks) -> bool:
        found = verdict_of(blocks, A, B, Metric.THROUGHPUT, design)
        return found is not None and is_final(found, design)

    try:
        workload = make_workload(case.workload, case.parameters)
        data.make_ready(workload, laboratory.facts, policy=laboratory.study.plan.reset)
        blocks = run_blocks(
            _With(laboratory, workload),
            {A: BASELINE, B: check_settings(case.settings, laboratory.facts)},
            {A: Role.ARM, B: Role.ARM},
            seed=seed,
            first_block=first_block,
            max_blocks=design.max_pairs,
            is_enough=is_enough,
            factors={"case": case.name, "workload": case.workload},
        )
    except (ApplyError, EnvironmentUnsuitable) as error:
        return record_of(case, CaseWord.NOT_RESOLVED, reason=error.one_line)
    verdict = verdict_of(blocks, A, B, Metric.THROUGHPUT, design)
    if verdict is None:
        return record_of(case, CaseWord.NOT_RESOLVED, reason="fewer than two pairs could be measured")
    return record_of(case, case.judge(verdict.word), verdict, pairs=pairs_of(blocks, A, B))


def record_of(
    case: SelftestCase,
    result: CaseWord,
    verdict: Verdict | None = None,
    reason: str | None = None,
    pairs: tuple[Pair, ...] = (),
) -> CaseRecord:
    """Return what came of a case; `reason` says why there is no verdict.

    `result` is how `case` ended. One that was judged has a `verdict`, its `pairs` block by block, and no `reason`; of
    any other, `verdict` is None and `pairs` is empty.
    """
    return CaseRecord(
        name=case.name,
        what=case.what,
        harm=case.harm,
        workload=case.workload,
        settings=dict(case.settings),
        expected=case.expected,
        result=result,
        reason=reason,
        verdict=verdict,
        pairs=pairs,
    )


def selftest_result(laboratory: Laboratory, cases: Sequence[CaseRecord]) -> SelftestResult:
    """Return the result; whether the server was restored is added when it was (`with_restored`)."""
    word, title = _summary([case.result for case in cases])
    return SelftestResult(**parts_of(laboratory), word=word, title=title, cases=tuple(cases))


def with_restored(result: SelftestResult, left: Sequence[str] | None, reason: str | None = None) -> SelftestResult:
    """Return the result with the case that the server is as it was: `left` names the settings that are not."""
    case = CaseRecord(
        name="restored",
        what="every setting of the server is what it was before",
        harm="",
        settings={},
        expected=(),
        result=CaseWord.NOT_RESOLVED if left is None else CaseWord.MISSED if left else CaseWord.AS_EXPECTED,
        reason=reason if left is None else f"still changed: {', '.join(left)}" if left else None,
        verdict=None,
        pairs=(),
    )
    cases = (*result.cases, case)
    word, title = _summary([one.result for one in cases])
    return replace(result, word=word, title=title, cases=cases)


def _summary(results: Sequence[CaseWord]) -> tuple[CaseWord, str]:
    failed, open_ = results.count(CaseWord.MISSED), results.count(CaseWord.NOT_RESOLVED)
    passed = results.count(CaseWord.AS_EXPECTED)
    word = CaseWord.MISSED if failed else CaseWord.NOT_RESOLVED if open_ else CaseWord.AS_EXPECTED
    counts = [f"{passed} of {len(results)} cases pass"]
    counts += [f"{failed} fail{'s' if failed == 1 else ''}"] if failed else []
    counts += [f"{open_} not resolved here"] if open_ else []
    return word, ", ".join(counts)


def changed_settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names whose values differ between two readings of pg_settings."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
