"""A capture: texts by key, and for every key that is not there the reason. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from pgdyno.capture.keys import check_texts, why_unreadable
from pgdyno.model.facts import Unknown
from pgdyno.outside.documents import load_json
from pgdyno.outside.words import printable

HOST = "host"
"""A reason under this key holds for everything that is not of the server's own (`postgres/`)."""
SERVER = "postgres"
"""A reason under this key holds for everything of the server's own."""
ENVIRONMENT = "postgres/environment.json"
"""What a study keeps of the environment: `host`, `server`, `kernel`."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Texts by key: `proc/...`, `sys/...`, `etc/...` as the kernel and files have them, `commands/NAME.txt`,
    `postgres/QUERY.json`.

    A folder of sysfs is a text `NAME.list` of its names, a link a text `NAME.link` of where it leads. `missing` holds
    reasons by key. `origin` is `live`, `ssh://...` or a folder; `taken_at` ISO 8601 in UTC, empty when unknown.
    """

    texts: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)
    origin: str = "live"
    taken_at: str = ""
    made_by: str = ""

    def text(self, key: str) -> str | Unknown:
        """Return a text, or why it is not there."""
        found = self.texts.get(key)
        return self.reason(key) if found is None else found

    def maybe(self, key: str) -> str | None:
        """Return a text, None when it is not there."""
        return self.texts.get(key)

    def first(self, *keys: str) -> str | Unknown:
        """Return the first text that is there, else why the first key is not."""
        return next((self.texts[key] for key in keys if key in self.texts), self.reason(keys[0]))

    def reason(self, key: str) -> Unknown:
        """Return why a key is not there."""
        whole = SERVER if key.startswith(f"{SERVER}/") else HOST
        return Unknown(self.missing.get(key) or self.missing.get(whole) or f"the capture has no {key}")

    def word(self, key: str) -> str | Unknown:
        """Return a text without the white space around it; an empty one is unknown."""
        text = self.text(key)
        if isinstance(text, Unknown):
            return text
        return text.strip() or Unknown(f"{key} is empty")

    def number(self, key: str) -> int | Unknown:
        """Return a text that is one whole number."""
        word = self.word(key)
        if isinstance(word, Unknown):
            return word
        return whole_number(word, key)

    def below(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the texts below a folder, keys relative to it, sorted."""
        start = f"{folder}/"
        for key in sorted(key for key in self.texts if key.startswith(start)):
            yield key.removeprefix(start), self.texts[key]

    def members(self, folder: str) -> list[str]:
        """Return the distinct first names below a folder, sorted, without `.link` and `.list`."""
        names = {key.partition("/")[0] for key, _ in self.below(folder)}
        return sorted({name.removesuffix(".link").removesuffix(".list") for name in names})

    def rows(self, query: str) -> list[dict[str, object]] | Unknown:
        """Return the rows of `postgres/QUERY.json`; unknown when it is not a list of objects."""
        key = f"postgres/{query}.json"
        text = self.text(key)
        if isinstance(text, Unknown):
            return text
        found = self.document(key)
        if isinstance(found, Unknown):
            return found
        if not isinstance(found, list):
            return Unknown(f"{key} is not a list of rows")
        return [row for row in found if isinstance(row, dict)]

    def document(self, key: str) -> object | Unknown:
        """Return a text as JSON; unknown when it is cut or is not JSON."""
        text = self.text(key)
        if isinstance(text, Unknown):
            return text
        try:
            found: object = load_json(text)
        except ValueError as error:
            return Unknown(f"{key} is not JSON, it may have been cut: {error}")
        return found


def whole_number(text: str, name: str) -> int | Unknown:
    """Return a text as a whole number; unknown when it is none."""
    try:
        return int(text)
    except ValueError:
        return Unknown(f'{name} is not a number: "{text[:40]}"')


def to_json(capture: Capture) -> dict[str, object]:
    """Return a capture as plain values, as it travels."""
    return asdict(capture)


def from_json(values: Mapping[str, object], *, origin: str | None = None) -> Capture:
    """Rebuild a capture of another host. Raises ValueError on anything else, and on a text that no capture has.

    A text that no parser may see is left out, with the reason.
    """
    texts, missing = _texts(values.get("texts")), _texts(values.get("missing"))
    check_texts(texts)
    odd = {key: why for key, text in texts.items() if (why := why_unreadable(text)) is not None}
    return Capture(
        {key: text for key, text in texts.items() if key not in odd},
        {printable(key)[:_LONGEST]: printable(why)[:_LONGEST] for key, why in (missing | odd).items()},
        origin or _word(values.get("origin", "")),
        _word(values.get("taken_at", "")),
        _word(values.get("made_by", "")),
    )


_LONGEST = 1000


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return printable(value)[:_LONGEST]


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("not a JSON object of texts")
    return value
