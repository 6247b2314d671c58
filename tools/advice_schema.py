"""Write docs/reference/advice.schema.json from report/advice/document.py; `--check` exits 1 when it is stale."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter

from generated import keep_page
from pgdyno.report.advice.document import FORMAT, AdviceDocument

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "advice.schema.json"


def schema() -> str:
    """Return the JSON Schema of `pgdyno advise --json`."""
    body = _complete(TypeAdapter(AdviceDocument).json_schema(mode="serialization"))
    assert isinstance(body, dict)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pgdyno advise --json, format {FORMAT}",
        "$comment": "Made by tools/advice_schema.py from src/pgdyno/report/advice/document.py: edit there.",
    }
    return json.dumps(head | {name: value for name, value in body.items() if name not in head}, indent=1) + "\n"


def _complete(part: object) -> object:
    """Return the schema with every field required, as we write them all, and without the titles of single fields."""
    if isinstance(part, list):
        return [_complete(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {name: _complete(value) for name, value in part.items() if name not in ("title", "default")}
    if "properties" in part:
        found["properties"] = {name: _complete(value) for name, value in part["properties"].items()}
        found["required"] = list(part["properties"])
    return found


if __name__ == "__main__":
    sys.exit(keep_page(schema(), PAGE, sys.argv))
