"""Which host: `ssh://[user@]host[:port]`, where `host` may be an alias of the user's ssh configuration."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pgdyno.errors import UsageError

_HINT = "Write it as --host ssh://user@db1, --host ssh://db1:2222 or --host ssh://ALIAS of your ~/.ssh/config."


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host as ssh is told it. What is None is left to the user's ssh configuration."""

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> HostAddress:
        """Read an address. Raises UsageError on anything but a user, a host and a port."""
        try:
            parts = urlsplit(text)
            port, secret = parts.port, parts.password
        except ValueError as error:
            raise UsageError(f'host "{text}" cannot be read', detail=str(error), hint=_HINT) from error
        if secret is not None:
            raise UsageError(
                f'host "{parts.hostname}" was given with a password',
                detail="A password in an argument list can be read by every user of this machine.",
                hint="Use a key or an agent: ssh-copy-id, ssh-add.",
            )
        user, _, host = parts.netloc.rpartition("@")
        host = unquote(host.rpartition(":")[0] if port is not None else host.removesuffix(":"))
        host, user = host.removeprefix("[").removesuffix("]"), unquote(user)
        if parts.scheme != "ssh" or not host or parts.path.strip("/") or parts.query or parts.fragment:
            raise UsageError(f'host "{text}" is not an address of ssh', hint=_HINT)
        if any(name.startswith("-") or not name.isprintable() or " " in name for name in (host, user)):
            raise UsageError(f'host "{text}" holds a name that ssh could take for an option', hint=_HINT)
        return cls(host, user or None, port)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{user}{host}{f':{self.port}' if self.port is not None else ''}"

    def words(self) -> list[str]:
        """Return the words that name the host at the end of ssh's options."""
        port = [] if self.port is None else ["-p", str(self.port)]
        user = [] if self.user is None else ["-l", self.user]
        return [*port, *user, "--", self.host]
