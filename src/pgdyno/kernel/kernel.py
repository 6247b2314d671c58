"""Linux knobs at run time: keep what was, write, read back, and put back exactly. Nothing here persists.

An image is complete by itself: it names files and their exact text, so that a watchdog or a person with a shell can
undo without knowing the server. Standard library only, and no import of a database driver, for the same reason.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.kernel import kernel_knobs, kernel_smt, overcommit, server_group, swap_file
from pgdyno.kernel.kernel_knobs import Located
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.kernel_tree import LIVE, Tree, plain, reason_of
from pgdyno.model import linux
from pgdyno.model.facts import Unknown

_ATTEMPTS = 3
"""How often a pool of huge pages is asked for: each time the kernel compacts memory a little more."""


@dataclass(frozen=True, slots=True)
class KernelImage:
    """What a knob was: each file with its exact text, in the order of restoring; no text where there was no file."""

    knob: str
    files: tuple[tuple[str, str | None], ...]


def read_value(name: str, places: KernelPlaces, *, tree: Tree = LIVE) -> str | Unknown:
    """Return a knob's value as the kernel has it now, or why it is unknown; never raises."""
    if name in linux.SERVER_BOUNDS:
        return server_group.read_bound(name, places, tree)
    located = kernel_knobs.locate(name, places, tree)
    if isinstance(located, Unknown):
        return located
    path = located.files[0] if located.files else kernel_smt.CONTROL
    try:
        if name == linux.SWAP_AREA:
            return str(swap_file.size_bytes(path, tree))
        if not located.files:
            return kernel_smt.level(tree) or Unknown("the cores run different numbers of threads")
        found: dict[str, str] = {}
        for path in located.files:
            found[path] = plain(tree.read(path))
    except OSError as error:
        return Unknown(reason_of(error, path, tree))
    if len(set(found.values())) > 1:
        return Unknown(f"it differs: {', '.join(f'{path} has {text}' for path, text in found.items())}")
    return next(iter(found.values()))


def capture(names: Iterable[str], places: KernelPlaces, *, tree: Tree = LIVE) -> tuple[KernelImage, ...]:
    """Return an image of each knob, with all that changing it would change.

    Raises EnvironmentUnsuitable for a knob that this machine does not have: nothing is changed whose undo is unknown.
    """
    return tuple(_captured(name, places, tree) for name in names)


def write(name: str, value: str, places: KernelPlaces, *, tree: Tree = LIVE) -> None:
    """Write a knob and read it back; all or nothing.

    `name` is a knob of `model.linux`, `value` the text that the kernel's file takes (CPUs or bytes for a bound of the
    server, bytes for a swap file), `places` are the devices, swap file and server that the knob of one server means,
    `tree` is the root of /proc and /sys. Raises ApplyError when the kernel refuses it or took something else, and the
    knob is as before then.
    """
    (before,) = capture((name,), places, tree=tree)
    try:
        refusal = overcommit.refusal(name, value, tree)
        if refusal is not None:
            raise _error(name, value, refusal)
        _set(name, value, places, tree)
        found = read_value(name, places, tree=tree)
        if not is_taken(name, _rounded(name, value), found):
            raise _not_taken(name, value, found)
    except OSError as error:
        _put_back(before, tree)
        raise _error(name, value, _words(error)) from error
    except ApplyError:
        _put_back(before, tree)
        raise


def is_taken(name: str, value: str, found: str | Unknown) -> bool:
    """Tell whether the kernel has a value that was written: a bound on memory is kept in whole pages."""
    return found == value or (name in linux.SERVER_BOUNDS and server_group.is_bound_by(value, found))


def is_in_place(image: KernelImage, *, tree: Tree = LIVE) -> bool:
    """Return True when every file of the image has the value that it had. Never raises."""
    try:
        return all(
            not tree.exists(path) if text is None else plain(tree.read(path)) == plain(text)
            for path, text in image.files
        )
    except OSError:
        return False


def restore(image: KernelImage, *, tree: Tree = LIVE) -> bool:
    """Make a knob what it was; True when there was something to do. May be repeated, from every state.

    Raises OSError that names the first file that could not be put back; the others of the image are put back then.
    """
    if is_in_place(image, tree=tree):
        return False
    if image.knob == linux.SWAP_AREA:
        return swap_file.remove(image.files[0][0], tree)
    if image.knob in linux.SERVER_BOUNDS and image.files[0][1] is None:
        return server_group.release(image.files[0][0], tree)
    errors = [error for path, text in _steps(image) if (error := _step(path, text, tree))]
    if errors:
        raise errors[0]
    if not is_in_place(image, tree=tree):
        path, text = next((path, text) for path, text in image.files if plain(tree.read(path)) != plain(text or ""))
        raise OSError(errno.EIO, f"is {plain(tree.read(path))} after {plain(text or '')} was written", path)
    return True


def undo_commands(image: KernelImage) -> list[str]:
    """Return the lines of a shell that put a knob back by hand, as root."""
    if image.knob == linux.SWAP_AREA:
        return [line for path, _ in image.files for line in swap_file.commands(shlex.quote(path))]
    if image.knob in linux.SERVER_BOUNDS and image.files[0][1] is None:
        return server_group.commands(image.files[0][0])
    return [f"echo {shlex.quote(text)} > {shlex.quote(path)}" for path, text in _steps(image)]


def _captured(name: str, places: KernelPlaces, tree: Tree) -> KernelImage:
    if name in linux.SERVER_BOUNDS:
        place = server_group.locate(name, places, tree)
        if isinstance(place, Unknown):
            raise _unsuitable(name, place.reason)
        return KernelImage(name, ((place.folder, None) if place.is_ours else (place.file, tree.read(place.file)),))
    located = kernel_knobs.locate(name, places, tree)
    if isinstance(located, Unknown):
        raise _unsuitable(name, located.reason)
    if name == linux.SWAP_AREA:
        return KernelImage(name, tuple((path, None) for path in located.files))
    files: list[tuple[str, str]] = []
    for path in (*located.files, *located.beside):
        try:
            files.append((path, tree.read(path)))
        except OSError as error:
            if path in located.beside and error.errno == errno.EINVAL:
                continue  # a tunable that this device does not have, such as wbt_lat_usec below a stacked one
            raise _unsuitable(name, reason_of(error, path, tree)) from error
    return KernelImage(name, tuple(files))


def _set(name: str, value: str, places: KernelPlaces, tree: Tree) -> None:
    if name in linux.SERVER_BOUNDS:
        server_group.bind(name, value, places, tree)
        return
    located = kernel_knobs.locate(name, places, tree)
    assert isinstance(located, Located), "captured before"
    if name == linux.SWAP_AREA:
        swap_file.remove(located.files[0], tree)
        if int(value) > 0:  # the header takes a page
            swap_file.make(located.files[0], int(value) + os.sysconf("SC_PAGE_SIZE"))
        return
    if not located.files:
        kernel_smt.set_level(int(value), tree)
    for path in located.files:
        for _ in range(_ATTEMPTS if name == linux.NR_HUGEPAGES else 1):
            tree.write(path, value)
            if plain(tree.read(path)) == value:
                break


def _steps(image: KernelImage) -> Sequence[tuple[str, str]]:
    """Return the writes that bring an image back from every state, in order.

    Of two counterparts the one that counted is written, because that makes the other 0. Where both were 0, the last
    one (the ratio) is written twice: the kernel takes notice of a change only.
    """
    values = [(path, plain(text or "")) for path, text in image.files]
    if image.knob not in linux.COUNTERPARTS and image.knob != linux.OVERCOMMIT_RATIO:
        return values
    counted = [(path, text) for path, text in values if text != "0"]
    ratio = next(path for path, _ in values if "bytes" not in path)
    return counted or [(ratio, "1"), (ratio, "0")]


def _step(path: str, text: str, tree: Tree) -> OSError | None:
    try:
        for _ in range(_ATTEMPTS):
            if plain(tree.read(path)) == text:
                break
            tree.write(path, text)
    except OSError as error:
        return error if error.filename else OSError(error.errno, error.strerror, path)
    return None


def _put_back(image: KernelImage, tree: Tree) -> None:
    # The error at hand says more than a second one; the session's own restore tries again and reports.
    with contextlib.suppress(OSError):
        restore(image, tree=tree)


def _rounded(name: str, value: str) -> str:
    """Return what the kernel shows for a value: read-ahead is kept in whole pages."""
    if name != linux.READ_AHEAD:
        return value
    page_kb = os.sysconf("SC_PAGE_SIZE") // 1024
    return str(int(value) // page_kb * page_kb)


def _not_taken(name: str, value: str, found: str | Unknown) -> ApplyError:
    if name != linux.NR_HUGEPAGES:
        return _error(name, value, f"the kernel has {found}")
    hint = "Memory is fragmented or taken: ask for fewer, drop caches, or reserve them at boot (hugepages=N)."
    return _error(name, value, f"the kernel found room for {found} pages only", hint)


def _error(name: str, value: str, detail: str, hint: str | None = None) -> ApplyError:
    return ApplyError(
        f"{name} = {value} did not come into force",
        detail=detail[:1].upper() + detail[1:] + ".",
        hint=hint or "The knob is as it was before. Choose another value, or leave the knob out.",
    )


def _unsuitable(name: str, reason: str) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(
        f'Linux knob "{name}" cannot be changed here',
        detail=reason[:1].upper() + reason[1:] + ".",
        hint="Leave it out; pgdyno knobs host says what this machine has.",
    )


def _words(error: OSError) -> str:
    return (error.strerror or str(error)) + (f": {error.filename}" if error.filename else "")
