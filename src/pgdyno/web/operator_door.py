"""Who may act: the operator's session besides the viewer's. Nothing of it is there without a file of operators.

A session is a cookie that no script reads and no other site sends, and every form carries a word that belongs to it
alone. So a page of another site, a viewer and a form that was taken from elsewhere get nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from pgdyno.model.person.operator_request import Operators
from pgdyno.web.crowd import peer_of
from pgdyno.web.pages import operator_page

OPERATOR_COOKIE = "pgdyno-operator"
SESSION_S = 12 * 3600.0
SIGN_IN, SIGN_OUT, REQUESTS = "/operator", "/operator/leave", "/requests"
MOST_WRONG, WRONG_S = 10, 60.0
"""So many wrong tokens of one address are looked at in this time; ten times as many of all together."""
LONGEST_FORM = 16 << 10
MOST_FIELDS = 80
_FORM = "application/x-www-form-urlencoded"
_CLOSE = {"connection": "close"}

Form = dict[str, str]


@dataclass(frozen=True, slots=True)
class OperatorSession:
    """One operator in one browser. `word` must come with each form; `until` by the clock of this process."""

    name: str
    word: str
    until: float


@dataclass(slots=True)
class WrongTokens:
    """Wrong tokens of late, by whom they came from."""

    clock: Callable[[], float] = time.monotonic
    _seen: deque[tuple[float, str]] = field(default_factory=deque)

    def is_full(self, peer: str) -> bool:
        """Return whether no further token of this address is looked at now."""
        while self._seen and self.clock() - self._seen[0][0] > WRONG_S:
            self._seen.popleft()
        of_peer = sum(one == peer for _, one in self._seen)
        return of_peer >= MOST_WRONG or len(self._seen) >= 10 * MOST_WRONG

    def note(self, peer: str) -> None:
        """Take note of a wrong one."""
        self._seen.append((self.clock(), peer))


@dataclass(slots=True)
class OperatorDoor:
    """The sessions of the operators of one process; they end with it. `secure`: served by TLS."""

    operators: Operators
    secure: bool = False
    clock: Callable[[], float] = time.monotonic
    wrong: WrongTokens = field(default_factory=WrongTokens)
    _sessions: dict[str, OperatorSession] = field(default_factory=dict)

    def session(self, request: Request) -> OperatorSession | None:
        """Return whose session a request belongs to."""
        found = self._sessions.get(_key(request.cookies.get(OPERATOR_COOKIE, "")))
        return found if found is not None and self.clock() < found.until else None

    def is_here(self, path: str) -> bool:
        """Return whether a path is this door's own."""
        return path in (SIGN_IN, SIGN_OUT)

    async def answer(self, request: Request) -> Response:
        """Sign an operator in or out, or show the form for it."""
        if request.method in ("GET", "HEAD"):
            return Response(operator_page(""), media_type="text/html")
        if request.method != "POST":
            return PlainTextResponse("this method is not allowed here\n", 405, {"allow": "GET, HEAD, POST", **_CLOSE})
        form = await own_form(request)
        if isinstance(form, Response):
            return form
        if request.scope["path"] == SIGN_OUT:
            return self._sign_out(request, form)
        return self._sign_in(request, form)

    def form_of(self, request: Request, form: Form) -> OperatorSession | None:
        """Return the session that a form belongs to, None for a form that was made elsewhere or without one."""
        session = self.session(request)
        given = form.get("word", "")
        return session if session is not None and hmac.compare_digest(given.encode(), session.word.encode()) else None

    def _sign_in(self, request: Request, form: Form) -> Response:
        peer = peer_of(cast("tuple[str, int] | None", request.scope.get("client")))
        if self.wrong.is_full(peer):
            said = f"Too many wrong tokens came from there. Try again in {WRONG_S:g} s."
            return Response(operator_page(said), 429, {"retry-after": f"{WRONG_S:g}"}, "text/html")
        name = self.operators.named_by(form.get("token", "").strip())
        if name is None:
            self.wrong.note(peer)
            return Response(operator_page("That is not the token of an operator."), 401, None, "text/html")
        self._sessions = {key: one for key, one in self._sessions.items() if self.clock() < one.until}
        ticket = secrets.token_urlsafe(32)
        self._sessions[_key(ticket)] = OperatorSession(name, secrets.token_urlsafe(32), self.clock() + SESSION_S)
        response = RedirectResponse("/", 303)
        response.set_cookie(OPERATOR_COOKIE, ticket, max_age=int(SESSION_S), httponly=True, samesite="strict",
                            secure=self.secure, path="/")  # fmt: skip
        return response

    def _sign_out(self, request: Request, form: Form) -> Response:
        if self.form_of(request, form) is None:
            return PlainTextResponse("sign in first\n", 403)
        del self._sessions[_key(request.cookies.get(OPERATOR_COOKIE, ""))]
        response = RedirectResponse("/", 303)
        response.delete_cookie(OPERATOR_COOKIE, path="/", httponly=True, samesite="strict", secure=self.secure)
        return response


async def own_form(request: Request) -> Form | Response:
    """Return the fields of a form that our own page sent, or why it is refused. Nothing of another site is read."""
    if not _is_same_origin(request.headers):
        return PlainTextResponse("the request was not sent by this page\n", 403, _CLOSE)
    length, kind = request.headers.get("content-length", ""), request.headers.get("content-type", "")
    is_bounded = length.isascii() and length.isdecimal() and len(length) < 10 and int(length) <= LONGEST_FORM
    if "transfer-encoding" in request.headers or not is_bounded:
        return PlainTextResponse("this is not a form of the dashboard\n", 413, _CLOSE)
    if kind.partition(";")[0].strip().lower() != _FORM:
        return PlainTextResponse("this is not a form of the dashboard\n", 415, _CLOSE)
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_FORM:
                return PlainTextResponse("this is not a form of the dashboard\n", 413, _CLOSE)
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except (ValueError, ClientDisconnect):
        return PlainTextResponse("this is not a form of the dashboard\n", 400, _CLOSE)
    if any(len(values) > 1 for values in fields.values()):
        return PlainTextResponse("a field of the form came twice\n", 400)
    return {name: values[0] for name, values in fields.items()}


def _is_same_origin(headers: Headers) -> bool:
    """Return whether the browser says that our own page sends this; one that says nothing is not heard."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is not None and origin.partition("://")[2] == headers.get("host")


def _key(ticket: str) -> str:
    return hashlib.sha256(ticket.encode("utf-8", "replace")).hexdigest()
