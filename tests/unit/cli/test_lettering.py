"""What a terminal without the letters shows: a minus stays one."""

from __future__ import annotations

import io

import pytest

from pgdyno.cli.terminal.lettering import let_letters_be_missing
from pgdyno.model.verdict import Interval
from pgdyno.report.drawing.text_charts import BLOCKS, GAP, GLYPHS
from pgdyno.report.wording import change_text, range_text


class Screen(io.TextIOWrapper):
    def __init__(self, encoding: str, *, is_terminal: bool) -> None:
        self.bytes = io.BytesIO()
        self.is_terminal = is_terminal
        super().__init__(self.bytes, encoding=encoding)

    def isatty(self) -> bool:
        return self.is_terminal


def shown(text: str, encoding: str = "utf-8", *, is_terminal: bool = True, **environ: str) -> str:
    screen = Screen(encoding, is_terminal=is_terminal)
    let_letters_be_missing(screen, environ)
    screen.write(text)
    screen.flush()
    return screen.bytes.getvalue().decode(encoding)


WORSE = f"{change_text(0.88)} {range_text(Interval(0.88, 0.8, 0.95, 0.95))} 12 → 9"


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LANG": "POSIX"}, {"LC_ALL": "", "LC_CTYPE": "C"}])
def test_a_minus_survives_the_c_locale(locale: dict[str, str]) -> None:
    assert shown(WORSE, **locale) == "-12 % [-20, -5] % 12 -> 9"


def test_a_minus_survives_a_terminal_of_ascii() -> None:
    assert shown(WORSE, "ascii", LANG="en_US") == "-12 % [-20, -5] % 12 -> 9"
    assert shown("größer", "ascii") == "gr??er", "a letter that nobody can replace is seen to be missing"


def test_no_sign_of_a_chart_is_a_question_mark() -> None:
    signs = BLOCKS + GAP + "".join(GLYPHS.values()) + "│└├┤─╌"
    assert "?" not in shown(signs, "ascii")
    assert len(shown(signs, "ascii")) == len(signs), "columns stay under each other"


def test_a_terminal_that_has_the_letters_shows_them() -> None:
    assert shown(WORSE, LANG="en_US.UTF-8") == WORSE
    assert shown(WORSE, LC_ALL="C", PYTHONIOENCODING="utf-8") == WORSE
    assert shown(WORSE, LC_ALL="C", is_terminal=False) == WORSE, "a pipe has bytes, and no letters"
