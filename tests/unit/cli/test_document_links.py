"""Links between documents lead somewhere."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
DOCUMENTS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", document.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_document_is_in_the_index_or_linked_from_one_that_is() -> None:
    linked = {
        (document.parent / link).resolve()
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#\s]+\.md)", document.read_text("utf-8"))
    }
    strays = [path for path in DOCUMENTS if path.parent != PROJECT and path.resolve() not in linked]
    assert [str(path.relative_to(PROJECT)) for path in strays if path.parent.name != "adr"] in ([], ["docs/README.md"])
