"""What a scalability study would do, how it is undone and what it costs, in lines for people. Pure."""

from __future__ import annotations

from pathlib import Path

from pgdyno.studies.scale.plan import ScalePlan
from pgdyno.units import plural, seconds_text


def plan_lines(plan: ScalePlan, target: str, max_seconds: float, stop_file: Path | None) -> list[str]:
    """Return the plan: levels with hardware and load, the criterion, the order, then undo, outage and bounds."""
    wanted, longest_s = plan.criterion, plan.runs * plan.run_s
    lines = [f"plan {plan.name}: {plural(len(plan.levels), 'level')} of {plan.workload} on {target}"]
    for level in plan.levels:
        mark = ", the reference" if level.percent == plan.reference else ""
        lines.append(f"  level {level.name} %: {plan.load_text(level)} on {level.hardware}{mark}")
    if plan.connections:
        told = ", ".join(map(str, plan.connections))
        lines.append(f"  client curve: {plural(told, 'connection')} in a closed loop on {plan.curve.hardware}")
    within = "" if wanted.within_ms is None else f", an answer after {wanted.within_ms:g} ms counts as a failure"
    lines.append(
        f"criterion: against the reference, success rate within {100 * wanted.success:g} %, "
        f"{wanted.metric.label} within {100 * wanted.response:g} %, path length within {100 * wanted.path:g} %{within}"
    )
    for repetition in range(1, plan.repetitions + 1):
        lines.append(f"  repetition {repetition}: {', '.join(spec.arm for spec in plan.specs(repetition))}")
    lines.append(
        f"load:   {plural(plan.runs, 'run')}, {seconds_text(longest_s)} under load, "
        f"{plural(plan.most_clients, 'connection')} at "
        "most; runs that are disturbed or unsteady are repeated; loading data comes on top"
    )
    if len(plan.targets) > 1:
        lines.append("servers: each has a study of its own, in one order of runs; only one is under load at a time")
    bound = any(level.cpus or level.memory_bytes for level in (*plan.levels, plan.curve))
    lines.append(
        "undo:   the limits on the server's CPUs and memory are in the undo bundle first; they are removed "
        "at the end, on Ctrl-C, and by the watchdog after a kill (pgdyno rollback)"
        if bound
        else "undo:   nothing on the server is changed but pgdyno's own databases, which are dropped"
    )
    lines.append(
        "outage: none, no restart; the limits also hold for other users of the server"
        if bound
        else "outage: none, no setting is touched"
    )
    stop = f", or when {stop_file} exists" if stop_file is not None else ""
    lines.append(f"ends:   after {seconds_text(max_seconds)} at the latest{stop}; what was measured by then is judged")
    return lines
