"""Files that a person named for evidence: one that is not what it is named for is refused, by its name.

What a capture holds is taken as it is, and what of it cannot be understood is unknown. A person who names a file waits
for what it says, and would take silence for "nothing found".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.facts import Unknown
from pgdyno.outside.files import open_file, read_text
from pgdyno.probes.evidence.iostat import parse_iostat
from pgdyno.probes.evidence.log_files import LogPart, local_parts
from pgdyno.probes.evidence.sadf import parse_sadf

_READABLE = "Name a file that this user may read."
_LOG_HINT = "Name a log that PostgreSQL wrote, as text, csvlog or jsonlog; it may be packed by gzip."


def iostat_text(path: Path | None) -> str | None:
    """Return the text of a file of iostat -x, None without one. Raises UsageError when it is not that."""
    if path is None:
        return None
    text = read_text(path, hint=_READABLE, lenient=True)
    if not parse_iostat(text):
        raise UsageError(f'file "{path}" is not what iostat -x prints', hint="Make it with iostat -x 1 60 > FILE.")
    return text


def sadf_text(path: Path | None) -> str | None:
    """Return the text of a file of sadf -j, None without one. Raises UsageError when it is not that."""
    if path is None:
        return None
    text = read_text(path, hint=_READABLE, lenient=True)
    found = parse_sadf(text, Unknown("it is not asked for"))
    if isinstance(found, Unknown):
        raise UsageError(
            f'file "{path}" cannot be used', detail=f"{found}.", hint="Make it with sadf -j SAR_FILE -- -A > FILE."
        )
    return text


def named_parts(logs: Sequence[Path]) -> list[LogPart] | Unknown:
    """Return the parts of files and folders that somebody named; of a folder what can be read of it.

    Raises UsageError for a file that is missing or cannot be read. Never waits for one.
    """
    paths: list[Path] = []
    for path in logs:
        if not path.exists():
            raise UsageError(f'log file "{path}" does not exist', hint="Name a file or a folder with --log.")
        if path.is_dir():
            paths += files_of(path)
            continue
        try:
            open_file(path).close()
        except OSError as error:
            raise UsageError(f'log file "{path}" cannot be read', detail=error.strerror, hint=_READABLE) from error
        paths.append(path)
    return local_parts(paths)


def not_a_log(path: str) -> UsageError:
    """Return the error for a file without any line of a server's log."""
    return UsageError(f'file "{path}" is not a server log', detail="No line of it is one.", hint=_LOG_HINT)


def is_regular(part: LogPart) -> bool:
    """Tell whether a part can be read more than once."""
    return Path(part.path).is_file()


def files_of(folder: Path) -> list[Path]:
    """Return the files in a folder; none when there is no such folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except OSError:
        return []
