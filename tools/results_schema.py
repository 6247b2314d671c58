"""Write docs/reference/results.schema.json from the types of `model.results`; `--check` exits 1 when it is stale."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generated import keep_page
from pgdyno.model.result_schema import schema_of
from pgdyno.model.results.pair import PairResult
from pgdyno.model.shapes import Json
from pgdyno.model.study import StudyKind, result_type

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "results.schema.json"


def schema() -> str:
    """Return the JSON Schema of what a study comes to, one definition a kind."""
    known: dict[str, Json] = {}
    kinds = {kind.value: schema_of(result_type(kind), known) for kind in StudyKind}
    kinds["compare"] = schema_of(PairResult, known)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pgdyno: results of studies by kind, as --json prints them and the store keeps them",
        "$comment": "Made by tools/results_schema.py from src/pgdyno/model/results: edit there.",
        "type": "object",
        "properties": kinds,
        "$defs": known,
    }
    return json.dumps(head, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(keep_page(schema(), PAGE, sys.argv))
