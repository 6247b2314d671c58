"""Control by Debian's pg_ctlcluster."""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control.pg_ctl import PgCtl, options_of
from pgdyno.control.protocol import TIMEOUT_S, check_mode, log_size, log_tail, restart_errors
from pgdyno.errors import RestartError
from pgdyno.outside.files import is_file
from pgdyno.owner.hands import hands_of
from pgdyno.owner.process_image import ProcessImage
from pgdyno.owner.runner import Completed, Runner
from pgdyno.server import postmaster_lock


@dataclass(frozen=True, slots=True)
class PgCtlCluster:
    """Debian's pg_ctlcluster, which knows where a cluster's configuration and log are, and asks systemd where it runs.

    Runs as the cluster's owner `user` (None: as ourselves), also when we are root: the files that it reads and the
    programs that it starts are the owner's. A cluster that systemd runs has a `SystemdControl`. With an `image` the
    server is started by pg_ctl as that process was, with the options that pg_ctlcluster had given it: pg_ctlcluster
    itself sets environment and OOM score again.
    """

    runner: Runner
    version: str
    cluster: str
    data_directory: Path
    log_file: Path | None = None
    timeout_s: float = TIMEOUT_S
    user: str | None = None
    image: ProcessImage | None = None

    def start(self) -> None:
        """Start the cluster and wait; see `Control.start`."""
        if self.is_running():
            return
        alike = self._like_image()
        if alike is not None:
            alike.start()
            return
        postmaster_lock.clear(self.data_directory)
        hands = hands_of(self.data_directory)
        logged = log_size(self.log_file, hands)
        done = self._pg_ctlcluster("start")
        if done.returncode != 0 or not self.is_running():
            raise RestartError(
                f'cluster "{self.version}/{self.cluster}" did not start',
                detail=log_tail(self.log_file, hands, logged) or done.stderr.strip(),
                hint='Read its log (pg_lsclusters shows where); "pgdyno rollback" puts back what pgdyno changed.',
            )

    def stop(self, mode: str = "fast") -> None:
        """Stop the cluster and wait; see `Control.stop`."""
        check_mode(mode)
        if not self.is_running():
            return
        done = self._pg_ctlcluster("stop", "-m", mode)
        if self.is_running():
            raise RestartError(f'cluster "{self.version}/{self.cluster}" did not stop', detail=done.stderr.strip())

    def restart(self) -> None:
        """Stop the cluster fast and start it; see `Control.restart`."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Signal the postmaster; see `Control.reload`."""
        done = self._pg_ctlcluster("reload")
        if done.returncode != 0:
            raise RestartError(
                f'cluster "{self.version}/{self.cluster}" could not be reloaded', detail=done.stderr.strip()
            )

    def is_running(self) -> bool:
        """Tell whether a live postmaster serves the cluster's data directory."""
        return postmaster_lock.postmaster_pid(self.data_directory) is not None

    def _like_image(self) -> PgCtl | None:
        program = Path(self.image.argv[0]) if self.image is not None and self.image.argv else None
        if program is None or self.log_file is None or not is_file(program.parent / "pg_ctl"):
            return None
        assert self.image is not None
        return PgCtl(
            runner=self.runner,
            bin_dir=program.parent,
            data_directory=self.data_directory,
            log_file=self.log_file,
            user=pwd.getpwuid(self.image.uid).pw_name,
            timeout_s=self.timeout_s,
            options=options_of(self.image.argv),
            image=self.image,
        )

    def _pg_ctlcluster(self, action: str, *words: str) -> Completed:
        command = ["pg_ctlcluster", "--skip-systemctl-redirect", self.version, self.cluster, action, *words]
        with restart_errors(f'cannot {action} cluster "{self.version}/{self.cluster}"'):
            return self.runner.run(command, user=self.user, timeout_s=self.timeout_s, check=False)
