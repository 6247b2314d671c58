"""How the Linux knobs of a configuration come into force in a session, and how they are put back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.control import sighup
from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.kernel import kernel
from pgdyno.kernel.kernel import KernelImage
from pgdyno.linux import processes
from pgdyno.linux.block_devices import KernelPlaces, find_places
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.linux.kernel_tree import LIVE
from pgdyno.model.configuration import Configuration
from pgdyno.model.linux import COUNTERPARTS, NR_HUGEPAGES
from pgdyno.targets.target import Target
from pgdyno.undo.bundle import UndoBundle


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """The Linux knobs that a session may change: their images, and the devices that block knobs apply to."""

    images: tuple[KernelImage, ...] = ()
    places: KernelPlaces | None = None
    directory: Path | None = None
    """The data directory, by which a bound finds the server's process however often it was started anew."""

    @classmethod
    def capture(cls, target: Target, names: Sequence[str]) -> KernelRoute:
        """Take down what the knobs are. Raises EnvironmentUnsuitable for one that this host does not have."""
        if not names:
            return cls()
        if not target.local or target.directory is None:
            raise EnvironmentUnsuitable(
                f"Linux knobs of the host of {target.name} cannot be changed from here",
                detail=f"Asked for: {', '.join(names)}.",
                hint="Run pgdyno on that host as root, or leave them out.",
            )
        route = cls((), find_places(target.directory), target.directory)
        return replace(route, images=kernel.capture(sorted(names), route._now()))

    def _now(self) -> KernelPlaces:
        assert self.places is not None, "images have places"
        assert self.directory is not None, "and a directory"
        running = sighup.postmaster(self.directory)
        return replace(self.places, postmaster=None if running is None else running.pid)

    def set(self, configuration: Configuration) -> None:
        """Write the Linux knobs of a configuration, and give every other one that was taken down its old value.

        Old values first: a counterpart that goes back would take a new value with it. Raises ApplyError when the
        kernel refuses one, and when one was not taken down before the first change.
        """
        wanted = configuration.linux()
        strange = sorted(wanted.keys() - {image.knob for image in self.images})
        if strange:
            raise ApplyError(f"{', '.join(strange)} cannot be set: the session did not take down what it was")
        for image in self.images:
            if image.knob not in wanted:
                _put_back(image)
        for name, value in wanted.items():
            places = self._now()
            if kernel.read_value(name, places) != value:
                kernel.write(name, value, places)

    def shortfalls(self, configuration: Configuration) -> list[str]:
        """Return a sentence for each Linux knob that is not what it should be now, empty when all are."""
        found = []
        for image in self.images:
            wanted = configuration.get(image.knob)
            if wanted is None:
                found += [] if _is_free(image, configuration) else [f"{image.knob} is not what it was before"]
            elif not kernel.is_taken(image.knob, wanted, now := kernel.read_value(image.knob, self._now())):
                found.append(f"{image.knob} = {wanted} was written, but the kernel has {now}")
        return found


def put_back(bundle: UndoBundle) -> tuple[list[str], list[str]]:
    """Put back every Linux knob of a bundle; return those that had to be, and a sentence for each that could not.

    A reboot has undone them all, and devices may have other names since: then nothing is touched.
    """
    changed: list[str] = []
    damage: list[str] = []
    if bundle.manifest.kernel and bundle.manifest.owner.boot_id != ProcessIdentity.own().boot_id:
        return changed, damage
    for image in bundle.manifest.kernel:
        try:
            if kernel.restore(image):
                changed.append(image.knob)
        except OSError as error:
            damage.append(f"{image.knob} could not be put back: {error.strerror or error}")
    damage += [f"{image.knob} is not what it was" for image in bundle.manifest.kernel if not kernel.is_in_place(image)]
    return changed, damage


def is_pool_held(put_back: Sequence[str], pid: int) -> bool:
    """Tell whether a server holds pages of a pool that was put back: it gives them to the kernel when it ends."""
    surplus = re.search(r"^HugePages_Surp:\s+(\d+)", LIVE.read("/proc/meminfo"), re.MULTILINE)
    held = NR_HUGEPAGES in put_back and surplus is not None and int(surplus[1]) > 0
    return held and processes.huge_pages_mapped(pid) is True


def _put_back(image: KernelImage) -> None:
    try:
        kernel.restore(image)
    except OSError as error:
        raise ApplyError(f"{image.knob} could not be given its old value: {error.strerror or error}") from error


def _is_free(image: KernelImage, configuration: Configuration) -> bool:
    """Tell whether a knob is as it was, or its counterpart has just taken its place."""
    return COUNTERPARTS.get(image.knob) in configuration or kernel.is_in_place(image)
