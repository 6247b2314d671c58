"""The files of `advise --emit`: the findings of an advice in one of the export formats."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.export import emit
from pgdyno.model.advice import Advice
from pgdyno.model.finding import Answer


def emitted(advice: Advice, form: str) -> Mapping[str, str]:
    """Return file name to text. Raises UsageError on a format that does not exist."""
    return emit(advice.answered(Answer.FINDING), advice.inventory, form)
