"""SCRAM as the RFC's own example has it, and servers that do not keep to it."""

from __future__ import annotations

import pytest

from pgdyno.trace.engine.scram import LoginError, Scram, md5_answer

CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def exchange() -> Scram:
    return Scram("pencil", "rOprNGfwEbeRWgbNEkqO", user="user")


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not scram.is_verified
    scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert scram.is_verified


def test_a_server_that_does_not_know_the_password_is_found() -> None:
    scram = exchange()
    scram.final(CHALLENGE)
    with pytest.raises(LoginError, match="has not shown"):
        scram.verify(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert not scram.is_verified


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"nonsense", "cannot be read"),
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "not an answer to ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "not an answer to ours"),
        (CHALLENGE[:-4] + b"999999999", "999999999 rounds"),
        (CHALLENGE[:-4] + b"0", "0 rounds"),
    ],
)
def test_a_hostile_challenge_is_refused(challenge: bytes, message: str) -> None:
    with pytest.raises(LoginError, match=message):
        exchange().final(challenge)


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    assert Scram("x").first != Scram("x").first


def test_md5_as_postgresql_counts_it() -> None:
    assert md5_answer("joe", "secret", b"\1\2\3\4").startswith("md5")
    assert md5_answer("joe", "secret", b"\1\2\3\4") != md5_answer("joe", "secret", b"\1\2\3\5")
