"""The exchange of a data directory's files, which a kill at any moment leaves to be finished by whoever comes next.

What is to be done is on disk, and fsynced, before the server is stopped. Each name moves by one rename, and where it
lies says whether it has moved: an old file is moved while its new one waits, and a new one goes in when no old one is
in its place. So finishing is doing all of it again.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pgdyno.control import Control, control_record
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import read_bytes
from pgdyno.owner import durable
from pgdyno.owner.durable import Attributes
from pgdyno.owner.hands import Hands, hands_of
from pgdyno.owner.runner import LocalRunner, Runner
from pgdyno.replay.copy_proof import MARKER, CopyMarker
from pgdyno.server import places
from pgdyno.server.postgres import Postgres

STAGED, REPLACED = "pgdyno.restore", "pgdyno.replaced"
"""In the data directory: what is being got, and what was there."""
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """An exchange as it stands in pgdyno's state folder from before it begins until it is over."""

    directory: str
    target: str
    """Its name, for people."""
    old: tuple[str, ...]
    """Names in the data directory that are moved away."""
    new: tuple[str, ...]
    """Names that are moved in."""
    user: str | None
    """Who the programs run as; None for ourselves."""
    control: dict[str, object] = field(default_factory=dict)
    owner: ProcessIdentity | None = None


def record_folder() -> Path:
    """Return where exchanges that are not over stand."""
    return places.state_dir() / "restores"


def keep(record: ExchangeRecord) -> Path:
    """Put an exchange on disk, fsynced with its folder; return where. Call it before anything is moved."""
    path = places.ensure(record_folder()) / f"{Path(record.directory).stat().st_ino}.json"
    content = json.dumps(asdict(replace(record, owner=ProcessIdentity.own())), indent=1) + "\n"
    durable.replace(path, content.encode(), Attributes(os.geteuid(), os.getegid(), 0o600))
    return path


def exchange(record: ExchangeRecord, hands: Hands, runner: Runner) -> None:
    """Move what is not moved yet. The server is down. Doing it again does what is left."""
    directory = Path(record.directory)
    staged, replaced = directory / STAGED, directory / REPLACED

    def move(folder: Path, names: Sequence[Path]) -> None:
        if names:
            runner.run(["mv", "-t", str(folder), "--", *map(str, names)], user=record.user, cwd=Path("/"))

    if hands.look(staged) is None:
        return  # it is over, and what was got is gone
    runner.run(["mkdir", "-p", "-m", "700", "--", str(replaced)], user=record.user, cwd=Path("/"))
    waiting, there = set(hands.names(staged)), set(hands.names(directory))
    kept = set(hands.names(replaced))
    move(
        replaced,
        [
            directory / name
            for name in record.old
            if name in there and name not in kept and (name in waiting or name not in record.new)
        ],
    )
    move(directory, [staged / name for name in record.new if name in waiting])
    runner.run(["sync", "-f", "--", str(directory)], user=record.user, cwd=Path("/"), check=False)


def mark_directory(directory: Path, hands: Hands) -> None:
    """Write into a data directory that it is a copy: whoever made it, or had it made, knows that."""
    status, control = hands.look(directory), hands.read(directory / "global" / "pg_control", at_most=8)
    assert status is not None, "a server runs in it, or will"
    (identifier,) = struct.unpack("=Q", control)  # the first member of the file
    content = CopyMarker(str(identifier), status.st_dev, status.st_ino).text().encode()
    account = hands.account
    hands.replace(directory / MARKER, content, Attributes(account.uid, account.gid, 0o600))


def finish(record: ExchangeRecord, path: Path, control: Control, hands: Hands, runner: Runner) -> None:
    """Do the rest of an exchange: move, mark, start the server, and forget it. Raises RestartError for the server.

    `path` is the file that holds the `record`, removed once the server runs; `hands` are those of the account that owns
    the data directory. `runner` runs the programs that move and remove files there, and `control` starts the server.
    """
    directory = Path(record.directory)
    exchange(record, hands, runner)
    mark_directory(directory, hands)
    control.start()
    path.unlink(missing_ok=True)
    clear(record, runner)


def clear(record: ExchangeRecord, runner: Runner) -> None:
    """Remove what was there before, and what was got and not used."""
    folders = [str(Path(record.directory) / name) for name in (STAGED, REPLACED)]
    runner.run(["rm", "-rf", "--", *folders], user=record.user, cwd=Path("/"))


def left_exchanges() -> Iterator[tuple[ExchangeRecord, Path]]:
    """Give the exchanges of restores that were killed, with where they stand. One that still runs is none."""
    for path in sorted(record_folder().glob("*.json")):
        with suppress(OSError, ValueError):
            document = load_json(read_bytes(path, at_most=_LONGEST))
            record = shaped(ExchangeRecord, document, "the exchange", strict=False)
            if record.owner is None or not record.owner.is_alive():
                yield record, path


def finish_left(record: ExchangeRecord, path: Path) -> None:
    """Finish what a killed restore left, by what is on disk alone. Raises EnvironmentUnsuitable where it cannot."""
    directory, runner = Path(record.directory), LocalRunner()
    try:
        hands = hands_of(directory)
        control = control_record.from_record(record.control, runner=runner, postgres=Postgres(""))
        assert control is not None, "kept with it"
        control.stop()
        finish(record, path, control, hands, runner)
    except (OSError, KeyError, ValueError) as error:
        raise EnvironmentUnsuitable(
            f'the files of "{record.directory}" are half exchanged: a restore was killed',
            detail=str(error),
            hint=f'Move what is in "{REPLACED}" there back and start the server, then remove "{path}".',
        ) from error


def finish_all_left(announce: Callable[[str], None]) -> None:
    """Finish every exchange that a killed restore left; what cannot be finished is told, and stays."""
    for record, path in left_exchanges():
        try:
            finish_left(record, path)
        except PgdynoError as error:
            announce(f"a killed restore of {record.target} is not finished: {error.one_line}")
        else:
            announce(
                f"{record.target} was down in the middle of a restore that was killed: that is finished, and it runs"
            )
