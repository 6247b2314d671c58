"""Start, stop, restart and reload a server: one file for each way to do it, and one that finds out which way fits."""

from pgdyno.control.command import CommandControl
from pgdyno.control.patroni import PatroniControl
from pgdyno.control.pg_ctl import PgCtl
from pgdyno.control.pg_ctlcluster import PgCtlCluster
from pgdyno.control.protocol import Control
from pgdyno.control.systemd import SystemdControl, for_restore

__all__ = ["CommandControl", "Control", "PatroniControl", "PgCtl", "PgCtlCluster", "SystemdControl", "for_restore"]
