"""Our decorator of frozen dataclasses: what a class of the standard library's does, ours does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from pgdyno import frozen

made = frozen.dataclass
library = dataclasses.dataclass


def shapes(dataclass: Callable[..., Any]) -> tuple[type, ...]:
    """Make the same classes by a decorator."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """Defaults, a factory, and a field that nothing asks for."""

        x: int
        y: float = 0.5
        seen: list[int] = field(default_factory=list, compare=False, repr=False)
        kind: str = field(default="point", init=False)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        """By name alone, with a field that is worked out."""

        name: str
        length: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    @dataclass(frozen=True, slots=True, eq=False)
    class Single:
        """Each is only itself."""

        x: int

    @dataclass(frozen=True, slots=True)
    class Own:
        """Its own equality, hash and words."""

        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    @dataclass(frozen=True, slots=True)
    class Counted:
        """A variable of the class: made by the library itself."""

        of_all: ClassVar[int] = 3
        x: int = 1

    @dataclass(frozen=True, slots=True)
    class Deep(Point):
        """One with fields of a base."""

        z: int = 9

    return Point, Named, Single, Own, Empty, Counted, Deep


def told(dataclass: Callable[..., Any]) -> list[object]:
    """Do the same with each and tell what came of it."""
    point, named, single, own, empty, counted, deep = shapes(dataclass)
    a, b, c = point(1), point(1, 0.5, [5]), point(2, y=3.0)
    found: list[object] = [repr(a), a == b, a == c, a != c, a == (1, 0.5), hash(a) == hash(b), {a, b} == {b}]
    found += [repr(named(name="abc")), named(name="abc").length, named(name="a") == named(name="a")]
    found += [single(1) == single(1), single(1).__hash__ is not None, own(1) == own(2), hash(own(1)), repr(own(1))]
    found += [repr(empty()), empty() == empty(), hash(empty()) == hash(())]
    found += [counted.of_all, repr(counted()), repr(deep(1)), deep(1, z=8) == deep(1, z=8), deep(1) == point(1)]
    found += [repr(dataclasses.replace(c, x=7)), dataclasses.asdict(b), dataclasses.astuple(a)]
    found += [[f.name for f in dataclasses.fields(cls)] for cls in (point, named, deep)]
    found += [point.__match_args__, named.__match_args__, point.__slots__, repr(copy.copy(b)), repr(copy.deepcopy(b))]
    found += [point.__init__.__annotations__, dataclasses.is_dataclass(a), point(float("nan")) == point(float("nan"))]
    found += [refused(lambda: point()), refused(lambda: point(1, 2, 3, 4)), refused(lambda: named("abc"))]
    found += [
        refused(lambda: point(1, kind="x")),
        refused(lambda: setattr(a, "x", 2)),
        refused(lambda: delattr(a, "x")),
    ]
    found += [refused(lambda: setattr(deep(1), "x", 2))]
    found += [refused(lambda: dataclasses.replace(a, kind="x")), refused(lambda: hash(point([])))]
    return found


def refused(act: Callable[[], object]) -> tuple[str, str]:
    """Return what an act raises: the error's class, and its words where they are not Python's."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
        act()
    words = str(caught.value) if isinstance(caught.value, dataclasses.FrozenInstanceError) else ""
    return type(caught.value).__name__, words


def test_it_does_what_the_standard_library_does() -> None:
    for ours, theirs in zip(told(made), told(library), strict=True):
        assert str(ours).replace("made", "library") == str(theirs)


def test_the_same_value_that_is_no_number_is_equal_to_itself() -> None:
    nothing = float("nan")
    for dataclass in (made, library):
        single = shapes(dataclass)[0]
        assert single(nothing) == single(nothing)


@made(frozen=True, slots=True)
class Kept:
    """One that is kept in a file."""

    x: int
    y: tuple[str, ...] = ()


def test_it_is_pickled() -> None:
    one = Kept(1, ("a",))
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert repr(again) == "Kept(x=1, y=('a',))"


def test_only_its_init_is_compiled() -> None:
    assert shapes(made)[0].__eq__.__module__ == "pgdyno.frozen"
    assert shapes(made)[6].__eq__.__module__ != "pgdyno.frozen", "with fields of a base it is the library's"
