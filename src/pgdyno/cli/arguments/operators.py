"""Who may act in the dashboard: the file of operators' tokens, for the verbs that serve it and that heed them."""

from __future__ import annotations

import getpass
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.model.person.operator_request import Operators

FLAG = "--operator-token-file"


def read_operators(path: Path | None) -> Operators | None:
    """Return the operators of a file, None without one; make the file, with a token for this user, when it is missing.

    Raises UsageError for a file that others own or may read, and as `operators_of`.
    """
    from pgdyno.model.person.operator_request import operators_of
    from pgdyno.outside.secret_file import read_secret

    return None if path is None else operators_of(read_secret(path, FLAG, _fresh), str(path))


def _fresh() -> str:
    from pgdyno.model.person.operator_request import OPERATOR_NAME

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    token = secrets.token_urlsafe(32)
    return f"{user if OPERATOR_NAME.fullmatch(user) else 'operator'} {token}\n"
