"""What an engine is told: where to connect, as whom, how fast, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Clock(StrEnum):
    """When a statement is due."""

    SCHEDULE = "schedule"
    """At its captured moment, divided by the speed: a slow server does not lower its own load."""
    THINK = "think"
    """After the captured pause, divided by the speed, since the previous answer."""


@dataclass(frozen=True, slots=True)
class EndPoint:
    """A server as an engine reaches it. `host` that begins with a slash is the folder of a Unix socket."""

    host: str
    port: int
    tls: str = "disable"
    """libpq's `sslmode`: disable, allow, prefer, require, verify-ca or verify-full."""
    root_certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """Who opens sessions. Passwords come with the plan on standard input and nowhere else."""

    passwords: dict[str, str] = field(default_factory=dict)
    """By role of the target."""
    stand_in: str | None = None
    """A superuser who opens the sessions of roles without a password here, by SET SESSION AUTHORIZATION."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One run of an engine over a tape, or over its share of the sessions."""

    tape: int
    """A descriptor that the engine inherits, as is `records`: it may run as somebody who could open neither."""
    records: int
    """What answers are appended to."""
    end_point: EndPoint
    login: Login = Login()
    speed: float = 1.0
    clock: Clock = Clock.SCHEDULE
    users: dict[str, str] = field(default_factory=dict)
    """Role of the trace -> role of the target, where they differ."""
    databases: dict[str, str] = field(default_factory=dict)
    shard: int = 0
    shards: int = 1
    """This run sends sessions whose ordinal leaves `shard` when divided by `shards`."""
    starts_in_s: float = 0.5
    max_seconds: float | None = None
    """The run ends by itself; what was not sent by then is left out."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of each session at its begin."""
    connect_timeout_s: float = 10.0
    account: str = ""
    """Whose rights the engine takes on before anything else, as `Account.numbers`; empty for ours."""
    stall_ms: int = 250
    """A gate that is closed for so long is opened and counted: it and a row lock may wait for each other."""
