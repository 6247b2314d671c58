"""The dashboard's pages from their templates, and the files that they load: the only module of `web` with Jinja."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pkgutil import get_data
from typing import Protocol, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgdyno.outside.words import printable_value
from pgdyno.report.wording import metric_text, number_text, purpose_text
from pgdyno.units import seconds_text
from pgdyno.web.cards import StudyCard
from pgdyno.web.overview import Overview, moment_text

FILES = {
    "live.css": ("pgdyno.web", "static/live.css", "text/css"),
    "live.js": ("pgdyno.web", "static/live.js", "text/javascript"),
    "report.css": ("pgdyno.report", "static/report.css", "text/css"),
    "uplot.css": ("pgdyno.report", "static/vendor/uplot.min.css", "text/css"),
    "uplot.js": ("pgdyno.report", "static/vendor/uplot.iife.min.js", "text/javascript"),
}
"""What `/static/NAME` sends: package, file and type. Nothing else is reachable."""


@dataclass(frozen=True, slots=True)
class Acting:
    """Who looks at a page: `may` they sign in to act at all, and their name and word where they have signed in."""

    may: bool = False
    name: str = ""
    word: str = ""


ACTION_WORDS = {
    "approve": "Approve", "edit": "Approve as changed", "reject": "Reject", "end": "End the search", "keep": "Keep",
    "do not keep": "Do not keep", "undo": "Take back", "leave in force": "Leave in force", "pause": "Pause",
    "resume": "Continue", "stop": "Stop and roll back",
}  # fmt: skip
"""What the button of an action says."""


def title_of(overview: Overview) -> str:
    """Return what the window is called: an answer that is waited for is seen from another tab."""
    waiting = sum(card.waits for card in overview.cards)
    return f"pgdyno: {waiting} to answer" if waiting else f"pgdyno: {len(overview.cards)} running"


def overview_page(overview: Overview, acting: Acting) -> str:
    """Return the first page; what moves on it is replaced by `overview_parts` later."""
    template = _environment().get_template("overview.html.j2")
    return template.render(overview=overview, acting=acting, title=title_of(overview))


def overview_parts(overview: Overview, acting: Acting) -> dict[str, object]:
    """Return what the page replaces each second: pieces of HTML by their place, and the figures of the strips."""
    parts = cast(_Parts, _macros("parts.html.j2"))
    return {
        "alerts": str(parts.alerts(overview)),
        "queue": str(parts.queue(overview)),
        "studies": str(parts.studies(overview)),
        "cards": [_card(card, acting) for card in overview.cards],
    }


def card_on_page(card: StudyCard, acting: Acting) -> str:
    """Return the card of a study as its own page has it."""
    return str(cast(_Cards, _macros("cards.html.j2")).card(card, acting, _detail(card)))


def _detail(card: StudyCard) -> Markup:
    """Return what a study's own page has more than its card on the first one."""
    if not card.blocks:
        return Markup()
    from pgdyno.report.drawing.html import drawn

    return Markup(drawn(card.blocks))  # noqa: S704 - the template that draws them has escaped it


def _card(card: StudyCard, acting: Acting) -> dict[str, object]:
    cards = cast(_Cards, _macros("cards.html.j2"))
    return {
        "study": card.live.study,
        "html": str(cards.card(card, acting)),
        "head": str(cards.card_head(card)),
        "desk": str(cards.card_desk(card, acting)),
        "detail": _detail(card),
        "trials": str(cards.card_trials(card)),
        "points": card.live.to_json()["points"],
        "history": card.history,
    }


def token_page(said: str) -> str:
    """Return the form that asks for the token; `said` is why the last one was refused."""
    return _environment().get_template("token.html.j2").render(said=said)


def operator_page(said: str) -> str:
    """Return the form by which an operator signs in; `said` is why the last token was refused."""
    return _environment().get_template("operator.html.j2").render(said=said)


def missing_page(said: str) -> str:
    """Return the page for what is not there."""
    return _environment().get_template("missing.html.j2").render(said=said)


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return the bytes and the type of a file. Raises KeyError for a name that is not ours."""
    package, path, media_type = FILES[name]
    content = get_data(package, path)
    assert content is not None, "it is part of the package"
    return content, media_type


class _Parts(Protocol):
    """The macros of `parts.html.j2`, which Jinja makes functions of."""

    def alerts(self, overview: Overview) -> str: ...
    def queue(self, overview: Overview) -> str: ...
    def studies(self, overview: Overview) -> str: ...


class _Cards(Protocol):
    """Those of `cards.html.j2`, by far the most of the page: compiled when the first study runs."""

    def card(self, card: StudyCard, acting: Acting, detail: str | None = None) -> str: ...
    def card_desk(self, card: StudyCard, acting: Acting) -> str: ...
    def card_head(self, card: StudyCard) -> str: ...
    def card_trials(self, card: StudyCard) -> str: ...


def _macros(name: str) -> object:
    return _environment().get_template(name).module


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pgdyno.web"),
        autoescape=True,
        optimized=False,  # its folding of constants is a tenth of what a template takes, and gains nothing here
        undefined=StrictUndefined,
        finalize=printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = seconds_text
    environment.filters["moment"] = moment_text
    environment.globals |= {"purpose": purpose_text, "figure": metric_text, "number": number_text,
                            "verb": ACTION_WORDS}  # fmt: skip
    return environment
