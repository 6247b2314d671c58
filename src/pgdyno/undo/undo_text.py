"""The way back by hand: what UNDO.md says, for a person with nothing but a shell."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

from pgdyno.control.control_record import restart_command
from pgdyno.kernel.kernel import undo_commands
from pgdyno.owner import durable
from pgdyno.owner.file_image import FileImage
from pgdyno.routes.dropin import INCLUDE_LINES, marks_of
from pgdyno.server.postgres import Postgres
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.undo_alter_system import undo_commands as alter_system_commands
from pgdyno.undo.undo_patroni import undo_commands as patroni_commands

_TEXT = """\
# How to undo the pgdyno session {id} by hand

pgdyno began this session on {began} for study {study} on {target}.
Data directory: {data_directory}

First choice, as the user who ran pgdyno:

    pgdyno rollback {id}
{password}
Without pgdyno, as root or as the owner of the files:

1. See that pgdyno itself and its watchdog have ended: `pgrep -af pgdyno` shows neither process {pid} nor a line with
   `{directory}`. End them with `pkill -9 -f {directory}` if they do not end by themselves.

2. Put the files, what ALTER SYSTEM or Patroni set and the kernel's values back, and check them. A file that somebody
   else has edited since keeps that edit: only the lines of pgdyno are taken out of it.

```sh
{files}
```

3. Restart the server (it starts when it is down); where no setting waits for a restart, a reload is enough:

```sh
{restart}
```

   A process inherits from the shell that starts it: {process} lists the environment, limits and priorities that the
   server had. Nobody else may read it.

4. Compare with how the server was: {settings} lists every row of pg_settings before the session.
"""


def undo_text(manifest: Manifest, directory: Path) -> str:
    """Return the text for a bundle that will lie in `directory`."""
    commands = [
        line for number, image in enumerate(manifest.images) for line in _commands(number, image, manifest, directory)
    ]
    commands += alter_system_commands(manifest.route, manifest.conninfo, directory / "journal.jsonl")
    commands += patroni_commands(manifest.route, directory / "journal.jsonl")
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
        process=directory / "process.json",
        settings=directory / "settings.json",
        password=_password(manifest),
    )


def _password(manifest: Manifest) -> str:
    """Return what a person adds where the server asks for a password: no bundle keeps one."""
    if not manifest.asks_password:
        return ""
    role = Postgres(manifest.conninfo).label
    need = "Without it the settings are put back too, but not compared" if manifest.local else "Nothing goes without it"
    return f"""
The server asks {role} for a password, which is not kept here. Put it into ~/.pgpass or in front of that command:

    PGPASSWORD=... pgdyno rollback {manifest.id}

{need}.
"""


def _commands(number: int, image: FileImage, manifest: Manifest, directory: Path) -> list[str]:
    """Return the commands for one file: the old bytes go back where nobody edited it, else our lines come out."""
    path = Path(image.path)
    staged, name = durable.temporary_path(path), shlex.quote(str(path))
    is_main = image.path == manifest.main_file
    script = _sed_of_main() if is_main else _sed_of_dropin(manifest.id)
    copy = str(directory / "files" / str(number))
    holds_others = f"[ -e {name} ] && {script} {name} | grep -q ."
    if image.attributes is not None:
        after = f"tail -c +{image.size_bytes + 1} {name} | {script} | grep -q ."
        is_ours_alone = f"head -c {image.size_bytes} {name} | cmp -s - {shlex.quote(copy)} && ! {after}"
        # A drop-in that was in no main file holds our block alone.
        holds_others += f" && ! {{ {is_ours_alone}; }}"
    restore = _restoring(image, copy)
    return [
        shlex.join(["rm", "-f", str(staged)]),
        f"if {holds_others}",
        f"then {script.replace('sed', 'sed -i', 1)} {name}",
        f"else {'; '.join(restore)}",
        "fi",
    ]


def _restoring(image: FileImage, copy: str) -> list[str]:
    path, attributes = image.path, image.attributes
    if attributes is None:
        return [shlex.join(["rm", "-f", path])]
    owner = ["-o", str(attributes.uid), "-g", str(attributes.gid), "-m", f"{attributes.mode:04o}"]
    commands = [["install", *owner, copy, path]]
    if attributes.mtime_ns is not None:
        seconds, rest = divmod(attributes.mtime_ns, 1_000_000_000)
        commands.append(["touch", "-m", "-d", f"@{seconds}.{rest:09d}", path])
    check = f"echo {shlex.quote(f'{image.sha256}  {path}')} | sha256sum -c -"
    extended = [
        f"{shlex.join(['setfattr', '-n', name, '-v', f'0s{value}', str(path)])} || echo 'install the package attr'"
        for name, value in sorted(attributes.extended.items())
    ]
    return [*(shlex.join(command) for command in commands), *extended, check]


def _sed_of_main() -> str:
    patterns = [f"/^{_escaped(line.decode())}[[:space:]]*$/d" for line in INCLUDE_LINES]
    return shlex.join(["sed", *(word for pattern in patterns for word in ("-e", pattern))])


def _sed_of_dropin(session: str) -> str:
    patterns = [f"/^{_escaped(head)}$/,/^{_escaped(end)}$/d" for head, end in marks_of(session)]
    return shlex.join(["sed", *(word for pattern in patterns for word in ("-e", pattern))])


def _escaped(text: str) -> str:
    return re.sub(r"([\\./*\[\]^$])", r"\\\1", text)
