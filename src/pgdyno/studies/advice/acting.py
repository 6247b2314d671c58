"""Whether what is advised could be proved and put in force from here: asked of what would refuse it. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.errors import PgdynoError
from pgdyno.model.advice import Barred
from pgdyno.model.finding import Finding
from pgdyno.server.privileges import missing, privileges, read_role
from pgdyno.studies.advice.acceptance import prepare
from pgdyno.targets.target import Target
from pgdyno.undo.baseline import take_baseline

VERBS = ("apply", "experiment")
"""What a page of advice proposes to act with."""


def barred(target: Target, findings: Sequence[Finding]) -> Barred:
    """Return what would refuse these findings on a live target. Errors of the server are reasons, too."""
    try:
        role = read_role(target.postgres, () if target.route is not None else None)
        lacks = {verb: tuple(right.name for right in missing(privileges(verb, role))) for verb in VERBS}
        if lacks["apply"]:
            return Barred(lacks=lacks)
        if target.remote is None:  # a session of another host's server begins there
            take_baseline(target)
    except PgdynoError as error:
        return Barred(error.message)
    rules = {finding.rule: reason for finding in findings if (reason := _refused(target, finding)) is not None}
    return Barred(rules=rules, lacks=lacks)


def _refused(target: Target, finding: Finding) -> str | None:
    try:
        prepare(target, [finding])
    except PgdynoError as error:
        return error.message
    return None
