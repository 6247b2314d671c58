"""Control by pg_ctl, for a data directory of this host."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.control import sighup
from pgdyno.control.protocol import TIMEOUT_S, check_mode, log_size, log_tail, restart_errors
from pgdyno.errors import RestartError, telling_files
from pgdyno.owner import launch
from pgdyno.owner.hands import hands_of
from pgdyno.owner.process_image import ProcessImage
from pgdyno.owner.runner import Completed, Runner
from pgdyno.server import postmaster_lock

log = logging.getLogger(__name__)


_TELLING = telling_files(RestartError, "See that the data directory is where it was, and readable for its own account.")


@dataclass(frozen=True, slots=True)
class PgCtl:
    """pg_ctl on a data directory of this host, as its owner `user` (None: as ourselves).

    `log_file` takes what the server writes to standard error. `options` go to the postmaster at start. `env` is for
    builds that need LD_LIBRARY_PATH. The server enters `cgroups` and lives in a session of its own: it outlives us.
    With an `image` it is started as that process was, in account and environment, too.
    """

    runner: Runner
    bin_dir: Path
    data_directory: Path
    log_file: Path
    user: str | None = None
    timeout_s: float = TIMEOUT_S
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cgroups: Callable[[], Sequence[Path]] = field(default=tuple)
    image: ProcessImage | None = None

    @_TELLING
    def start(self) -> None:
        """Start the server and wait; see `Control.start`."""
        if self.is_running():
            return
        postmaster_lock.clear(self.data_directory)
        hands = hands_of(self.data_directory)
        logged = log_size(self.log_file, hands)
        # pg_ctl hands -o to a shell: the one place where words must be quoted into a string.
        options = ("-o", shlex.join(self.options)) if self.options else ()
        words = ("-w", "-l", str(self.log_file), *options)
        done = self._pg_ctl("start", *words, cgroups=self.cgroups(), image=self.image)
        if self.image is not None and done.returncode in launch.NOT_LAUNCHED:
            # Another process than it was is less harm than no server, and is told when the session is closed.
            log.warning("the server cannot be started as it was: %s", done.stderr.strip())
            done = self._pg_ctl("start", *words, cgroups=self.cgroups())
        if done.returncode != 0:
            raise RestartError(
                f'server in "{self.data_directory}" did not start',
                detail=log_tail(self.log_file, hands, logged) or done.stderr.strip() or done.stdout.strip(),
                hint=f'Read "{self.log_file}"; "pgdyno rollback" puts back a configuration that pgdyno changed.',
            )

    @_TELLING
    def stop(self, mode: str = "fast") -> None:
        """Stop the server and wait; see `Control.stop`."""
        check_mode(mode)
        if not self.is_running():
            return
        done = self._pg_ctl("stop", "-w", "-m", mode)
        if done.returncode != 0 and self.is_running():
            raise RestartError(
                f'server in "{self.data_directory}" did not stop',
                detail=done.stderr.strip() or done.stdout.strip(),
                hint="End the sessions that hold it up, or look for a slow disk: it is writing its checkpoint.",
            )

    def restart(self) -> None:
        """Stop the server fast and start it; see `Control.restart`."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Signal the postmaster and wait until it has taken that; see `Control.reload`.

        By ourselves: pg_ctl does no more, and to start it took as much CPU time as the rest of a switch's reload.
        """
        failed = f'server in "{self.data_directory}" could not be reloaded'
        try:
            with restart_errors(failed):
                sighup.reload(self.data_directory, None)
        except OSError as error:
            raise RestartError(failed, detail=error.strerror) from error

    def is_running(self) -> bool:
        """Tell whether a live postmaster serves the directory."""
        return postmaster_lock.postmaster_pid(self.data_directory) is not None

    def _pg_ctl(
        self, action: str, *words: str, cgroups: Sequence[Path] = (), image: ProcessImage | None = None
    ) -> Completed:
        seconds = str(int(self.timeout_s))
        command = [str(self.bin_dir / "pg_ctl"), action, "-D", str(self.data_directory)]
        waits = ["-t", seconds] if "-w" in words else []
        with restart_errors(f"cannot {action} the server"):
            return self.runner.run(
                [*command, *waits, *words],
                env=dict(self.env),
                user=self.user,
                timeout_s=self.timeout_s + 30,
                check=False,
                cgroups=cgroups,
                image=image,
            )


def options_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a postmaster's argument list, without its program and its data directory."""
    kept: list[str] = []
    skip = False
    for word in words[1:]:
        if skip or word == "-D":
            skip = not skip
        elif not word.startswith("-D"):
            kept.append(word)
    return tuple(kept)
