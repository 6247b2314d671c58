"""What a rehearsal would do, how it is undone and what it costs, in lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.model.linux import is_linux_knob
from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.studies.migrate.prepare import PreparedMove
from pgdyno.units import bytes_text, plural, seconds_text


def plan_lines(prepared: PreparedMove) -> list[str]:
    """Return the plan: each phase and what it waits for, then undo, outage and bounds."""
    plan, options, place = prepared.plan, prepared.options, prepared.place
    window = "no window" if options.window_s is None else f"a window of {seconds_text(options.window_s)}"
    filled = prepared.mover.fills_target
    goal = f'"{plan.target_database}" of {place.target.target.name}' if filled else f"a new cluster in {place.folder}"
    lines = [
        f'migration {plan.name}: database "{plan.database}" ({bytes_text(prepared.source_bytes)}) of '
        f"{place.source.target.name}, PostgreSQL {place.source.major}, to "
        f"{goal}, PostgreSQL {place.target.major}, "
        f"by {plan.mover} with {plural(options.jobs, 'job')}, in {window}"
    ]
    for one in prepared.steps:
        if one.left_out:
            lines.append(f"  {one.phase}: left out, {one.left_out}")
            continue
        lines.append(f"  {one.phase}" + (f" (after {', '.join(one.after)})" if one.after else ""))
    lines += load_lines(prepared.load, restarts=plan.load_restart)
    said = prepared.announcement
    lines += [f"source: {one}" for one in said.changes] or ["source: is only read"]
    lines.append(
        "code:   what users of the source made (defaults, checks, index expressions, triggers) runs on the target, "
        "some of it with the rights of its role"
    )
    lines += [f"room:   {one}" for one in prepared.room]
    lines += [f"undo:   {said.undo}", f"outage: {said.outage}", f"back:   {said.way_back}"]
    stop = f", or when {options.stop_file} exists" if options.stop_file is not None else ""
    lines.append(f"ends:   after {seconds_text(options.max_seconds)} at the latest{stop}")
    return lines


def load_lines(load: Mapping[str, str], *, restarts: bool) -> Iterator[str]:
    """Yield the settings for the load, when they are put back, and whether a restart may be needed for them."""
    for name, value in load.items():
        where = "the target's host" if is_linux_knob(name) else "the target"
        yield f"load:   {name} = {value} on {where}"
    if load:
        yield f"        put back in the phase {MigrationPhase.RUN_TIME}, or when the run ends before it, also by a kill"
        yield "        " + ("the target is restarted, there and back, where one needs it" if restarts else "no restart")
