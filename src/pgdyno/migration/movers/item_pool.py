"""Items of a phase, so many at a time; the first failure lets those that run end, and begins no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.migration.mover import ItemWatch, MoveItem


def in_pool(
    items: Sequence[MoveItem], jobs: int, work: Callable[[MoveItem], bool], halt: Callable[[], str], watch: ItemWatch
) -> None:
    """Do these items by `work`, which tells whether it came to its end; in their order where `jobs` is 1.

    At most `jobs` are done at a time. None begins once `halt` says why to end; `watch` is told how each one goes.
    Raises EnvironmentUnsuitable, of the first that failed, when those beside it are over.
    """
    failed = threading.Event()
    errors = list[EnvironmentUnsuitable]()

    def one(item: MoveItem) -> None:
        if failed.is_set() or halt():
            return
        watch.began(item.key)
        try:
            if work(item):
                watch.ended(item.key, bytes=item.bytes)
        except PgdynoError as error:
            failed.set()
            watch.failed(item.key, error.one_line)
            told = f"{item.kind} {item.key}: {error.message}"
            errors.append(EnvironmentUnsuitable(told, detail=error.detail, hint=error.hint))
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(max_workers=max(1, jobs), thread_name_prefix="pgdyno-move") as pool:
        for ended in [pool.submit(one, item) for item in items]:
            ended.result()
    if errors:
        raise errors[0]
