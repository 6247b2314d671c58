"""The way back by hand: what UNDO.md says, for a person with nothing but a shell."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

from pgdyno.target import durable
from pgdyno.target.control_record import restart_command
from pgdyno.target.file_image import FileImage
from pgdyno.target.kernel import undo_commands
from pgdyno.target.manifest import Manifest

_TEXT = """\
# How to undo the pgdyno session {id} by hand

pgdyno began this session on {began} for study {study} on {target}.
Data directory: {data_directory}

First choice, as the user who ran pgdyno:

    pgdyno rollback {id}

Without pgdyno, as root or as the owner of the files:

1. See that pgdyno itself and its watchdog have ended: `pgrep -af pgdyno` shows neither process {pid} nor a line with
   `{directory}`. End them with `pkill -9 -f {directory}` if they do not end by themselves.

2. Put the files and the kernel's values back, and check them:

```sh
{files}
```

3. Restart the server (it starts when it is down):

```sh
{restart}
```

4. Compare with how the server was: {settings} lists every row of pg_settings before the session.
"""


def undo_text(manifest: Manifest, directory: Path) -> str:
    """Return the text for a bundle that will lie in `directory`."""
    commands = [line for number, image in enumerate(manifest.images) for line in _commands(number, image, directory)]
    commands += [line for image in manifest.kernel for line in undo_commands(image)]
    commands += [shlex.join(["rm", "-f", manifest.reserve])] if manifest.reserve else []
    return _TEXT.format(
        id=manifest.id,
        began=datetime.fromtimestamp(manifest.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        study=manifest.study,
        target=manifest.target,
        data_directory=manifest.data_directory,
        pid=manifest.owner.pid,
        directory=directory,
        files="\n".join(commands),
        restart=restart_command(manifest.control),
        settings=directory / "settings.json",
    )


def _commands(number: int, image: FileImage, directory: Path) -> list[str]:
    path = Path(image.path)
    staged = durable.temporary_path(path)
    if image.attributes is None:
        return [shlex.join(["rm", "-f", str(path), str(staged)])]
    copy, attributes = str(directory / "files" / str(number)), image.attributes
    owner = ["-o", str(attributes.uid), "-g", str(attributes.gid), "-m", f"{attributes.mode:04o}"]
    commands = [["rm", "-f", str(staged)], ["install", *owner, copy, str(path)]]
    if attributes.mtime_ns is not None:
        seconds, rest = divmod(attributes.mtime_ns, 1_000_000_000)
        commands.append(["touch", "-m", "-d", f"@{seconds}.{rest:09d}", str(path)])
    check = f"echo {shlex.quote(f'{image.sha256}  {path}')} | sha256sum -c -"
    return [*(shlex.join(command) for command in commands), check]
