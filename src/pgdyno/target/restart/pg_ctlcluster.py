"""Control by Debian's pg_ctlcluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import RestartError
from pgdyno.target import postmaster_lock, processes
from pgdyno.target.restart.protocol import TIMEOUT_S, check_mode, log_size, log_tail
from pgdyno.target.runner import Completed, Runner


@dataclass(frozen=True, slots=True)
class PgCtlCluster:
    """Debian's pg_ctlcluster, which knows where a cluster's configuration and log are, and asks systemd where it runs.

    Must run as root or as the cluster's owner.
    """

    runner: Runner
    version: str
    cluster: str
    data_directory: Path
    log_file: Path | None = None
    timeout_s: float = TIMEOUT_S

    def start(self) -> None:
        """Start the cluster and wait; see `Control.start`."""
        if self.is_running():
            return
        postmaster_lock.clear(self.data_directory)
        logged = log_size(self.log_file)
        done = self._pg_ctlcluster("start")
        if done.returncode != 0 or not self.is_running():
            raise RestartError(
                f'cluster "{self.version}/{self.cluster}" did not start',
                detail=log_tail(self.log_file, logged) or done.stderr.strip(),
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
        return processes.postmaster_pid(self.data_directory) is not None

    def _pg_ctlcluster(self, action: str, *words: str) -> Completed:
        command = ["pg_ctlcluster", self.version, self.cluster, action, *words]
        return self.runner.run(command, timeout_s=self.timeout_s, check=False)
