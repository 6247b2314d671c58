"""`pgdyno compare --platforms A B`: two machines by every denominator, from studies of this store or from bundles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.reporting import emit
from pgdyno.errors import ExitCode, UsageError
from pgdyno.outside.files import is_file, is_there

if TYPE_CHECKING:
    from pgdyno.model.platform import Platform, PlatformComparison
    from pgdyno.model.study import Study
    from pgdyno.store.catalogue import Store

SIDES = ("A", "B")
_NAMED = re.compile(r"([A-Za-z][\w.+ -]{0,30})=(.+)")


def compare_command(flags: CompareFlags, words: tuple[str, str]) -> int:
    """Compare the two platforms that were named and write the page; NOT_RESOLVED when the comparison is invalid."""
    from pgdyno.studies.platforms.comparing import compare_platforms
    from pgdyno.studies.platforms.page import platforms_page

    first, second = read_both(flags, words)
    comparison = compare_platforms(first, second, own_settings=flags.own_settings)
    if flags.as_json and flags.output is None:
        _print_json(comparison)
    else:
        emit(platforms_page(comparison), flags.wanted, flags.output)
    return int(ExitCode.NOT_RESOLVED if comparison.invalid else ExitCode.OK)


def read_both(flags: CompareFlags, words: tuple[str, str]) -> tuple[Platform, Platform]:
    """Read both platforms with the names, counts and prices that were given for them."""
    from pgdyno.studies.platforms.reading import COUNTS, read_platform

    given = [_named(word) for word in words]
    with ExitStack() as stack:
        found = [stack.enter_context(_study(flags, place)) for _, place in given]
        names = _names([name for name, _ in given], [study for _, study in found])
        _refuse_same([study for _, study in found], [place for _, place in given])
        counts = _by_platform(flags.counts, names, "count", COUNTS)
        prices = _by_platform(flags.prices, names, "price", ("", "core"))
        sides = []
        for name, (store, study) in zip(names, found, strict=True):
            told = {what: int(number) for what, number in counts.get(name, {}).items()}
            sides.append(priced(read_platform(store, study, name, told), prices.get(name, {})))
    return sides[0], sides[1]


def priced(platform: Platform, price: Mapping[str, float]) -> Platform:
    """Return the platform with its price: of the whole, or of each core."""
    if "core" in price:
        if not isinstance(platform.cores, int):
            raise UsageError(
                f"the price of each core of {platform.name} needs the number of its cores",
                hint=f"Give it with --count {platform.name}.cores=8, or give the price of the whole.",
            )
        return replace(platform, price=price["core"] * platform.cores)
    return replace(platform, price=price.get(""))


def _named(word: str) -> tuple[str | None, str]:
    match = _NAMED.fullmatch(word)
    return (match[1], match[2]) if match and not is_there(Path(word)) else (None, word)


def _names(given: list[str | None], studies: list[Study]) -> list[str]:
    hosts = [study.facts.get("host") for study in studies]
    kinds = [str(host.get("architecture", "")) if isinstance(host, Mapping) else "" for host in hosts]
    tellable = all(kinds) and kinds[0] != kinds[1] and not any("{" in kind for kind in kinds)
    names = [name or (kind if tellable else side) for name, kind, side in zip(given, kinds, SIDES, strict=True)]
    if names[0] == names[1]:
        raise UsageError(f'both platforms are called "{names[0]}"', hint="Name them: --platforms old=STUDY new=FILE.")
    return names


def _refuse_same(studies: list[Study], places: list[str]) -> None:
    """Refuse to compare a study with itself: after an import `last` may well be the one of the other machine."""
    if studies[0].id == studies[1].id:
        raise UsageError(
            f'"{places[0]}" and "{places[1]}" are the same study, {studies[0].id}',
            detail="last is the study that began last, also where it was imported." if "last" in places else None,
            hint="Name each platform's own study; pgdyno store list shows their ids.",
        )


@contextmanager
def _study(flags: CompareFlags, place: str) -> Iterator[tuple[Store, Study]]:
    """Give a study of the store, or the study of a bundle, which is read into a store of its own for as long."""
    from pgdyno.store.catalogue import Store

    path = Path(place)
    if not is_file(path):
        with open_store(flags.store_url) as store:
            yield store, store.study(place)
        return
    from pgdyno.owner.temporary import temporary
    from pgdyno.studies.bundles import import_studies
    from pgdyno.studies.kinds import kind_of

    with temporary("bundle") as folder, Store.open(folder / "bundle.db") as store:
        import_studies(store, path)
        studies = [study for study in store.studies() if kind_of(study.kind).stands_alone]
        if len(studies) != 1:
            raise UsageError(
                f'bundle "{path}" has {len(studies)} studies that could be compared',
                detail=", ".join(study.id for study in store.studies()),
                hint="Export one matrix or one bench, or import the bundle and name its study.",
            )
        yield store, studies[0]


def _by_platform(
    words: tuple[str, ...], names: list[str], flag: str, allowed: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    """Read NAME=VALUE, NAME.WHAT=VALUE and NAME=VALUE/core; A and B always name the first and the second."""
    by_name = {**dict(zip(SIDES, names, strict=True)), **{name: name for name in names}}
    found: dict[str, dict[str, float]] = {}
    for word in words:
        place, _, value = word.partition("=")
        name, _, what = (place, "", "") if place in by_name else place.rpartition(".")
        value, slash, each = value.partition("/")
        what = each if slash else what
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if by_name.get(name) is None or what not in allowed or not 0 < number < 1e15:
            form = "NAME=1200 or NAME=150/core" if flag == "price" else f"NAME.{'|'.join(allowed)}=8"
            raise UsageError(
                f'--{flag} "{word}" is not {form}', hint=f"NAME is {' or '.join(dict.fromkeys([*names, *SIDES]))}."
            )
        found.setdefault(by_name[name], {})[what] = number
    return found


def _print_json(comparison: PlatformComparison) -> None:
    import json

    import click

    from pgdyno.studies.platforms.words import comparison_json

    click.echo(json.dumps(comparison_json(comparison)))
