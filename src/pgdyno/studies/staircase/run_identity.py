"""What two runs have in common and in what they differ: a step is only worth its name when that is its factor. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from pgdyno.model.study import Study
from pgdyno.model.trial import Trial


def common_fingerprint(study: Study, trial: Trial) -> str:
    """Return 12 hex digits for all that makes a run but its settings and its place in the order.

    Load, its scripts and parameters, ramp-up and duration, clients, data rule, seed, environment, and what people had
    done.
    """
    parts = {
        "workload": asdict(study.workload),
        "plan": asdict(study.plan),
        "environment": study.environment,
        "factors": dict(trial.spec.factors),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def differences(a: Trial, b: Trial) -> tuple[str, ...]:
    """Return the names of the settings and other factors in which two runs differ."""
    pairs = ((a.spec.configuration, b.spec.configuration), (a.spec.factors, b.spec.factors))
    names = {name for left, right in pairs for name in {*left, *right} if left.get(name) != right.get(name)}
    return tuple(sorted(names))


def settings_fingerprints(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the fingerprints of what was read back from the server, each once; one for an honest arm."""
    found = {t.outcome.settings_fingerprint for t in trials if t.outcome and t.outcome.settings_fingerprint}
    return tuple(sorted(found))
