"""Write a report as one HTML file that needs no network: scripts, styles and data are inside it.

The page carries its own Content-Security-Policy: nothing may be loaded from anywhere, and only the scripts and
styles whose hashes it names may run. Text is escaped by Jinja; a missing value in a template is an error.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Protocol, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.figure import Figure, Table
from pgdyno.outputs import write_output
from pgdyno.outside.words import printable_value
from pgdyno.report.drawing.frames import FRAMED, drawn_table
from pgdyno.report.drawing.payload import figures_json
from pgdyno.report.drawing.tables import MOST_PRINTED, MOST_ROWS, cut_text
from pgdyno.report.sections import Block, Report

FIGURES = tuple(f"figures/{name}.js" for name in ("look", "strips", "charts", "curves", "tracks", "page"))
"""Ours, in the order in which they need each other."""
SCRIPTS = ("vendor/uplot.iife.min.js", "vendor/echarts.min.js", *FIGURES)
STYLES = ("vendor/uplot.min.css", "report.css")
UNBROKEN = re.compile(r"\S+ \[[^\]]{1,40}\]|\d (?:%|ms|s|min|[kMGT]i?B)(?![\w])")
PLACE = '<div id="running" data-alone></div>'
"""Where the card of a study under way goes."""
LICENCES = ("vendor/uplot.LICENSE", "vendor/echarts.NOTICE", "vendor/echarts.LICENSE", "vendor/echarts-d3.LICENSE")


@dataclass(frozen=True, slots=True)
class Moving:
    """What a page has more while its study runs and it is served: scripts and styles that keep `PLACE` current."""

    scripts: tuple[str, ...]
    styles: tuple[str, ...]


def render(report: Report, *, home: str | None = None, moving: Moving | None = None) -> str:
    """Return the page; `home` is where its name leads when it is served and not a file."""
    more = moving or Moving((), ())
    scripts, styles = [*map(_static, SCRIPTS), *more.scripts], [*map(_static, STYLES), *more.styles]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            home=home,
            under_way=_as_it_is(PLACE) if moving else "",
            scripts=[_as_it_is(script) for script in scripts],
            styles=[_as_it_is(style) for style in styles],
            data=_as_it_is(figures_json(report.figures())),
            licences=_as_it_is("\n".join(_static(name) for name in LICENCES)),
            policy=content_security_policy(scripts, styles, connects=moving is not None),
        )
    )


def _as_it_is(text: str) -> Markup:
    """Keep the template from escaping a text: a file of the package, or JSON that is escaped for a script element."""
    return Markup(text)  # noqa: S704 - no text of a user: files of this package, and JSON escaped by figures_json


def write_html(report: Report, path: Path) -> None:
    """Write the page to a file. Raises EnvironmentUnsuitable when the file cannot be written."""
    write_drawn(path, render(report))


def write_drawn(path: Path, content: str | bytes) -> None:
    """Write a report that was drawn. Raises EnvironmentUnsuitable when the file cannot be written."""
    try:
        write_output(path, content)
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'report "{path}" cannot be written: {error.strerror}',
            hint="Name a file in a folder that you may write to with --output.",
        ) from error


def content_security_policy(scripts: list[str], styles: list[str], *, connects: bool = False) -> str:
    """Return the policy that allows these scripts and styles, drawn images of the page itself, and nothing else.

    A page that `connects` may ask who served it, and has that one's forms.
    """
    allowed = {"script-src": scripts, "style-src": styles}
    sources = [f"{name} {' '.join(_source(text) for text in texts)}" for name, texts in allowed.items()]
    ways = ("connect-src 'self'", "form-action 'self'") if connects else ("form-action 'none'",)
    return "; ".join(("default-src 'none'", *sources, "base-uri 'none'", *ways))


def drawn(blocks: Iterable[Block]) -> str:
    """Return blocks as a part of a page."""
    parts = cast(_Macros, _environment().get_template("blocks.html.j2").module)
    return "".join(parts.draw(block) for block in blocks)


class _Macros(Protocol):
    """The macro of `blocks.html.j2` that draws any block."""

    def draw(self, block: Block) -> str: ...


def _source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def _static(name: str) -> str:
    return files("pgdyno.report").joinpath("static", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pgdyno.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["block"] = _is_block
    environment.filters["runs"] = _run_label
    environment.filters["numbers"] = _numbers
    environment.filters["unbroken"] = _unbroken
    environment.filters["cut"] = cut_text
    environment.globals.update(most_rows=MOST_ROWS, most_printed=MOST_PRINTED)
    return environment


def _is_block(block: Block, name: str) -> bool:
    return type(block).__name__ == name


def _numbers(figure: Figure) -> Table | None:
    return drawn_table(figure) if figure.kind in FRAMED else figure.table


def _unbroken(text: str) -> str:
    """Keep an estimate and the two bounds of its interval on one line, and a number with its unit."""
    return UNBROKEN.sub(lambda match: match[0].replace(" ", "\u00a0"), text)


def _run_label(figure: Figure) -> str:
    run = figure.provenance.get("run")
    return f"{figure.question}, trial {run}" if run else figure.question
