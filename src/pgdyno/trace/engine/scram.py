"""Prove a password to a server: SCRAM-SHA-256 (RFC 5802, RFC 7677) and MD5. Pure but for the client's nonce."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from functools import lru_cache
from unicodedata import normalize

MOST_ITERATIONS = 1_000_000
"""Of a server's choice (PostgreSQL's own is 4,096): a hostile one would keep the client at work for hours."""
MECHANISM = "SCRAM-SHA-256"


class LoginError(Exception):
    """A server refuses a session, or asks for what cannot be given; the text never holds a password."""


def md5_answer(user: str, password: str, salt: bytes) -> str:
    """Return what PostgreSQL's `md5` method asks for."""
    inner = hashlib.md5(password.encode() + user.encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()


class Scram:
    """One exchange: send `first`, answer with `final`, then `verify` that the server knows the password, too."""

    def __init__(self, password: str, nonce: str | None = None, user: str = "") -> None:
        # NFKC stands for SASLprep, which differs from it in characters that no password holds.
        self._password = normalize("NFKC", password)
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(18)).decode()
        self._bare = f"n={user},r={self._nonce}"  # PostgreSQL takes the user of the connection, whatever stands here
        self._server_signature = b""
        self.is_verified = False

    @property
    def first(self) -> bytes:
        """Return the first message; there is no channel binding."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the proof. Raises LoginError for a challenge that is none, or is not for us."""
        try:
            parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
            nonce, salt, iterations = parts["r"], base64.b64decode(parts["s"]), int(parts["i"])
        except (ValueError, KeyError):
            raise LoginError("the server's SCRAM challenge cannot be read") from None
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise LoginError("the server's SCRAM challenge is not an answer to ours")
        if not 0 < iterations <= MOST_ITERATIONS:
            raise LoginError(f"the server asks for {iterations} rounds of SCRAM; at most {MOST_ITERATIONS} are done")
        salted = _salted(self._password, salt, iterations)
        client_key = _hmac(salted, b"Client Key")
        bare = f"c=biws,r={nonce}"
        signed = f"{self._bare},{challenge.decode()},{bare}".encode()
        signature = _hmac(hashlib.sha256(client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = _hmac(_hmac(salted, b"Server Key"), signed)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, answer: bytes) -> None:
        """Raise LoginError unless the server has shown that it knows the password."""
        if not hmac.compare_digest(answer, b"v=" + base64.b64encode(self._server_signature)):
            raise LoginError("the server has not shown that it knows the password")
        self.is_verified = True


@lru_cache(maxsize=256)
def _salted(password: str, salt: bytes, iterations: int) -> bytes:
    """One role's sessions share salt and iterations: the dear part is done once."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
