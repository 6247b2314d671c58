"""What the host's counters cover: a container sees the whole host, a guest sees its own share only. Pure."""

from __future__ import annotations

from collections.abc import Sequence

HOST_WIDE = ("cpu (all but server_cpu_s, driver_cpu_s and self_cpu_s)", "memory", "pressure", "disk")
NO_DEVICE = ("9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gluster", "gpfs", "lustre", "nfs", "smb", "virtiofs")
"""What the names of file systems begin with whose data lie on no block device of the machine that mounts them."""
OF_THE_SERVER = ("database", "checkpointer", "wal", "io", "locks", "sessions", "waits", "replication")


def devices_hold(filesystem: object, *, own_host: bool) -> bool:
    """Tell whether what the block devices of the watched machine read says where the server's data came from.

    `filesystem` is that of the data directory; where it is unknown on the server's own host, its devices are believed.
    """
    return own_host and not (isinstance(filesystem, str) and filesystem.lower().startswith(NO_DEVICE))


def scope_notes(container: str | None, virtualization: str, *, is_limited: bool) -> tuple[str, ...]:
    """Say which counters hold for more, or for less, than the server's own environment.

    `virtualization` is the layer as the facts have it; `is_limited` is True where a cgroup bounds the server's memory.
    """
    notes = []
    if container is not None:
        notes.append(
            f"The server runs in a container ({container}). Host-wide, other containers included: "
            f"{_listed(HOST_WIDE)}. Of this server alone: {_listed(OF_THE_SERVER)}. Table net is of the container's "
            "own network."
        )
    elif is_limited:
        notes.append(
            f"A cgroup bounds the server's memory. Host-wide, other services included: {_listed(HOST_WIDE)}, and net."
        )
    layer = virtualization.lower()
    if "z/vm" in layer:
        notes.append(
            "This is a guest of z/VM. Its monitor data (CP monitor records, such as Performance Toolkit shows) were "
            "not given and are missing here: what other guests took shows only as steal time."
        )
    elif layer and layer not in ("none", "lpar"):
        notes.append("This is a guest: what its host does for others shows only as steal time and slower devices.")
    return tuple(notes)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
