"""The files of `advise --emit`: the findings of an advice in one of the export formats."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.advice import Advice
from pgdyno.model.finding import Answer


def emitted(advice: Advice, form: str) -> Mapping[str, str]:
    """Return file name to text. Raises UsageError on a format that does not exist."""
    try:
        emit = importlib.import_module("pgdyno.report.export").emit
    except (ImportError, AttributeError) as error:
        raise EnvironmentUnsuitable("this build of pgdyno cannot emit files") from error
    found: Mapping[str, str] = emit(advice.answered(Answer.FINDING), advice.inventory, form)
    return found
