"""Patroni's REST API, as far as restarts and the dynamic configuration need it (Patroni 2.1 to 4).

Spoken by the standard library: HTTP or HTTPS, basic authentication from a file or from PGDYNO_PATRONI_AUTH, never
from an argument. Every call names its timeout. Source: Patroni's documentation, "Patroni REST API".
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, UsageError
from pgdyno.model.shapes import Json, plain, shaped
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import read_text

if TYPE_CHECKING:
    import http.client
    import ssl

TIMEOUT_S = 10.0
AUTH_VARIABLE = "PGDYNO_PATRONI_AUTH"
_LARGEST_BYTES = 16 << 20
"""More than the store of any cluster holds: etcd takes 1.5 MB a key."""
_LEADERS = ("leader", "master", "primary", "standby_leader")
_NO_CHANGE: Mapping[str, object] = {"pgdyno": None}
"""A PATCH that takes away what is not there: changes nothing, and makes the member begin its next loop at once."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster as `GET /cluster` shows it. `api_url` has no path."""

    name: str
    role: str
    state: str
    host: str
    port: int
    api_url: str

    @property
    def is_leader(self) -> bool:
        """Return True for the node that holds the leader's key."""
        return self.role in _LEADERS

    @property
    def is_up(self) -> bool:
        """Return True when its PostgreSQL runs."""
        return self.state in ("running", "streaming", "in archive recovery")


@dataclass(frozen=True, slots=True)
class PatroniApi:
    """The API of one cluster, reached through whichever of `endpoints` answers (`http://host:8008`).

    `auth_file` holds `user:password` in its first line; `ca_file` the authority that signed the API's certificate,
    the system's own when it is None; `cert_file` our certificate with its key, where the API asks for one.
    """

    endpoints: tuple[str, ...]
    auth_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        for endpoint in self.endpoints:
            parts = urlsplit(endpoint)
            if parts.username is not None or parts.password is not None:
                raise UsageError(
                    f'the Patroni address of "{parts.hostname}" holds a user or password',
                    hint=f"Put user:password into a file and name it with --patroni-auth, or set {AUTH_VARIABLE}.",
                )
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise UsageError(f'"{endpoint}" is not the address of a Patroni API', hint="Write http://HOST:8008.")

    def members(self) -> tuple[Member, ...]:
        """Return the nodes of the cluster. Raise ConnectError when no endpoint answers."""
        answer = _mapping(self._any("GET", "/cluster"), "/cluster")
        found = answer.get("members")
        return tuple(parse_member(member) for member in found) if isinstance(found, list) else ()

    def leader(self) -> Member | None:
        """Return the node that holds the leader's key, None between two leaders."""
        return next((member for member in self.members() if member.is_leader), None)

    def with_members(self) -> PatroniApi:
        """Return the same API with the endpoints of all members added, so that the loss of one does not matter.

        Where only HTTPS was named, those that the cluster names without it are left out.
        """
        found = (member.api_url for member in self.members())
        urls = [*self.endpoints, *(url for url in found if not self._is_laid_open(url))]
        return PatroniApi(tuple(dict.fromkeys(urls)), self.auth_file, self.ca_file, self.cert_file, self.timeout_s)

    def dynamic_configuration(self) -> Mapping[str, object]:
        """Return the configuration that the cluster keeps in its store. Changes nothing, but needs the right to.

        `GET /config` may answer from a copy that is one loop old; the answer to a PATCH is read from the store.
        """
        return _mapping(self._any("PATCH", "/config", _NO_CHANGE), "/config")

    def patch(self, changes: Mapping[str, object]) -> None:
        """Merge changes into the dynamic configuration; None takes a key away. All or nothing: it is one write.

        The members load it in their next loop. Raises EnvironmentUnsuitable when the API refuses it.
        """
        self._any("PATCH", "/config", changes)

    def wake(self, member: Member) -> None:
        """Make a member begin its loop now instead of within `loop_wait`; changes nothing."""
        self._ask(member.api_url, "PATCH", "/config", _NO_CHANGE, self.timeout_s)

    def reload(self, member: Member) -> None:
        """Ask a member to reload PostgreSQL in its next loop, and begin it."""
        self._ask(member.api_url, "POST", "/reload", {}, self.timeout_s)
        self.wake(member)

    def restart(self, member: Member, timeout_s: float) -> None:
        """Restart a member's PostgreSQL and wait for the answer. Raise EnvironmentUnsuitable when it failed."""
        self._ask(member.api_url, "POST", "/restart", {}, timeout_s)

    def pending_restart(self, member: Member) -> bool:
        """Tell whether a member has loaded settings that wait for a restart."""
        answer = _mapping(self._ask(member.api_url, "GET", "/patroni", None, self.timeout_s), "/patroni")
        return bool(answer.get("pending_restart"))

    def record(self) -> Json:
        """Return plain JSON values: where credentials lie, never the credentials."""
        return plain(self)

    @classmethod
    def from_record(cls, record: object) -> PatroniApi:
        """Rebuild it. Raises ValueError on anything else than what `record` made."""
        return shaped(cls, record, "the record of Patroni's API", strict=False)

    def _any(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        """Ask the endpoints in turn until one answers."""
        errors: list[str] = []
        for endpoint in self.endpoints:
            try:
                return self._ask(endpoint, method, path, body, self.timeout_s)
            except ConnectError as error:
                errors.append(f"{endpoint}: {error.detail}")
        raise ConnectError(
            "no Patroni API of the cluster answers",
            detail="\n".join(errors),
            hint=f"curl -s {self.endpoints[0]}/cluster must answer from this machine." if self.endpoints else None,
        )

    def _ask(
        self, endpoint: str, method: str, path: str, body: Mapping[str, object] | None, timeout_s: float
    ) -> object:
        import http.client  # here and below: every verb and watchdog of a server loads this module, few a Patroni

        if self._is_laid_open(endpoint) and self._credentials():
            raise ConnectError(
                f'the Patroni API at "{endpoint}" is not asked',
                detail="The cluster names it without HTTPS: the password would be sent in the clear.",
                hint="Give every node's restapi a certificate, or name an http:// address with --patroni yourself.",
            )
        connection = self._connection(endpoint, timeout_s)
        text = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, text, self._headers(text is not None))
            with connection.getresponse() as response:
                status, answer = response.status, response.read(_LARGEST_BYTES).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ConnectError(
                f'the Patroni API at "{endpoint}" does not answer', detail=str(error) or repr(error)
            ) from error
        finally:
            connection.close()
        return _answer(endpoint, method, path, status, answer)

    def _connection(self, endpoint: str, timeout_s: float) -> http.client.HTTPConnection:
        import http.client

        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port or 443, timeout=timeout_s, context=self._tls())
        return http.client.HTTPConnection(host, parts.port or 80, timeout=timeout_s)

    def _is_laid_open(self, endpoint: str) -> bool:
        """Tell whether what is sent there can be read on the way, and can not at any endpoint that was named."""
        return not endpoint.startswith("https:") and all(one.startswith("https:") for one in self.endpoints)

    def _headers(self, has_body: bool) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if has_body else {}
        credentials = self._credentials()
        if credentials:
            headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        return headers

    def _credentials(self) -> str:
        if self.auth_file is None:
            return os.environ.get(AUTH_VARIABLE, "")
        return read_text(self.auth_file, hint="It holds user:password.").partition("\n")[0].strip()

    def _tls(self) -> ssl.SSLContext:
        import ssl

        try:
            context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
            if self.cert_file is not None:
                context.load_cert_chain(str(self.cert_file))
        except OSError as error:
            raise UsageError("the certificates for Patroni's API cannot be read", detail=str(error)) from error
        return context


def parse_member(fields: object) -> Member:
    """Read one entry of `GET /cluster`; what is missing is empty. Raises EnvironmentUnsuitable on another shape."""
    member = _mapping(fields, "/cluster")
    parts = urlsplit(str(member.get("api_url", "")))
    port = str(member.get("port", ""))
    return Member(
        name=str(member.get("name", "")),
        role=str(member.get("role", "")),
        state=str(member.get("state", "")),
        host=str(member.get("host", "")),
        port=int(port) if re.fullmatch("[0-9]{1,5}", port) else 5432,
        api_url=f"{parts.scheme}://{parts.netloc}",
    )


def _answer(endpoint: str, method: str, path: str, status: int, text: str) -> object:
    if status in (401, 403):
        raise EnvironmentUnsuitable(
            f'the Patroni API at "{endpoint}" refuses {method} {path}: {status}',
            detail=text.strip() or None,
            hint=f"Name the file with user:password with --patroni-auth, or set {AUTH_VARIABLE}.",
        )
    if status >= 300:
        raise EnvironmentUnsuitable(
            f'{method} {path} failed at the Patroni API "{endpoint}": {status}',
            detail=text.strip() or None,
            hint="See patronictl list and the log of that node's Patroni.",
        )
    try:
        return load_json(text) if text else {}
    except ValueError:
        return text


def _mapping(answer: object, path: str) -> Mapping[str, object]:
    if not isinstance(answer, dict):
        raise EnvironmentUnsuitable(f"Patroni answers {path} by something else than an object")
    return answer
