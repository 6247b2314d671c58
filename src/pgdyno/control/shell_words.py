"""What a command that was written for a shell starts, as an argument list: no shell is ever run for it. Pure.

Understood are one simple command, and the usual ways to run one as another user: `su`, `runuser` and `sudo`, with the
command as an argument, behind `-c`, or fed by a here-string (`su postgres <<<"pg_ctl restart -D /data"`). What needs a
shell for anything else, such as a pipe, a variable or two commands, is refused with what to write instead.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from pgdyno.errors import UsageError

_HERE = re.compile(r"(?s)(?P<outer>[^<>'\"]*)<<<(?P<fed>[^<].*)")
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_INLINE = re.compile(r"-[eilux]*c")
"""Options of a shell by which the command is the next word, such as -lc."""
_SUDO_USER = re.compile(r"-[EHin]*u(?P<user>.*)")
"""Options of sudo in one word that end in the user's, such as -iu."""
_UNQUOTED = frozenset(";|&<>()*?[]{}~#!\n$`\\")
_QUOTED = frozenset("$`\\")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_LOGIN = frozenset({"-", "-l", "--login", "-i", "-H", "-n", "-E", "-m", "-p", "--preserve-environment", "--"})
"""Options that change a session's surroundings and not what is run."""
_SHELL_NAMED = frozenset({"-s", "--shell"})
EXAMPLE = ("runuser", "-u", "postgres", "--", "pg_ctl", "restart", "-D", "/var/lib/pgsql/data")


class _NotSimpleError(ValueError):
    """It needs a shell; the words say for what."""


@dataclass(frozen=True, slots=True)
class _As:
    """A command and whose it is; None is ours, or root's where root was asked for."""

    words: tuple[str, ...]
    user: str | None = None


def restart_argv(text: str, *, is_root: bool) -> tuple[str, ...]:
    """Return the words of the program that a restart command starts, to be run as the user that it names.

    `is_root` says that we are root: then `runuser` changes the user, else `sudo -n`, which never asks. Raises
    UsageError, with the argument list to write, for what needs a shell.
    """
    try:
        found = _read(text)
    except (_NotSimpleError, ValueError) as error:
        raise UsageError(
            f'restart_command "{text[:200]}" needs a shell: {error}',
            detail="pgdyno runs a program with its arguments, and no shell.",
            hint=f"Leave it out of the file, and give --restart-command '{shlex.join(_instead(text, is_root))}', or a "
            "script that nobody else can change.",
        ) from error
    return _started(found, is_root)


def _started(found: _As, is_root: bool) -> tuple[str, ...]:
    if found.user is None or (found.user == "root" and is_root):
        return found.words
    if is_root:
        return ("runuser", "-u", found.user, "--", *found.words)
    return ("sudo", "-n", "-u", found.user, "--", *found.words)


def _read(text: str) -> _As:
    here = _HERE.fullmatch(text.strip())
    if here is None:
        return _of(_simple(text))
    outer, fed = _simple(here["outer"]), _simple(here["fed"])
    if len(fed) != 1:
        raise _NotSimpleError("a here-string is one word")
    if outer and outer[0] in _SHELLS and len(outer) == 1:
        return _of(_simple(fed[0]))
    user, command = _switched(outer)
    if command is not None or user is None:
        raise _NotSimpleError("a here-string is understood behind su USER")
    return _As(_simple(fed[0]), user)


def _of(words: tuple[str, ...]) -> _As:
    """Return what words start, through any su, runuser, sudo and sh -c before it."""
    if words[0].rpartition("/")[2] in _SHELLS and words[1:2] and words[1].startswith("-"):
        if len(words) != 3 or not _INLINE.fullmatch(words[1]):
            raise _NotSimpleError(f"of {words[0]} only -c with one command is understood")
        return _of(_simple(words[2]))
    user, command = _switched(words)
    if user is None:
        return _As(words)
    if not command:
        raise _NotSimpleError(f"{words[0]} would open a session, and read commands from it")
    inner = _of(command)
    return _As(inner.words, inner.user or user)


def _switched(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...] | None]:
    """Return the user that su, runuser or sudo changes to, None for another program, and the command behind it."""
    program, rest = words[0].rpartition("/")[2], list(words[1:])
    if program not in ("su", "runuser", "sudo"):
        return None, None
    user: str | None = None
    while rest:
        word = rest.pop(0)
        if word in _LOGIN:
            continue
        if word in _SHELL_NAMED and program != "sudo" and rest:
            rest.pop(0)
        elif word in ("-u", "--user") and program != "su" and rest:
            user = rest.pop(0)
        elif program == "sudo" and (joined := _SUDO_USER.fullmatch(word)) and (joined["user"] or rest):
            user = joined["user"] or rest.pop(0)
        elif word.startswith("--user=") and program != "su":
            user = word.removeprefix("--user=")
        elif word in ("-c", "--command") and program != "sudo" and rest:
            command = rest.pop(0)
            named = [one for one in rest if one not in _LOGIN]
            if len(named) + (user is not None) > 1:
                raise _NotSimpleError(f'"{named[-1]}" after the command')
            return _named(user or (named[0] if named else "root")), _simple(command)
        elif word.startswith("-"):
            raise _NotSimpleError(f"{program} {word} is not understood")
        elif program == "sudo" or user is not None:
            return _named(user or "root"), (word, *rest)
        else:
            user = word
    return _named(user or "root"), None


def _named(user: str) -> str:
    if not _NAME.fullmatch(user):
        raise _NotSimpleError(f'"{user}" is no name of a user')
    return user


def _simple(text: str) -> tuple[str, ...]:
    """Return the words of one simple command."""
    quote = ""
    for sign in text:
        if quote:
            if sign == quote:
                quote = ""
            elif quote == '"' and sign in _QUOTED:
                raise _NotSimpleError(f'"{sign}" between quotes')
        elif sign in "'\"":
            quote = sign
        elif sign in _UNQUOTED:
            raise _NotSimpleError("it has several lines" if sign == "\n" else f'"{sign}"')
    words = tuple(shlex.split(text))
    if not words:
        raise _NotSimpleError("there is no command")
    if _ASSIGNED.match(words[0]):
        raise _NotSimpleError(f"it sets {words[0].partition('=')[0]}")
    return words


def _instead(text: str, is_root: bool) -> tuple[str, ...]:
    """Return the argument list to write: what of a chain restarts, where that is one simple command, or an example."""
    inner = re.search(r"""(?s)(?:-c|<<<)\s*(["'])(?P<inner>.*)\1""", text)
    chain = inner["inner"] if inner else text
    try:
        parts = [_simple(one) for one in re.split(r"&&|;", chain) if "restart" in one]
        last = _of(parts[-1] if parts else ())
        user = _switched(_simple(text[: inner.start()]))[0] if inner else None
        return _started(_As(last.words, last.user or user), is_root)
    except (ValueError, IndexError):
        return EXAMPLE if is_root else ("sudo", "-n", "-u", "postgres", "--", *EXAMPLE[4:])
