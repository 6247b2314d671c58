"""Who may read the dashboard: names of the host that are answered, the token, and the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgdyno.errors import UsageError
from pgdyno.model.person.operator_request import Operators
from pgdyno.outside.secret_file import read_secret
from pgdyno.web.crowd import peer_of
from pgdyno.web.operator_door import REQUESTS, OperatorDoor, WrongTokens, own_form
from pgdyno.web.pages import token_page

COOKIE = "pgdyno"
ADMITTED = "admitted"
"""In the state of a request that was let in: its connection is no stranger's."""
ACTED = "acted"
"""In the state of an operator's form: who sent it, and its fields."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]{1,5})?")
LOOPBACK_NAMES = ("localhost",)
SHORTEST_TOKEN = 16
LONGEST_FORM = 4096
TOKEN_PATH = "/token"  # noqa: S105 - a path of the page, not a secret
_OPEN_PATHS = ("/static/",)
"""What is sent without a token: our own style and scripts, which the form for the token needs."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_CLOSE = {"connection": "close"}
"""What follows a request that we do not take is not read."""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Access:
    """`names` are host names that requests may be for; `token` None asks nobody for one. `secure`: served by TLS.

    Without a `door` nobody can act.
    """

    names: frozenset[str]
    token: str | None = None
    secure: bool = False
    door: OperatorDoor | None = None
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def is_for_us(self, host: str) -> bool:
        """Return whether a Host header names us: a listed name, or a bare address.

        A name that was never listed may be an attacker's that resolves to this machine (DNS rebinding); an address
        cannot be.
        """
        written = _HOST.fullmatch(host)
        if written is None:
            return False
        bare = written[1].removeprefix("[").removesuffix("]")
        return bare.lower() in self.names or is_address(bare)

    def admits(self, headers: Headers, cookie: str | None) -> bool:
        """Return whether a request carries the token, in its Authorization header or by the cookie of the form."""
        if self.token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode()):
            return True
        return cookie is not None and hmac.compare_digest(cookie.encode(), self.ticket().encode())

    def ticket(self) -> str:
        """Return the cookie's value: it proves the token without holding it, and is void when the server ends."""
        return hmac.new(self._key, (self.token or "").encode(), hashlib.sha256).hexdigest()


class AccessGate:
    """Lets through what `Access` admits, and puts the headers of safety on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._wrong = WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        refusal = await self._refusal(request)
        if refusal is None:
            scope.setdefault("state", {})[ADMITTED] = self._is_admitted(request)
        answer: ASGIApp = refusal if refusal is not None else self._app

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("content-security-policy", POLICY)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await answer(scope, receive, with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        if not self._access.is_for_us(request.headers.get("host", "")):
            return PlainTextResponse("this name is not served here; see --allow-host\n", 400)
        path = str(request.scope["path"])  # as it is routed, and not as the Host header would have it in a URL
        if path == TOKEN_PATH and request.method == "POST":
            return await self._token_given(request)
        if (door := self._access.door) is not None:
            if door.is_here(path):
                return await door.answer(request)
            if path == REQUESTS and request.method == "POST":
                return await self._acted(request, door)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("the dashboard only reads\n", 405, {"allow": "GET, HEAD", **_CLOSE})
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            return PlainTextResponse("the dashboard takes no content\n", 413, _CLOSE)
        if _is_of_another_site(request.headers):
            return PlainTextResponse("requested by a page of another site\n", 403)
        if path.startswith(_OPEN_PATHS) or self._is_admitted(request):
            return None
        return self._ask(request, "")

    async def _acted(self, request: Request, door: OperatorDoor) -> Response | None:
        """Let an operator's form through, for the application to record."""
        form = await own_form(request)
        if isinstance(form, Response):
            return form
        session = door.form_of(request, form)
        if session is None:
            return PlainTextResponse("sign in as an operator first, and use the page's own form\n", 403)
        request.scope.setdefault("state", {})[ACTED] = session.name, form
        return None

    def _is_admitted(self, request: Request) -> bool:
        if self._access.door is not None and self._access.door.session(request) is not None:
            return True
        return self._access.admits(request.headers, request.cookies.get(COOKIE))

    def _ask(self, request: Request, said: str) -> Response:
        headers = {"www-authenticate": "Bearer"}
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("a token is needed: Authorization: Bearer TOKEN\n", 401, headers)
        return Response(token_page(said), 401, headers, "text/html")

    async def _token_given(self, request: Request) -> Response:
        """Take the token of the form. A form of another site is refused by what the browser says of its origin."""
        if not _is_own_form(request.headers):
            return PlainTextResponse("the form of another site\n", 403, _CLOSE)
        told = request.headers.get("content-length", "")
        if len(told) > len(str(LONGEST_FORM)) or "transfer-encoding" in request.headers:
            return PlainTextResponse("this is not a form of the dashboard\n", 413, _CLOSE)
        peer = peer_of(cast("tuple[str, int] | None", request.scope.get("client")))
        if self._wrong.is_full(peer):
            return PlainTextResponse("too many wrong tokens; wait a minute\n", 429, {"retry-after": "60", **_CLOSE})
        given = await _form_token(request)
        if self._access.token is None or not hmac.compare_digest(given.encode(), self._access.token.encode()):
            self._wrong.note(peer)
            return self._ask(request, "That is not the token.")
        response = RedirectResponse("/", 303)
        response.set_cookie(
            COOKIE, self._access.ticket(), httponly=True, samesite="strict", secure=self._access.secure, path="/"
        )
        return response


def _is_own_form(headers: Headers) -> bool:
    """Return whether a form came from our own page. What an old browser does not tell is judged by the origin.

    Our pages send no referrer, and then a browser calls the origin of their forms "null": the newer header decides.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return not origin or origin.partition("://")[2] == headers.get("host")


def _is_of_another_site(headers: Headers) -> bool:
    """Return whether a page of another site asks, which could not read the answer but would have us work for it.

    A link that a person follows is no such thing.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest") != "document"
    return origin is not None and site is None and origin.partition("://")[2] != headers.get("host")


async def _form_token(request: Request) -> str:
    """Return the field `token` of a form in the URL's encoding; empty for anything larger or other."""
    from urllib.parse import parse_qs

    body = b""
    with suppress(ClientDisconnect):
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_FORM:
                return ""
    fields = parse_qs(body.decode("utf-8", "replace"))
    return fields.get("token", [""])[0].strip()


def is_address(name: str) -> bool:
    """Return whether a name is a bare address of IP."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(bind: str) -> bool:
    """Return whether an address to bind is reached from this host alone."""
    return bind in LOOPBACK_NAMES or (is_address(bind) and ipaddress.ip_address(bind).is_loopback)


def access_of(
    bind: str, allowed: Collection[str], token: str | None, *, secure: bool, operators: Operators | None = None
) -> Access:
    """Return who is let in at this address.

    Requests may name `bind`, where the server listens, localhost, a host name of `allowed`, or any bare address.
    Readers need the `token`; None asks for none. `secure` says that TLS is used. `operators` may act; with None nobody
    can. Raises UsageError where others could reach it without a token, or listen to an operator.
    """
    if operators is not None and not secure and not is_loopback(bind):
        raise UsageError(
            f'"{bind}" is reached from other hosts, and an operator\'s token would cross the network in clear text',
            hint="Add --tls-cert and --tls-key; or stay on loopback and use ssh -L.",
        )
    if token is None and not is_loopback(bind):
        raise UsageError(
            f'"{bind}" is reached from other hosts, and there is no token',
            hint="Add --token-file FILE, which is created if missing; or stay on loopback and use ssh -L.",
        )
    door = None if operators is None else OperatorDoor(operators, secure)
    return Access(frozenset(name.lower() for name in (*LOOPBACK_NAMES, bind, *allowed)), token, secure, door)


def read_token(path: Path) -> str:
    """Return the token of a file; make the file, readable by its owner alone, when it is missing.

    Raises UsageError for a token that is too short or that others may read or have written, EnvironmentUnsuitable for
    a file that cannot be read or written.
    """
    token = read_secret(path, "--token-file", lambda: secrets.token_urlsafe(32) + "\n").strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f'the token in "{path}" is not {SHORTEST_TOKEN} or more plain characters on one line',
            hint="Remove the file: a new one is made.",
        )
    return token
