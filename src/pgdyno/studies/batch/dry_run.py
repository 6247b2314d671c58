"""What a run of a chain would do, how it is undone and what it costs, in lines for people. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pgdyno.server.postgres import redact
from pgdyno.studies.batch.chain import BatchOptions, Chain, JobWork, in_order
from pgdyno.trace.refusals import without_secret
from pgdyno.units import plural, seconds_text


def plan_lines(chain: Chain, options: BatchOptions, target: str, database: str) -> list[str]:
    """Return the plan, a line each: every job in a possible order, then undo, outage and bounds.

    `chain` has the jobs and the restore command, `options` the number of executions and what bounds them. `target` and
    `database` are names for people; nothing is connected to.
    """
    lines = [
        f"chain {chain.name}: {plural(len(chain.jobs), 'job')} of {len(chain.processes)} processes, "
        f"{chain.parallel} at a time, {plural(options.executions, 'execution')} in database {database} of {target}"
    ]
    for job in in_order(chain):
        if job.skip:
            lines.append(f"  {job.key}: skipped, {job.skip}")
            continue
        what = _shown(job.words[0]) if job.work is JobWork.SQL else _command(job.words)
        parts = [f"after {', '.join(job.after)}"] if job.after else []
        parts += [f"from {seconds_text(job.starts_s)} on"] if job.starts_s else []
        parts += [f"at most {seconds_text(job.time_out_s)}"] if job.time_out_s is not None else []
        parts += [f"tried up to {job.retries + 1} times"] if job.retries else []
        parts += [plural(len(job.checks), "check")] if job.checks else []
        told = f" ({'; '.join(parts)})" if parts else ""
        lines.append(f"  {job.key}: {job.work.value} {what}{told}")
    restore = f"before each execution: {_command(chain.restore)}" if chain.restore else ""
    lines.append(f"undo:   what the jobs change stays{f', but for {restore}' if restore else '; no restore is named'}")
    lines.append("outage: none by pgdyno, which changes no setting; jobs may take any locks")
    stop = f", or when {options.stop_file} exists" if options.stop_file is not None else ""
    lines.append(f"ends:   after {seconds_text(options.max_seconds)} at the latest{stop}")
    return lines


_SECRET = re.compile(r"pass(?:word|wd|phrase)|secret|token|credential", re.IGNORECASE)


def _command(words: Sequence[str]) -> str:
    """Return a command without its passwords. Word by word: quotes that a shell needs would hide where one ends."""
    shown, is_secret = list[str](), False
    for word in words:
        name, equals, _ = word.partition("=")
        if is_secret:
            shown.append("***")
        elif equals and re.fullmatch(r"[\w-]+", name) and _SECRET.search(name):
            shown.append(f"{name}=***")
        else:
            shown.append(redact(word))
        is_flag = word.startswith("-") and not equals and not word.startswith("--no-")
        is_secret = is_flag and not is_secret and _SECRET.search(word) is not None
    return shlex.join(shown)


def _shown(text: str) -> str:
    """Return the first line of a job's SQL without a password: what is printed here is kept in logs of schedulers."""
    if re.search("password|secret", text, re.IGNORECASE):
        return without_secret(text)
    first, *more = text.strip().splitlines()
    return redact(f"{first} ..." if more else first)
