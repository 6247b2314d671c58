"""The statements of a pgbench script that have a plan, with its variables as parameters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pgdyno.workloads.script import Script

BUILTIN_SQL = {
    "tpcb-like": (
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid",
        "SELECT abalance FROM pgbench_accounts WHERE aid = :aid",
        "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid",
        "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
        "VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP)",
    ),
    "simple-update": (
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid",
        "SELECT abalance FROM pgbench_accounts WHERE aid = :aid",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
        "VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP)",
    ),
    "select-only": ("SELECT abalance FROM pgbench_accounts WHERE aid = :aid",),
}
"""The statements of pgbench's built-in scripts, which `pgbench --show-script` prints."""
BUILTIN_TRIPS = {name: len(texts) + 2 * (len(texts) > 1) for name, texts in BUILTIN_SQL.items()}
"""pgbench sends each of them alone, and BEGIN and END around those that are several."""
_UNCOUNTED = re.compile(r"^\s*\\(?:if|elif|else|endif|startpipeline|syncpipeline|endpipeline)\b", re.MULTILINE)
_SLEEP = re.compile(r"^\s*\\sleep\b", re.MULTILINE)
_PAUSE = re.compile(r"^\s*\\sleep[ \t]+(\d+)(?:[ \t]*(us|ms|s))?[ \t]*$", re.MULTILINE)
_PAUSE_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_PLANNED = ("select", "insert", "update", "delete", "merge", "values", "with")
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'            # a literal
      | "(?:[^"]|"")*"           # a quoted name
      | (\$\w*\$).*?\1           # a dollar-quoted literal
      | --[^\n]*                 # comments
      | /\*.*?\*/
      | ::                       # a cast, whose type is no variable
      | :(?P<variable>[A-Za-z_]\w*)
      | ;
    """,
    re.VERBOSE | re.DOTALL,
)
_LEADING = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_MOST_CHARACTERS = 300


def statements(scripts: Iterable[Script]) -> list[str]:
    """Return the statements with $1, $2 ... for the variables, each once, in the order of the scripts."""
    found: list[str] = []
    for script in scripts:
        texts = BUILTIN_SQL.get(script.name, ()) if script.text is None else split_script(script.text)
        found += [numbered(text) for text in texts if is_planned(text)]
    return list(dict.fromkeys(found))


def is_planned(statement: str) -> bool:
    """Tell whether the planner has a say in a statement."""
    return statement.lower().startswith(_PLANNED)


def round_trips(script: Script) -> int | None:
    """Return how often a transaction of the script waits for the server; None where conditions or pipelines decide."""
    if script.text is None:
        return BUILTIN_TRIPS.get(script.name)
    if _UNCOUNTED.search(script.text):
        return None
    return len(split_script(script.text.replace("\\;", " ")))  # pgbench sends those together


def sleeps(script: Script) -> bool:
    """Return True where a transaction of the script may sleep: keying time, think time, of whatever length."""
    return _SLEEP.search(script.text or "") is not None


def least_pause_s(script: Script) -> float:
    """Return how long a transaction of the script sleeps at least, in seconds: by `\\sleep` with a written time.

    A time that is drawn by lot counts as none, and so does every one where conditions decide.
    """
    if script.text is None or _UNCOUNTED.search(script.text):
        return 0.0
    return sum(int(count) * _PAUSE_S[unit or "s"] for count, unit in _PAUSE.findall(script.text))


def split_script(text: str) -> list[str]:
    """Return the statements of a script without its meta-commands (`\\set ...`), in order."""
    lines: list[str] = []
    continued = False
    for line in text.splitlines():
        is_meta = continued or line.lstrip().startswith("\\")
        continued = is_meta and line.rstrip().endswith("\\")
        # pgbench ends a statement at a meta-command such as \gset too
        lines.append(";" if is_meta else re.sub(r"\\(gset|aset)\b.*$", ";", line))
    whole, found, begin = "\n".join(lines), [], 0
    for token in _TOKEN.finditer(whole):
        if token.group() == ";":
            found.append(whole[begin : token.start()])
            begin = token.end()
    return [clean for part in (*found, whole[begin:]) if (clean := _without_comments(part))]


@dataclass(frozen=True, slots=True)
class ScriptCommand:
    """A command as pgbench counts them: a statement or a meta-command, and the line that it begins on."""

    line: int
    text: str
    is_meta: bool = False


def commands_of(text: str) -> list[ScriptCommand]:
    """Return the commands of a script, meta-commands among them, in the order by which pgbench numbers them."""
    found: list[ScriptCommand] = []
    block: list[str] = []
    begin, continued = 1, False
    for number, line in enumerate([*text.splitlines(), "\\"], 1):
        is_meta = line.lstrip().startswith("\\") and not re.match(r"\s*\\(?:gset|aset)\b", line)
        if not is_meta and not continued:
            begin = begin if block else number
            block.append(re.sub(r"\\(gset|aset)\b.*$", ";", line))
            continue
        found += _statements_of("\n".join(block), begin)
        block = []
        if not continued:
            found.append(ScriptCommand(number, line.strip(), is_meta=True))
        continued = line.rstrip().endswith("\\")
    return found[:-1]


def _statements_of(text: str, line: int) -> list[ScriptCommand]:
    """Return the statements of lines without a meta-command; `\\;` joins two that are sent together."""
    whole, ends = text.replace("\\;", "\0 "), []
    for token in _TOKEN.finditer(whole):
        if token.group() == ";":
            ends.append((token.start(), token.end()))
    found, begin = [], 0
    for end, following in (*ends, (len(whole), len(whole))):
        part = whole[begin:end]
        blank = _LEADING.match(part)
        at = begin + (blank.end() if blank else 0)
        if clean := _without_comments(part):
            found.append(ScriptCommand(line + whole.count("\n", 0, at), clean.replace("\0", ";")))
        begin = following
    return found


def with_values(statement: str) -> str:
    """Return a statement with 1 for each variable, as the simple protocol would write a value there."""
    return _TOKEN.sub(lambda token: token.group() if token.group("variable") is None else "1", statement)


def numbered(statement: str) -> str:
    """Return a statement with its variables numbered $1, $2 ..., equal ones alike, as the server would see it."""
    numbers: dict[str, int] = {}

    def number(token: re.Match[str]) -> str:
        name = token.group("variable")
        return token.group() if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    return _TOKEN.sub(number, statement)


def parameters_of(statement: str) -> int:
    """Return how many parameters a numbered statement has."""
    return max((int(number) for number in re.findall(r"\$(\d+)\b", _TOKEN.sub(_blank, statement))), default=0)


def label(statement: str) -> str:
    """Return the statement on one line, cut where it is very long: how it is named in a report."""
    line = " ".join(statement.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]} ..."


def _blank(token: re.Match[str]) -> str:
    return " " if token.group()[0] in "'\"" else token.group()


def _without_comments(statement: str) -> str:
    def drop(token: re.Match[str]) -> str:
        return " " if token.group().startswith(("--", "/*")) else token.group()

    return _TOKEN.sub(drop, statement).strip()
