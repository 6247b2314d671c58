"""One request to the dashboard as an application, without a socket, and who may ask."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pgdyno.web.access import Access

TOKEN = "a-token-of-the-tests-0123456789"
OPEN = Access(frozenset({"localhost"}))
CLOSED = Access(frozenset({"localhost"}), TOKEN)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: str


def ask(app: Any, path: str, *, method: str = "GET", body: bytes = b"", events: int = 1, **headers: str) -> Answer:
    """Send one request and read the answer; of a stream that never ends the first `events` pieces."""
    given = {"host": "localhost:8432", "accept": "text/html", **{k.replace("_", "-"): v for k, v in headers.items()}}
    location, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": location, "raw_path": location.encode(),
        "query_string": query.encode(), "scheme": "http", "server": ("localhost", 8432), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()], "root_path": "",
    }  # fmt: skip
    start: dict[str, Any] = {}
    pieces: list[bytes] = []

    async def run() -> None:
        sent, done = False, asyncio.Event()

        async def receive() -> dict[str, object]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message.get("body"):
                pieces.append(message["body"])
                if message.get("more_body") and len(pieces) >= events:
                    done.set()

        await asyncio.wait_for(app(scope, receive, send), 30)

    asyncio.run(run())
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(pieces).decode())
