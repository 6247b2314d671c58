"""What a tune's page says of the answer: what to change, what each setting is worth, how it is undone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.results.tune import Effect, JointEffect, Retained, TuneResult
from pgdyno.model.verdict import Verdict
from pgdyno.report import figures
from pgdyno.report.sections import Block, Charts, Prose, Section, Snippet, TableBlock
from pgdyno.report.wording import (
    CONTEXT_MEANINGS,
    DURABILITY_MEANINGS,
    change_text,
    difference_text,
    number_text,
    range_text,
    sentence,
    share_text,
)
from pgdyno.studies.tune.kind import together_text, unproved_text
from pgdyno.units import bytes_text, parse_quantity, plural

UNEXPLAINED = "No counter of the server moved enough to explain the gain: the pairs show it, its reason is not known."
BLOCK_BYTES = 8192
"""The unit of a shared_buffers without one; every build of PostgreSQL but a patched one has it."""
UNMEASURED = ("not measured alone", "")
"""What stands for the effect of a setting that the proof did not leave out alone, nor together with others."""


def change(result: TuneResult, verdict: Verdict | None, data_bytes: float | None) -> Section | None:
    """Say what to change, what each change is worth, and how to undo it; or that nothing is to be changed."""
    question = "Which settings, what is each one worth, how do I undo it?"
    settings, retained = winner_of(result), result.retained
    if result.keep:
        return Section("change", "What to change", question, keep_blocks(result, verdict))
    if not settings:
        return None
    said = (
        need_text(len(settings), retained, result.joint),
        size_text(settings, data_bytes),
        unpruned_text(result, settings),
    )
    blocks: list[Block] = [Prose(tuple(text for text in said if text))]
    effects = [one for one in retained if isinstance(one, Effect)]
    if retained:
        alone = "The only setting: its effect is that of the whole change."
        each = "Each effect is that of the winner against the winner without it." if effects else ""
        blocks.append(TableBlock(effects_table(retained, result.joint), alone if len(settings) == 1 else each))
        blocks.append(Prose(tuple(f"{one.knob}: {one.why}" for one in retained if one.why), points=True))
    if len(effects) > 1:
        smallest = verdict.smallest_effect if verdict else 0.0
        blocks.append(Charts((figures.forest(effects, smallest_effect=smallest, total=verdict),)))
    blocks += snippets(result, settings)
    blocks.append(apply_snippet(result))
    undo = result.undo or "Remove these lines again, then restart or reload PostgreSQL."
    blocks.append(Snippet("Undo", undo))
    return Section("change", "What to change", question, tuple(blocks))


def winner_of(result: TuneResult) -> Configuration:
    """Return the settings of the winner, or of the best candidate where the configuration stays."""
    return Configuration.of({} if result.winner is None else result.winner.settings)


def apply_snippet(result: TuneResult) -> Snippet:
    """Return the command that puts the winner in force."""
    return Snippet("Apply it, with an undo", f"pgdyno apply --study {result.study}")


def snippets(result: TuneResult, settings: Configuration) -> tuple[Block, ...]:
    """Return what is to be copied: lines for the server, and for the host where Linux knobs are among them."""
    server = result.fragment or settings.postgresql().fragment()
    host = "".join(f"{name} = {value}\n" for name, value in settings.linux().items())
    found = (("Lines for postgresql.conf", server), ("For the host: pgdyno persist makes the files", host))
    return tuple(Snippet(title, text) for title, text in found if text)


def keep_blocks(result: TuneResult, verdict: Verdict | None) -> tuple[Block, ...]:
    """Say that the configuration stays, and name the best candidate, which did not prove better."""
    if verdict is None:
        return (Prose((f"Nothing: {unproved_text(result)}.",)),)
    best = result.best
    said = ["Nothing: keep your configuration. None that was tried proved better."]
    together = result.together
    if together is not None and result.is_only_together:
        said = [f"Nothing: keep your configuration. {together_text(result)}; a longer tune may tell which matter."]
        said.append(f"{sentence(together, 'all that was found', 'the baseline')}.")
    said.append(f"{sentence(verdict, 'the best candidate', 'the baseline')}.")
    if not best:
        return (Prose(tuple(said)),)
    said.append(
        f"The best candidate changed {plural(len(best), 'setting')}. Do not apply it: it is listed for the record."
    )
    rows = tuple(best.items())
    return (Prose(tuple(said)), TableBlock(Table(("setting", "value"), rows), "The best candidate.", folded=True))


def need_text(count: int, retained: Sequence[Retained], joint: JointEffect | None = None) -> str:
    """Say how many settings change and what the change interrupts; nothing of that where one is not listed."""
    contexts = {one.context for one in retained}
    if "postmaster" in contexts:
        need = "PostgreSQL has to be restarted once."
    elif len(retained) < count:
        need = "Whether they need a restart was not kept: pg_settings.context says it."
    elif contexts == {"kernel"}:
        need = "No restart and no reload: the kernel takes them while PostgreSQL runs, and keeps them until it boots."
    elif contexts & {"backend", "superuser-backend"}:
        need = "A reload is enough; sessions that are open keep what they have."
    else:
        need = "A reload is enough; nobody is disconnected."
    together = () if joint is None else joint.knobs
    unmeasured = sum(not isinstance(one, Effect) and one.knob not in together for one in retained)
    alone = f" {unmeasured} of them {'was' if unmeasured == 1 else 'were'} not measured alone: the notes say why."
    some = f" {len(together)} of them were measured together: which of these matter is not known."
    return f"{plural(count, 'setting')} to change. {need}{some if together else ''}{alone if unmeasured else ''}"


def size_text(settings: Configuration, data_bytes: float | None) -> str:
    """Tell a new shared_buffers against the size of the data; empty when one of them is not known."""
    if "shared_buffers" not in settings or not data_bytes:
        return ""
    buffers = parse_quantity(settings["shared_buffers"], "8kB") * BLOCK_BYTES
    told = f"shared_buffers of {bytes_text(buffers)} against {bytes_text(data_bytes)} of data: "
    if buffers >= data_bytes:
        return f"{told}all of it fits. With more data, size it by the part that is in use."
    return f"{told}{number_text(buffers / data_bytes * 100)} % of it fits."


def unpruned_text(result: TuneResult, settings: Mapping[str, str]) -> str:
    """Say what leaving out the other settings of the search's best configuration cost."""
    verdict, best, taken_back = result.unpruned, result.search.best, result.taken_back
    fewer = taken_back or settings
    if verdict is None or not verdict.interval.is_closed or len(best) <= len(fewer):
        return ""
    kept = (
        f"{next(iter(fewer))} alone"
        if len(fewer) == 1
        else f"the {len(fewer)} that {'pruning left' if taken_back else 'stayed'}"
    )
    every = "both" if len(best) == 2 else f"all {len(best)}"
    said = (
        f"The search's best configuration had {plural(len(best), 'setting')}. With {kept}, "
        f"{verdict.metric.label} is {share_text(verdict.interval)} of that with {every}: "
    )
    return f"{said}{'so all stay.' if taken_back else difference_text(verdict.interval, verdict.metric) + '.'}"


def effects_table(retained: Sequence[Retained], joint: JointEffect | None = None) -> Table:
    """Write the retained settings as a table in their order: what was measured first, the largest effect on top."""

    def effect(one: Retained) -> tuple[str, str]:
        if isinstance(one, Effect):
            return change_text(one.interval.ratio), range_text(one.interval)
        if joint is None or one.knob not in joint.knobs:
            return UNMEASURED
        return f"{change_text(joint.interval.ratio)} with {plural(len(joint.knobs) - 1, 'other')}", range_text(
            joint.interval
        )

    rows = tuple(
        (
            one.knob,
            one.before,
            one.after,
            *effect(one),
            CONTEXT_MEANINGS.get(one.context, one.context),
            DURABILITY_MEANINGS.get(one.durability, one.durability or "unknown"),
        )
        for one in retained
    )
    columns = ("setting", "from", "to", "effect", "interval", "needs", "durability class")
    return Table(columns, rows, ("effect", "interval"))


def explanation(result: TuneResult) -> Section | None:
    """Give the sentences that say why the change works, with the measured numbers in them."""
    sentences = result.explanation
    if not sentences:
        if result.keep or not winner_of(result):
            return None
        sentences = (UNEXPLAINED,)
    title = "What the best candidate did" if result.keep else "Why it works"
    return Section("why", title, "What did the server do differently?", (Prose(sentences, points=True),))
