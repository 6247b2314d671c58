"""Which kind of study has which result: that of its name, in the module of its name here."""

from __future__ import annotations

from importlib import import_module

from pgdyno.model.results.parts import StudyResult
from pgdyno.model.study import StudyKind


def result_type(kind: StudyKind) -> type[StudyResult]:
    """Return the type of the result of a kind: of `StudyKind.AB` it is `AbResult` in `ab.py`."""
    module = import_module(f"pgdyno.model.results.{kind.value}")
    found: type[StudyResult] = getattr(module, f"{kind.value.capitalize()}Result")
    return found
