"""What a worker answers is not trusted: another form of it is an error of the environment, and no traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.account import Account
from pgdyno.owner.hands import OURS, Hands

PLACE = Path("/place")
ASKED: dict[str, Callable[[Hands], object]] = {
    "read": lambda hands: hands.read(PLACE),
    "look": lambda hands: hands.look(PLACE),
    "names": lambda hands: hands.names(PLACE),
    "pin": lambda hands: hands.pin(PLACE),
    "capture": lambda hands: hands.capture(PLACE),
    "open_lock": lambda hands: hands.open_lock(PLACE),
    "open_read": lambda hands: hands.open_read(PLACE),
}


@pytest.mark.parametrize("answer", [7, "text", True, {}, {"path": 1}, [1], [{}], (1, 2, 3), ({}, b""), ({}, "")])
@pytest.mark.parametrize("name", ASKED)
def test_an_answer_of_another_form_is_refused(name: str, answer: object) -> None:
    hands = Hands(Account(os.geteuid(), os.getegid(), ()), lambda _name, _given: answer)
    with pytest.raises(EnvironmentUnsuitable, match="gave an answer that cannot be read"):
        ASKED[name](hands)


def test_our_own_answers_are_of_that_form(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    status = OURS.look(tmp_path / "file")
    assert status is not None
    assert status.st_size == 7
    assert OURS.look(tmp_path / "nothing") is None
    assert OURS.names(tmp_path) == ["file"]
    assert OURS.read(tmp_path / "file") == b"content"
    image, data = OURS.capture(tmp_path / "file")
    assert (image.size_bytes, data) == (7, b"content")
    os.close(OURS.open_lock(tmp_path / "lock"))
    with OURS.open_read(tmp_path / "file") as file:
        assert file.read() == b"content"
    assert OURS.pin(tmp_path).path == str(tmp_path)
