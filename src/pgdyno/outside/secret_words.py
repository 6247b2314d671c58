"""How connection strings name their secrets: what none of them may be shown, kept or logged with. Pure."""

from __future__ import annotations

UNMARKED = ("scram_client_key", "scram_server_key", "oauth_client_secret")
"""Options of libpq 18 that let somebody in as a password does, and that it does not mark as one (`dispchar`)."""
SECRETS = ("password", *UNMARKED)
"""Parts of the keywords: a password is that of PGPASSWORD and sslpassword, too."""


def names_secret(text: str) -> bool:
    """Tell whether a text has one of these words in it, in whatever case."""
    return any(word in text.lower() for word in SECRETS)
