"""Ask the server program whether it would start, beside the running server: `postgres -C` on a stand-in directory.

`postgres -C NAME` prints one setting and ends. From 15 on, a setting that is only known at start (shared_memory_size,
shared_memory_size_in_huge_pages, wal_segment_size, data_checksums, num_os_semaphores) takes the program through the
checks of a start, the libraries that are loaded at start included, and for that it wants the data directory to
itself: on that of a running server it ends with "lock file already exists". So it gets a stand-in (`stand_in`): a
folder of its own with copies of PG_VERSION and pg_control, a link to postgresql.auto.conf, and the real configuration
file. It ends before it takes memory, opens a socket or writes a file anywhere else. In 13 and 14 there are no such
settings: the program reads the files only, and `server_checks.combinations` judges what would stop a start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control import PgCtl
from pgdyno.control.detect import options_at_start
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Unknown
from pgdyno.outside.files import is_file
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.stand_in import stand_in
from pgdyno.targets.target import Target

COMPUTED_SINCE = 15
_TIMEOUT_S = 30.0
_NOT_COMPUTED = Unknown("the server program did not say: it computes it from 15 on, and when it would start")
_LEVELS = ("FATAL:", "PANIC:", "ERROR:", "HINT:", "DETAIL:")


@dataclass(frozen=True, slots=True)
class StartReading:
    """What the program said. `complaints` is empty when it would start; `known` ones it has of today's values too.

    `shared_memory` in bytes, rounded up to a MB by the server; `huge_pages` in pages of the planned huge_page_size.
    """

    complaints: tuple[str, ...] | Unknown
    known: bool = False
    shared_memory: int | Unknown = _NOT_COMPUTED
    huge_pages: int | Unknown = _NOT_COMPUTED


def read_start(target: Target, plan: StartPlan) -> StartReading:
    """Ask the program. Needs to be root or the server's owner, else all of it is `Unknown`.

    Side effects: a folder of ours for the while (see `stand_in`); none on the server.
    """
    if target.directory is None:
        return _unknown("the server's data directory is not on this host, or cannot be read")
    program = target.bin_dir / "postgres"
    if not is_file(program):
        return _unknown(f'program "{program}" is not here')
    try:
        with stand_in(target.runner, target.directory, target.os_user) as folder:
            return _ask(target, plan, folder)
    except (EnvironmentUnsuitable, OSError) as error:
        return _unknown(str(error))


def _ask(target: Target, plan: StartPlan, folder: Path) -> StartReading:
    asked = dict(plan.asked) if plan.dry else {}
    first = "shared_memory_size" if plan.major >= COMPUTED_SINCE else "shared_buffers"
    value, complaints = _print_setting(target, plan, folder, first, asked)
    if complaints:
        # The control experiment: what the program says of the values in force too is not the configuration's fault.
        today = {name: plan.now[name].setting or "" for name in plan.asked if plan.changes(name)}
        _, still = _print_setting(target, plan, folder, first, today)
        return StartReading(complaints, known=bool(still))
    if plan.major < COMPUTED_SINCE:
        return StartReading(())
    pages, _ = _print_setting(target, plan, folder, "shared_memory_size_in_huge_pages", asked)
    return StartReading((), shared_memory=_times(value, 1 << 20), huge_pages=_times(pages, 1))


def _times(text: str, unit: int) -> int | Unknown:
    if text.isdigit():
        return int(text) * unit
    return Unknown("the server cannot tell: huge pages are not supported here" if text == "-1" else "no number")


def _print_setting(
    target: Target, plan: StartPlan, folder: Path, name: str, values: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Return what `postgres -C` prints, and why it did not."""
    words = [*_options(target), "-c", f"config_file={plan.now['config_file'].setting}"]
    # Certificates are named relative to the data directory and are none of our knobs.
    words += ["-c", f"data_directory={folder}", "-c", "ssl=off"]
    for knob, value in values.items():
        words += ["-c", f"{knob}={value}"]
    done = target.runner.run(
        [str(target.bin_dir / "postgres"), "-D", str(folder), *words, "-C", name],
        env={**_environment(target), "LC_ALL": "C"},
        user=target.os_user,
        timeout_s=_TIMEOUT_S,
        check=False,
    )
    if done.returncode == 0:
        return done.stdout.strip(), ()
    return "", complaints_of(done.stderr) or (f"exit status {done.returncode}",)


def complaints_of(stderr: str) -> tuple[str, ...]:
    """Return why the program ended, without its notices: `FATAL:` and what follows it, `postgres: ...`."""
    found = []
    for line in stderr.splitlines():
        level = next((level for level in _LEVELS if level in line), None)
        if level is not None:
            found.append(line.partition(level)[2].strip())
        elif line.startswith("postgres: "):
            found.append(line.removeprefix("postgres: "))
    return tuple(found)


def _options(target: Target) -> Sequence[str]:
    """Return the options that the next start will have on its command line."""
    if isinstance(target.control, PgCtl):
        return target.control.options
    assert target.directory is not None, "checked by read_start"
    return options_at_start(target.directory)


def _environment(target: Target) -> Mapping[str, str]:
    return dict(target.control.env) if isinstance(target.control, PgCtl) else {}


def _unknown(reason: str) -> StartReading:
    return StartReading(Unknown(reason), shared_memory=Unknown(reason), huge_pages=Unknown(reason))
