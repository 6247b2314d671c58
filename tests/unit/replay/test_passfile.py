"""Passwords as libpq finds them."""

from __future__ import annotations

import pytest

from pgdyno.replay.passfile import passwords_in

TEXT = r"""
# db1:5432:*:joe:not a line
db1:5432:shop:joe:first
db1:5432:shop:joe:second
*:*:*:ann:with\:colon and \\
db1:6543:*:bob:other port
db1:5432:*:a\:b:colons
short:line
/run/x:*:*:sock:by folder
localhost:*:*:loc:by name
db1:5432:*:*:everybody
"""


@pytest.mark.parametrize(
    ("host", "user", "password"),
    [
        ("db1", "joe", "first"),
        ("db1", "ann", "with:colon and \\"),
        ("db1", "bob", "everybody"),
        ("db1", "a:b", "colons"),
        ("db2", "joe", None),
        ("/run/x", "sock", "by folder"),
        ("/run/x", "loc", "by name"),
        ("/run/y", "sock", None),
    ],
)
def test_the_first_line_that_fits_has_the_password(host: str, user: str, password: str | None) -> None:
    assert passwords_in(TEXT, host, 5432, "shop", [user]) == ({} if password is None else {user: password})
