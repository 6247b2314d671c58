"""Finds the object of a kind of study, and says what a study came to.

A kind is registered by its word in `StudyKind` alone: its folder here has that name, and so has the module of its
result in `model/results`. A folder is imported when a study of its kind is met.
"""

from __future__ import annotations

from importlib import import_module

from pgdyno.model.study import Study, StudyKind
from pgdyno.report.judgement import Judgement, standing
from pgdyno.studies.kind import Kind


def kind_of(kind: StudyKind) -> Kind:
    """Return the object that says what is special to a kind."""
    found: Kind = import_module(f"pgdyno.studies.{kind.value}.kind").KIND
    return found


def judged(study: Study) -> Judgement:
    """Return the judgement of a study; of one whose page alone has the words only how it stands."""
    return kind_of(study.kind).judged(study) or standing(study)
