"""Start, stop, restart and reload a server: one file for each way to do it, and one that finds out which way fits."""

from pgdyno.target.restart.command import CommandControl
from pgdyno.target.restart.patroni import PatroniControl
from pgdyno.target.restart.pg_ctl import PgCtl
from pgdyno.target.restart.pg_ctlcluster import PgCtlCluster
from pgdyno.target.restart.protocol import Control
from pgdyno.target.restart.systemd import SystemdControl, for_restore

__all__ = ["CommandControl", "Control", "PatroniControl", "PgCtl", "PgCtlCluster", "SystemdControl", "for_restore"]
