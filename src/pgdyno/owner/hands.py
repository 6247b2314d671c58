"""What pgdyno does on a server's files: typed calls that are carried out with the server's own account.

Run as root, each account has a worker process (worker.py) that is started at the first call and ends with us. Run as
any other account, the calls are made in this process: it has no rights to lose. Paths that come from the server, its
owner or its files go nowhere else.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import pickle
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import pgdyno
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.shapes import shaped
from pgdyno.outside.files import open_file
from pgdyno.outside.way import stranger_on
from pgdyno.owner import worker
from pgdyno.owner.account import Account, owner_of_server
from pgdyno.owner.durable import Attributes
from pgdyno.owner.file_image import FileImage
from pgdyno.owner.looking import LOOKING, OpenedFile
from pgdyno.owner.pins import DirectoryChanged, Pin
from pgdyno.owner.tasks import TASKS

T = TypeVar("T")
Call = Callable[[str, dict[str, object]], object]
MOST_BYTES = 128 << 20
ANSWER_S = 120.0
"""A directory on a disk that hangs must not keep a restore for ever; an fsync on a busy one takes its time."""
_ENDS_WITHIN_S = 10.0
_TEXT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Hands:
    """The hands of one account. Every call raises the plain OSError of the file system, as the account meets it.

    `pins` are directories in which nothing is done any more once they are others (DirectoryChanged).
    """

    account: Account
    call: Call
    pins: tuple[Pin, ...] = ()

    def read(self, path: Path, at_most: int = _TEXT_BYTES, start: int = 0) -> bytes:
        """Return bytes of a regular file; a link, a pipe or a device is refused."""
        return _as(bytes, self.call("read", {"path": str(path), "at_most": at_most, "start": start}))

    def read_whole(self, path: Path, longest: int) -> bytes:
        """Return all bytes of a regular file, for one that is written again: OSError where there are more of them."""
        data = self.read(path, at_most=longest + 1)
        if len(data) > longest:
            raise OSError(errno.EFBIG, f"longer than {longest >> 20} MB", str(path))
        return data

    def read_text(self, path: Path) -> str:
        """Return the text of a small file."""
        return self.read(path).decode(errors="replace")

    def look(self, path: Path) -> os.stat_result | None:
        """Return the status of what a path names, links not followed; None when there is nothing."""
        told = self.call("look", {"path": str(path)})
        if told is None:
            return None
        order = ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size")
        found = _as(dict[str, int], told)
        if not found.keys() >= {*order, "st_mtime_ns"}:
            raise _unreadable("a status without its parts")
        times = found["st_mtime_ns"]
        seconds = times // 10**9
        return os.stat_result([*(int(found[name]) for name in order), seconds, seconds, seconds])

    def names(self, folder: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return _as(list[str], self.call("names", {"folder": str(folder)}))

    def resolve(self, path: Path) -> Path:
        """Return the path with every link followed."""
        return Path(str(self.call("resolve", {"path": str(path)})))

    def may_write(self, folder: Path) -> bool:
        """Return True when the account can make files in a directory."""
        return self.call("may_write", {"folder": str(folder)}) is True

    def pin(self, folder: Path) -> Pin:
        """Return a pin on a directory as it is now."""
        return _as(Pin, self.call("pin", {"folder": str(folder)}))

    def pinned(self, pins: Sequence[Pin]) -> Hands:
        """Return the same hands, kept to these directories."""
        return Hands(self.account, self.call, tuple(pins))

    def capture(self, path: Path) -> tuple[FileImage, bytes]:
        """Return a file's image and bytes; see `file_image.capture`."""
        return _as(tuple[FileImage, bytes], self._call("capture", path=str(path)))

    def is_in_place(self, image: FileImage) -> bool:
        """Return True when a file is byte for byte, and in owner, mode and time, what its image says."""
        return self.capture(Path(image.path))[0] == image

    def check_replaceable(self, paths: Sequence[Path]) -> None:
        """Raise EnvironmentUnsuitable for a file that would not be the same again after it was replaced."""
        for path in paths:
            try:
                doubt = self._call("check_replaceable", path=str(path))
            except OSError as error:
                doubt = (error.strerror or str(error)).lower()
            if doubt is not None:
                raise EnvironmentUnsuitable(
                    f'"{path}" would not be the same again after it was replaced: {doubt}',
                    detail="Nothing was changed.",
                    hint="Remove what is in the way, run pgdyno as the owner of the file, or set by SQL: --sql-only.",
                )

    def restore(self, image: FileImage, data: bytes, found: str | None = None) -> bool:
        """Make a file what its image says; see `file_image.restore`."""
        return self._call("restore", image=image.to_json(), data=data, found=found) is True

    def replace(self, path: Path, data: bytes, attributes: Attributes | None = None) -> None:
        """Put bytes in place of a file durably; without attributes it keeps those that it has."""
        fields = None if attributes is None else asdict(attributes)
        self._call("replace", path=str(path), data=data, attributes=fields)

    def put(self, path: Path, data: bytes, found: str | None = None) -> None:
        """Give a file other bytes, in place where the disk is full; see `file_image.put`."""
        self._call("put", path=str(path), data=data, found=found)

    def sweep(self, path: Path) -> None:
        """Remove what a replacement of this file that was killed has left beside it."""
        self._call("sweep", path=str(path))

    def remove(self, path: Path) -> bool:
        """Remove a file durably; True when there was one."""
        return self._call("remove", path=str(path)) is True

    def reserve(self, path: Path, size: int) -> None:
        """Allocate a file of this size; a leftover is replaced."""
        self._call("reserve", path=str(path), size=size)

    def open_lock(self, path: Path) -> int:
        """Open a small file for reading and writing, made when it is missing; the caller closes the descriptor."""
        return self._open("open_lock", path)

    def open_read(self, path: Path) -> BinaryIO:
        """Open a regular file for reading; links are followed with the rights of the account."""
        return os.fdopen(self._open("open_read", path), "rb")

    def _open(self, task: str, path: Path) -> int:
        opened = self.call(task, {"path": str(path)})
        if not isinstance(opened, OpenedFile):
            raise _unreadable("no open file")
        if not stat.S_ISREG(os.fstat(opened.descriptor).st_mode):
            os.close(opened.descriptor)
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return opened.descriptor

    def forget_cached(self, folder: Path) -> None:
        """Drop the files below a directory from the page cache."""
        self.call("forget_cached", {"folder": str(folder)})

    def _call(self, name: str, **given: object) -> object:
        return self.call(name, {**given, "pins": self.pins})


def hands_of(data_directory: Path, pins: Sequence[Pin] = ()) -> Hands:
    """Return the hands of the account that a data directory belongs to, kept to `pins`.

    Where the directory is pinned it must be that one still (DirectoryChanged): whose it is decides with whose rights
    all that follows is done. Errors as `owner_of_server`.
    """
    status = data_directory.stat()
    for pin in pins:
        if pin.path == str(data_directory):
            pin.check(status)
    whose = owner_of_server(data_directory, status) if os.geteuid() == 0 else Account.of_user(os.geteuid())
    return hands_for(whose).pinned(pins)


def hands_for(account: Account) -> Hands:
    """Return the hands of an account."""
    if account.is_ours:
        return Hands(account, lambda name, given: TASKS[name](**given))
    with _LOCK:
        kept = _WORKERS.setdefault(account, _Worker(account))
    return Hands(account, kept.call)


def open_with_their_rights(path: Path) -> BinaryIO:
    """Open a file that a user named for reading, as `open_file`; whoever could lead root elsewhere lends the rights.

    The owner of a folder may put a link there to a file that is not his, and root would read it for him. Raises
    OSError, EnvironmentUnsuitable where the account's process does not answer.
    """
    stranger = stranger_on(path, 0) if os.geteuid() == 0 else None
    return open_file(path) if stranger is None else hands_for(Account.of_user(stranger)).open_read(path.absolute())


OURS = Hands(Account(os.geteuid(), os.getegid(), ()), lambda name, given: TASKS[name](**given))
"""Our own hands, for files that nobody else controls: the default where no server is in play."""


class _Worker:
    """The worker of one account, started when it is needed and again when it was ended.

    The first that is asked for is mostly a look: a worker for looks is there sooner. The first task that is more than
    one ends it, and starts one for all tasks.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_look = self._only_looks = False
        """Whether the task in hand is a look, and the worker can do no more than that."""
        self._is_asking = False
        """True from before a question to after its whole answer, and for good where Ctrl-C came between the two."""
        self._lock = threading.Lock()

    def call(self, name: str, given: dict[str, object]) -> object:
        """Have a task done; once more when the worker was killed meanwhile: every task may be repeated."""
        request = pickle.dumps((name, given))
        with self._lock:
            self._is_look = name in LOOKING
            if self._only_looks and not self._is_look:
                self.end()
            for attempt in (1, 2):
                try:
                    answer = self._ask(request)
                except OSError as error:
                    self.end()
                    if attempt == 2 or isinstance(error, TimeoutError):
                        raise self._gone(str(error) or type(error).__name__) from error
                    continue
                if isinstance(answer, OpenedFile):
                    return answer
                if answer is not None:
                    return _value(answer)
                self.end()
        raise self._gone("it was ended twice")

    def end(self) -> None:
        """End the worker; the next call starts another one.

        Raises EnvironmentUnsuitable while a disk that hangs keeps it: another one would write beside it.
        """
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise self._gone(f"process {self._process.pid} was killed and has not ended") from None
            self._process = None
        self._is_asking = self._only_looks = False

    def forget(self) -> None:
        """Leave the worker to the process that started it: we are a child of that."""
        self._channel = self._process = None

    def _ask(self, request: bytes) -> tuple[bytes, bytes] | OpenedFile | None:
        """Return the answer. One that an interrupt kept us from reading is not taken for that of the next question."""
        if self._is_asking or self._channel is None:
            self.end()
            self._start()
        assert self._channel is not None, "started just now"
        self._is_asking = True
        worker.send(self._channel, None, request)
        answer = worker.receive(self._channel, MOST_BYTES)
        is_opened = answer is not None and b'"descriptor": true' in answer[0]
        found = self._opened() if is_opened else answer
        self._is_asking = False
        return found

    def _opened(self) -> OpenedFile:
        assert self._channel is not None, "it has just answered"
        _, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
        if len(descriptors) != 1:
            raise _unreadable("no open file")
        os.set_inheritable(descriptors[0], False)
        return OpenedFile(descriptors[0])

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        words = [str(theirs.fileno()), self._account.numbers, str(os.getpid())]
        root = str(Path(pgdyno.__file__).parent.parent)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", worker.LOOKING_BOOT if self._is_look else worker.BOOT, root, *words],
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ours.settimeout(ANSWER_S)
        self._channel, self._only_looks = ours, self._is_look

    def _gone(self, why: str) -> EnvironmentUnsuitable:
        who = self._account.name or str(self._account.uid)
        return EnvironmentUnsuitable(
            f'the process that works on the files of user "{who}" does not answer',
            detail=why,
            hint=f"See what ends or stops processes of {who}, and whether its disk answers.",
        )


def _as(kind: type[T], value: object) -> T:
    """Return what a worker answered as this type. Raises EnvironmentUnsuitable for anything else."""
    try:
        return shaped(kind, value)
    except ValueError as error:
        raise _unreadable(str(error)) from None


def _unreadable(why: str) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable("a worker of pgdyno gave an answer that cannot be read", detail=why)


def _value(answer: tuple[bytes, bytes]) -> object:
    """Return what a worker answered. Nothing in it is trusted: a wrong form is an error of the environment."""
    header, data = answer
    try:
        told = json.loads(header)
        if not isinstance(told, dict):
            raise ValueError("not an object")
        if "errno" in told:
            number = told["errno"]
            raise OSError(number if isinstance(number, int) else 5, str(told["text"]), str(told["path"]) or None)
        if "refused" in told:
            raise _refusal(told)
        value = told["value"]
    except (ValueError, KeyError, RecursionError) as error:
        raise _unreadable(str(error)) from None
    if not told.get("bytes"):
        return value
    return data if value is None else (value, data)


def _refusal(told: Mapping[str, object]) -> PgdynoError:
    kind = DirectoryChanged if told["refused"] == DirectoryChanged.__name__ else EnvironmentUnsuitable
    detail, hint = (None if told.get(name) is None else str(told[name]) for name in ("detail", "hint"))
    return kind(str(told["message"]), detail=detail, hint=hint)


_WORKERS: dict[Account, _Worker] = {}
_LOCK = threading.Lock()


def _end_all() -> None:
    for kept in _WORKERS.values():
        with contextlib.suppress(OSError, EnvironmentUnsuitable):
            kept.end()


def _forget_all() -> None:
    for kept in _WORKERS.values():
        kept.forget()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)
