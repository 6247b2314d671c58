"""Why the winner wins, in sentences made from what was measured: never only a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.model import linux
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.trial import Trial, WorkloadSpec
from pgdyno.model.verdict import Metric, Verdict, Word
from pgdyno.probes.bottleneck_notes import physical_share
from pgdyno.studies.pairs.judging import median_of
from pgdyno.units import bytes_text, digits_text, parse_quantity, percent_text

SHARED_BUFFERS = "shared_buffers"
MISSING = 0.01
"""Where less of the touched blocks is missing from shared buffers, reads do not explain a gain."""
SLOWEST_READ_MS, WORTH_TELLING = 10.0, 0.05
"""A random read of a disk that turns; what reads save at that price must be so much of the time that was gained."""
LESS = 0.1
"""A share that fell by less than this is not told as a change."""


def explain(
    baseline: Sequence[Trial],
    winner: Sequence[Trial],
    settings: Configuration,
    facts: Facts,
    workload: WorkloadSpec,
    verdicts: Sequence[Verdict] = (),
) -> list[str]:
    """Return the sentences, each resting on a counter of both arms; a counter that is unknown makes no sentence.

    `baseline` and `winner` are the runs of both arms, and `settings` is what the winner sets. `facts` has the settings
    before, the block size and the memory of the host; `workload` says whether the load only reads. What `verdicts`
    judge is told as they do; of any other metric the medians are compared.
    """
    before, after = _per_transaction(baseline), _per_transaction(winner)
    reads = (_reads_became_hits(before, after, facts), _double_buffering(before, after, settings, facts))
    candidates = (
        *(() if _is_dwarfed(before, after, baseline, winner) else reads),
        _cpu(baseline, winner, verdicts),
        user_time(baseline, winner, settings, verdicts),
        *_written(before, after, workload),
    )
    return [sentence for sentence in candidates if sentence]


def _is_dwarfed(
    before: dict[str, float], after: dict[str, float], baseline: Sequence[Trial], winner: Sequence[Trial]
) -> bool:
    """Tell whether a transaction became faster by far more than the reads that it no longer makes can take."""
    was, now = median_of(baseline, Metric.LATENCY_P50), median_of(winner, Metric.LATENCY_P50)
    if was is None or now is None or not {"blks_read"} <= before.keys() & after.keys():
        return False
    saved_ms = SLOWEST_READ_MS * (before["blks_read"] - after["blks_read"])
    return saved_ms < WORTH_TELLING * (was - now)


def _per_transaction(trials: Sequence[Trial]) -> dict[str, float]:
    """Return each counter per transaction, pooled over the trials' windows.

    The server's own count of transactions is the divisor: it arrives with the same delay as the other counters.
    """
    totals: dict[str, float] = {}
    for trial in trials:
        for name, value in (trial.outcome.counters if trial.outcome else {}).items():
            totals[name] = totals.get(name, 0.0) + value
    transactions = totals.get("xact_commit", 0.0) + totals.get("xact_rollback", 0.0)
    return {name: value / transactions for name, value in totals.items()} if transactions else {}


def _became_hits(before: dict[str, float], after: dict[str, float]) -> bool:
    """Tell whether fewer blocks are missing from shared buffers: of those touched, and for each transaction."""
    was, now = _miss_share(before), _miss_share(after)
    return (
        was is not None
        and now is not None
        and was >= MISSING
        and now <= (1 - LESS) * was
        and after["blks_read"] <= (1 - LESS) * before["blks_read"]
    )


def _miss_share(counters: dict[str, float]) -> float | None:
    if not {"blks_read", "blks_hit"} <= counters.keys():
        return None
    touched = counters["blks_read"] + counters["blks_hit"]
    return counters["blks_read"] / touched if touched > 0 else None


def _reads_became_hits(before: dict[str, float], after: dict[str, float], facts: Facts) -> str | None:
    was, now = _miss_share(before), _miss_share(after)
    if was is None or now is None or not _became_hits(before, after):
        return None
    touched, size = before["blks_read"] + before["blks_hit"], bytes_text(before["blks_read"] * facts.server.block_size)
    return (
        f"Reads became hits: per transaction {_blocks(before['blks_read'])} of {_blocks(touched)} blocks "
        f"({100 * was:.0f} %) were not in shared buffers and had to be copied in ({size}); "
        f"with the winner {_blocks(after['blks_read'])} ({100 * now:.0f} %) are."
    )


def _blocks(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 or count == 0 else digits_text(count, 2)


def _double_buffering(
    before: dict[str, float], after: dict[str, float], settings: Configuration, facts: Facts
) -> str | None:
    """Say where the missing blocks came from: the kernel's page cache, unless the disk was read as much."""
    if "disk_read_bytes" not in before or not {SHARED_BUFFERS} <= settings.keys() & facts.settings.keys():
        return None
    if not _became_hits(before, after):
        return None
    physical = physical_share(before["blks_read"], facts.server.block_size, before["disk_read_bytes"])
    if physical is None:
        return None
    if physical > 0.5:
        return (
            f"{100 * physical:.0f} % of those blocks came from the disk: the working set fits neither shared buffers "
            "nor the kernel's page cache."
        )
    old = float(facts.settings[SHARED_BUFFERS].setting) * facts.server.block_size
    new = parse_quantity(settings[SHARED_BUFFERS], facts.settings[SHARED_BUFFERS].unit) * facts.server.block_size
    ram = facts.host.ram_bytes
    of_ram = "" if isinstance(ram, Unknown) else f" of this machine's {bytes_text(ram)}"
    gone = 1 - after["blks_read"] / before["blks_read"]
    return (
        f"Double buffering: {100 * (1 - physical):.1f} % of those copies were served by the kernel's page cache and "
        "not by the disk. The pages were in memory already, once in the page cache; each read copied them again into "
        f"{bytes_text(old)} of shared buffers, which soon evicted them. With {bytes_text(new)}{of_ram}, "
        f"{100 * gone:.0f} % of these copies are no longer made."
    )


def _cpu(baseline: Sequence[Trial], winner: Sequence[Trial], verdicts: Sequence[Verdict]) -> str | None:
    before, ratio = median_of(baseline, Metric.SERVER_CPU), _ratio(Metric.SERVER_CPU, baseline, winner, verdicts)
    if before is None or ratio is None or abs(ratio - 1) < 0.02:
        return None
    word, after = "fell" if ratio < 1 else "rose", f"{digits_text(before * ratio)} ms"
    share = f"{digits_text(100 * ratio, 2)} % of it"
    return f"Server CPU per transaction {word} from {digits_text(before)} ms to {after} ({share})."


def _ratio(
    metric: Metric, baseline: Sequence[Trial], winner: Sequence[Trial], verdicts: Sequence[Verdict]
) -> float | None:
    """Return the winner's figure over the baseline's: of the verdict, else of medians. None: no difference is shown."""
    verdict = next((one for one in verdicts if one.metric is metric), None)
    if verdict is not None:
        return verdict.interval.ratio if verdict.word in (Word.BETTER, Word.WORSE) else None
    before, after = median_of(baseline, metric), median_of(winner, metric)
    return None if before is None or after is None else after / before


def user_time(
    baseline: Sequence[Trial], winner: Sequence[Trial], settings: Configuration, verdicts: Sequence[Verdict] = ()
) -> str | None:
    """Say whether a gain of the scheduler's migration cost shows as user time, as its source has it; else None.

    A machine that does more useful work spends more time in user code. A gain without it deserves doubt. `baseline` and
    `winner` are the runs of both arms, and `settings` is what the winner sets. Whether there is a gain the verdict on
    throughput says, where `verdicts` has it, else the medians do.
    """
    if linux.MIGRATION_COST not in settings:
        return None
    before, after = _user_share(baseline), _user_share(winner)
    if before is None or after is None:
        return None
    gain = _ratio(Metric.THROUGHPUT, baseline, winner, verdicts)
    figures = f"User time went from {percent_text(before, 1)} to {percent_text(after, 1)} of all CPUs"
    if gain is not None and gain > 1 and after <= before:
        return f"{figures}: throughput rose and user time did not, which a lower migration cost does not explain."
    return f"{figures}."


def _user_share(trials: Sequence[Trial]) -> float | None:
    counted = [trial.outcome.counters for trial in trials if trial.outcome]
    capacity = sum(counters.get("cpu_capacity_s", 0.0) for counters in counted)
    return sum(counters.get("user_cpu_s", 0.0) for counters in counted) / capacity if capacity else None


def _written(before: dict[str, float], after: dict[str, float], workload: WorkloadSpec) -> Iterator[str]:
    """Yield what became of temporary files and WAL, and that a load which only reads writes none."""
    was, now = before.get("temp_bytes"), after.get("temp_bytes")
    if was is not None and now is not None and was >= 8192 and now <= 0.9 * was:
        files = f"{bytes_text(was)} of temporary files per transaction became {bytes_text(now)}"
        yield f"Sorts and hashes spill less: {files}."
    was, now = before.get("wal_bytes"), after.get("wal_bytes")
    if was is not None and now is not None and was >= 64 and abs(now / was - 1) >= 0.1:
        yield f"WAL per transaction went from {bytes_text(was)} to {bytes_text(now)}."
    if workload.read_only:
        yield (
            "This load only reads. Under writes, checkpoints and WAL come in as well: measure again before carrying "
            "this over."
        )
