"""Which captured statements are never sent again, and which texts are not even kept. Pure.

Judged by the parse tree; what does not parse is judged by its words, and then in doubt refused. What would change the
target's settings, roles or other servers, stop sessions, or needs data that a log does not have, stays away.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.trace.fingerprints import ParseTree


class Barred(StrEnum):
    """Why a statement is never sent. The words are what the column `refused` of a trace holds, and never change."""

    OURS = "pgdyno's own session"
    WRITES = "writes, or may write"
    """Left out by a read-only cut, as was asked for."""
    LOGIN = "its login failed in the capture"
    REPLICATION = "replication"
    FASTPATH = "fast-path function call"
    BEGUN = "its transaction began before the log"
    """Without its begin, each statement would be committed by itself, also where all of them were rolled back."""
    FETCH = "fetches more of a portal, which its first execution fetches whole"
    SETTINGS = "changes settings of the server"
    SESSIONS = "ends or cancels sessions"
    LOGS = "rotates the server's log"
    ROLES = "role DDL"
    DATABASES = "database DDL"
    SPACES = "tablespace DDL"
    ELSEWHERE = "reaches other servers"
    FILES = "reads or writes files of the server"
    STATE = "changes what the server is: promotion, backup, WAL"
    TEXT = "runs SQL from a text"
    COPY = "COPY"
    """Of a text that does not parse."""
    COPY_IN = "COPY FROM STDIN: its data are not in the log"
    COPY_OUT = "COPY TO STDOUT"
    COPY_FILE = "COPY with a file of the server"
    COPY_PROGRAM = "COPY with a program"
    NUL = "holds a NUL"


_NODES = {
    "AlterSystemStmt": Barred.SETTINGS,
    **dict.fromkeys(
        ("CreateRoleStmt", "AlterRoleStmt", "AlterRoleSetStmt", "DropRoleStmt", "GrantRoleStmt", "DropOwnedStmt",
         "ReassignOwnedStmt"), Barred.ROLES),
    **dict.fromkeys(
        ("CreatedbStmt", "DropdbStmt", "AlterDatabaseStmt", "AlterDatabaseSetStmt", "AlterDatabaseRefreshCollStmt"),
        Barred.DATABASES),
    **dict.fromkeys(("CreateTableSpaceStmt", "DropTableSpaceStmt", "AlterTableSpaceOptionsStmt"), Barred.SPACES),
    **dict.fromkeys(
        ("CreateFdwStmt", "AlterFdwStmt", "CreateForeignServerStmt", "AlterForeignServerStmt", "CreateUserMappingStmt",
         "AlterUserMappingStmt", "DropUserMappingStmt", "ImportForeignSchemaStmt", "CreateForeignTableStmt"),
        Barred.ELSEWHERE),
    **dict.fromkeys(("CreateSubscriptionStmt", "AlterSubscriptionStmt", "DropSubscriptionStmt"), Barred.REPLICATION),
}  # fmt: skip
_OBJECTS = {
    "OBJECT_ROLE": Barred.ROLES, "OBJECT_DATABASE": Barred.DATABASES, "OBJECT_TABLESPACE": Barred.SPACES,
    "OBJECT_FDW": Barred.ELSEWHERE, "OBJECT_FOREIGN_SERVER": Barred.ELSEWHERE,
    "OBJECT_USER_MAPPING": Barred.ELSEWHERE, "OBJECT_SUBSCRIPTION": Barred.REPLICATION,
}  # fmt: skip
_FUNCTIONS = {
    "pg_reload_conf": Barred.SETTINGS,
    **dict.fromkeys(("pg_terminate_backend", "pg_cancel_backend"), Barred.SESSIONS),
    **dict.fromkeys(("pg_rotate_logfile", "pg_rotate_logfile_v2"), Barred.LOGS),
    **dict.fromkeys(
        ("lo_import", "lo_export", "pg_file_write", "pg_file_rename", "pg_file_unlink", "pg_file_sync",
         "pg_read_file", "pg_read_binary_file"), Barred.FILES),
    **dict.fromkeys(
        ("pg_promote", "pg_start_backup", "pg_stop_backup", "pg_backup_start", "pg_backup_stop", "pg_switch_wal",
         "pg_create_restore_point", "pg_wal_replay_pause", "pg_wal_replay_resume"), Barred.STATE),
    **dict.fromkeys(
        ("query_to_xml", "query_to_xml_and_xmlschema", "query_to_xmlschema", "ts_stat"), Barred.TEXT),
}  # fmt: skip
_PREFIXES = (
    (re.compile(r"dblink|postgres_fdw_|http(?:_(?:get|post|put|patch|delete|head))?$|\w+_(?:to|from)_s3$"),
     Barred.ELSEWHERE),
    (re.compile(r"pg_(?:logical_|replication_(?:slot|origin)|(?:create|drop|copy)_.*replication|sync_replication)"),
     Barred.REPLICATION),
)  # fmt: skip
_WORDS: tuple[tuple[re.Pattern[str], Barred], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"\balter\s+system\b|pg_reload_conf", Barred.SETTINGS),
        (r"pg_terminate_backend|pg_cancel_backend", Barred.SESSIONS),
        (r"pg_rotate_logfile", Barred.LOGS),
        (r"\b(?:create|alter|drop)\s+(?:role|user|group)\b|\b(?:drop|reassign)\s+owned\b", Barred.ROLES),
        (r"\b(?:create|alter|drop)\s+database\b", Barred.DATABASES),
        (r"\b(?:create|alter|drop)\s+tablespace\b", Barred.SPACES),
        (
            r"dblink|\bforeign\s+(?:data|table|schema)\b|\bcreate\s+server\b|\balter\s+server\b|\bdrop\s+server\b|\buser\s+mapping\b",
            Barred.ELSEWHERE,
        ),
        (r"\bsubscription\b|replication_slot|\bstart_replication\b|\bbase_backup\b", Barred.REPLICATION),
        (r"\bcopy\b[^;]*\b(?:from|to)\b", Barred.COPY),
        (r"\blo_(?:im|ex)port\b|\bpg_file_", Barred.FILES),
        (r"\bpg_promote\b|\bpg_switch_wal\b", Barred.STATE),
        (r"\bquery_to_xml", Barred.TEXT),
    )
)
SUSPECT = re.compile(
    r"(?i)\b(?:system|role|user|group|owned|database|tablespace|server|foreign|mapping|subscription|copy|do"
    r"|function|procedure|grant|revoke|owner|password)\b|pg_|dblink|fdw|http|_s3|\blo_|to_xml|ts_stat|u&|\0"
)
"""A text without any of these needs no parse tree to be let through."""
_PASSWORD = re.compile(r"(?i)\bpassword\s+(?:e|u&)?['$]")
_SECRET = (Barred.SETTINGS, Barred.ROLES, Barred.ELSEWHERE, Barred.REPLICATION)


@dataclass(frozen=True, slots=True)
class NeverSent:
    """Why a statement is not sent, and what is kept of its text."""

    reason: Barred
    shown: str | None = None
    """In place of the text, where that may hold a password."""


def judge(text: str, parse: Callable[[str], ParseTree | None]) -> NeverSent | None:
    """Return why a text is never sent, None where it may be; `parse` gives its tree and is called for suspects only."""
    if SUSPECT.search(text) is None:
        return None
    tree = parse(text)
    reason = _by_words(text) if tree is None else _by_tree(tree)
    if tree is None and _PASSWORD.search(text):  # mistyped, with its password
        reason = reason or Barred.ROLES
    if reason is None:
        return None
    return NeverSent(reason, without_secret(text) if reason in _SECRET and re.search(r"['$]", text) else None)


def judge_function(name: str) -> Barred | None:
    """Return why a function may not be called."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    return next((reason for pattern, reason in _PREFIXES if pattern.match(name)), None)


def _by_tree(tree: ParseTree) -> Barred | None:
    found = [reason for node, reason in _NODES.items() if node in tree.nodes]
    found += [reason for kind, reason in _OBJECTS.items() if kind in tree.objects]
    found += [reason for name in sorted(tree.functions) if (reason := judge_function(name))]
    found += [_copy(*one) for one in tree.copies]
    found += [reason for body in tree.bodies if (reason := _by_words(body))]
    return found[0] if found else None


def _by_words(text: str) -> Barred | None:
    if "\0" in text:
        return Barred.NUL
    return next((reason for pattern, reason in _WORDS if pattern.search(text)), None)


def _copy(is_from: bool, is_program: bool, file: str) -> Barred:
    if is_program:
        return Barred.COPY_PROGRAM
    if file:
        return Barred.COPY_FILE
    return Barred.COPY_IN if is_from else Barred.COPY_OUT


def without_secret(text: str) -> str:
    """Return the first two words of a statement that sets a password, and none of the rest."""
    words = re.findall(r"[A-Za-z_]+", re.sub(r"/\*.*?\*/|--[^\n]*", " ", text, flags=re.DOTALL)[:200])[:2]
    return f"{' '.join(words).upper()} ... PASSWORD <removed>"
