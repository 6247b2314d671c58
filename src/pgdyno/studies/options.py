"""What a study is asked for, as frozen records that the store keeps, so that a resumed study asks the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.verdict import Metric
from pgdyno.stats.sequential import Design
from pgdyno.target.patroni_api import PatroniApi
from pgdyno.target.restart_budget import RestartBudget

_URI_PASSWORD = re.compile(r"^[a-z]+://[^/@]*:[^/@]*@")


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """Which server: `dsn` None means the sandbox, whose other fields then count.

    With `host`, an address of ssh, `dsn` is meant as seen from there, and the agent works as `sudo_user` if given.
    `patroni` are addresses of the API of a Patroni cluster, of which `dsn` names role and database; its credentials
    are in the file `patroni_auth`. `sql_only` says that nothing but SQL may be used.
    """

    dsn: str | None = None
    restart_command: tuple[str, ...] | None = None
    sandbox: str = "default"
    sandbox_bin: Path | None = None
    keep: bool = True
    host: str | None = None
    sudo_user: str | None = None
    patroni: tuple[str, ...] = ()
    patroni_auth: Path | None = None
    patroni_ca: Path | None = None
    patroni_cert: Path | None = None
    sql_only: bool = False

    def __post_init__(self) -> None:
        if self.patroni and (self.sql_only or self.restart_command):
            other = "--sql-only" if self.sql_only else "--restart-command"
            raise UsageError(
                f"--patroni and {other} exclude each other", hint="Patroni restarts its servers itself: leave it out."
            )
        if self.host is not None and (self.patroni or self.sql_only):
            other = "--sql-only" if self.sql_only else "--patroni"
            raise UsageError(
                f"--host and {other} exclude each other", hint="Leave --host out: the other way needs no host."
            )
        if self.sql_only and self.dsn is None:
            raise UsageError("--sql-only needs a server", hint="Name it: --target 'host=db1 dbname=app user=dba'.")

    def patroni_api(self) -> PatroniApi | None:
        """Return the API that was named, None when none was."""
        if not self.patroni:
            return None
        return PatroniApi(self.patroni, self.patroni_auth, self.patroni_ca, self.patroni_cert)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values. A conninfo with a password in it is left out: it is asked for again on resume."""
        secret = self.dsn is not None and ("password" in self.dsn or _URI_PASSWORD.match(self.dsn))
        return {
            "dsn": None if secret else self.dsn,
            "needs_dsn": bool(secret),
            "restart_command": list(self.restart_command) if self.restart_command else None,
            "sandbox": self.sandbox,
            "sandbox_bin": str(self.sandbox_bin) if self.sandbox_bin else None,
            "keep": self.keep,
            "host": self.host,
            "sudo_user": self.sudo_user,
            "patroni": list(self.patroni),
            "patroni_auth": str(self.patroni_auth) if self.patroni_auth else None,
            "patroni_ca": str(self.patroni_ca) if self.patroni_ca else None,
            "patroni_cert": str(self.patroni_cert) if self.patroni_cert else None,
            "sql_only": self.sql_only,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object], dsn: str | None = None) -> TargetRequest:
        """Rebuild the request; `dsn` replaces a conninfo that was not kept."""
        if values.get("needs_dsn") and dsn is None:
            raise UsageError(
                "the study's target had a password in its conninfo, which was not kept",
                hint="Give --target again, or put the password into ~/.pgpass.",
            )
        command, folder = values.get("restart_command"), values.get("sandbox_bin")
        stored, host, sudo_user = values.get("dsn"), values.get("host"), values.get("sudo_user")
        return cls(
            dsn=dsn if dsn is not None else (None if stored is None else str(stored)),
            restart_command=tuple(_words(command)) or None,
            sandbox=str(values["sandbox"]),
            sandbox_bin=Path(str(folder)) if folder else None,
            keep=bool(values["keep"]),
            host=None if host is None else str(host),
            sudo_user=None if sudo_user is None else str(sudo_user),
            patroni=tuple(_words(values.get("patroni"))),
            patroni_auth=_path(values.get("patroni_auth")),
            patroni_ca=_path(values.get("patroni_ca")),
            patroni_cert=_path(values.get("patroni_cert")),
            sql_only=bool(values.get("sql_only")),
        )


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What a tune may spend and touch.

    `trials` bounds the search trials and `budget_s` the time under trial of the whole study; the first bound that is
    reached ends the search. Of `budget_s` the search takes `SEARCH_SHARE`, pruning ends at `PRUNE_SHARE`, and the rest
    belongs to the proof. `noise_runs` is how many baseline runs measure the noise floor; `baseline_every` how many
    search trials share one re-measured baseline. `restarts` is the restart budget as it is written, None unbounded.
    """

    metric: Metric = Metric.THROUGHPUT
    smallest_effect: float = 0.02
    confidence: float = 0.95
    seed: int = 1
    trials: int = 40
    budget_s: float | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    reload_only: bool = False
    linux: bool = False
    restarts: str | None = None
    noise_runs: int = 6
    baseline_every: int = 5
    prune_pairs: int = 8
    confirm_min: int = 4
    confirm_max: int = 24
    rivals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def restart_budget(self) -> RestartBudget | None:
        """Return the restart budget, None without a bound."""
        return None if self.restarts is None else RestartBudget.parse(self.restarts)

    @property
    def proof_restarts(self) -> int:
        """Return how many restarts are kept for what follows the search.

        At least two a pair, for the fewest pairs of screening, one pruning question and proof.
        """
        return 2 * (3 + 3 + self.confirm_min)

    @property
    def never_restarts(self) -> bool:
        """Return True when no knob that needs a restart can be tried and proved."""
        budget = self.restart_budget
        return self.reload_only or (
            budget is not None and budget.limit is not None and budget.limit <= self.proof_restarts
        )

    SEARCH_SHARE: ClassVar[float] = 0.45
    PRUNE_SHARE: ClassVar[float] = 0.75

    def design(self, *, min_pairs: int = 3, max_pairs: int | None = None, comparisons: int = 1) -> Design:
        """Return the rule for verdicts; `comparisons` shares the error rate over a family (Bonferroni)."""
        confidence = 1 - (1 - self.confidence) / comparisons
        return Design(
            smallest_effect=self.smallest_effect,
            confidence=confidence,
            min_pairs=min_pairs,
            max_pairs=max(min_pairs, max_pairs or self.confirm_max),
        )

    def rival_configurations(self) -> dict[str, Configuration]:
        """Return the rivals that are measured beside the winner."""
        return {name: Configuration.of(settings) for name, settings in self.rivals.items()}

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> TuneOptions:
        """Rebuild the options that a study was begun with."""
        known = dict(values)
        for name in ("include", "exclude", "only"):
            known[name] = tuple(_words(known.get(name)))
        known["metric"] = Metric(str(known["metric"]))
        return cls(**known)  # type: ignore[arg-type]  # values from JSON are `object`; to_json wrote them of these types


def _path(value: object) -> Path | None:
    return Path(str(value)) if value else None


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list | tuple) else []
