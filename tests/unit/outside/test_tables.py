"""Tables of files that people write: fitted into dataclasses, and each slip told with place, key and value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from pgdyno.errors import UsageError
from pgdyno.model.tables import read_table, table_of, tables_of, toml_of


class Colour(StrEnum):
    """A word of a few."""

    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Wheel:
    """A table in a table."""

    size: int
    name: str = ""


@dataclass(frozen=True)
class Cart:
    """A table with a value of every sort."""

    name: str
    weight: float = 1.0
    colour: Colour = Colour.RED
    is_new: bool = False
    tags: tuple[str, ...] = ()
    loads: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    spare: Wheel | None = None
    wheels: tuple[Wheel, ...] = ()
    price: str | int | None = None


def cart(text: str) -> Cart:
    return read_table(Cart, toml_of(f'name = "a"\n{text}', "file"), "file: cart")


def test_every_value_is_fitted_into_its_field() -> None:
    made = cart(
        'weight = 2\ncolour = "green"\nis_new = true\ntags = ["x"]\nloads = [1, 2]\nprice = 3\n'
        'labels = { k = "v" }\nspare = { size = 1 }\n[[wheels]]\nsize = 2\n[[wheels]]\nname = "b"\nsize = 3\n'
    )
    wheels = (Wheel(2), Wheel(3, "b"))
    assert made == Cart("a", 2.0, Colour.GREEN, True, ("x",), (1, 2), {"k": "v"}, Wheel(1), wheels, 3)
    assert isinstance(made.weight, float)
    assert cart("") == Cart("a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wieght = 2", 'file: cart: unknown key "wieght"'),
        ("weight = '2'", '"weight" is text and not a number'),
        ("weight = nan", "not TOML: a number without an end (nan)"),
        ("weight = true", '"weight" is true or false and not a number'),
        ("colour = 'blue'", 'colour "blue" is not one of red, green'),
        ("colour = 1", '"colour" is a number and not text'),
        ("is_new = 1", '"is_new" is a number and not true or false'),
        ("tags = 'x'", '"tags" is text and not an array'),
        ("tags = [1]", '"tags" is not a list of text'),
        ("loads = [true]", '"loads" is not a list of whole numbers'),
        ("loads = [1.5]", '"loads" is not a list of whole numbers'),
        ("labels = { k = 1 }", 'k in "labels" is not text'),
        ("labels = 1", '"labels" is a number and not a table'),
        ("spare = 1", "cart: spare is not a table"),
        ("spare = {}", 'cart: spare: "size" is missing'),
        ("wheels = [1]", "wheels is not a list of tables"),
        ("[[wheels]]\nsize = 1\n[[wheels]]\nsize = 1.5", 'wheels 2: "size" is a number and not a whole number'),
        ("[[wheels]]\nname = 'b'\n", 'wheels "b": "size" is missing'),
        ("price = []", '"price" is an array and not text'),
        ("= 1", "file: not TOML"),
    ],
)
def test_a_slip_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(UsageError) as slip:
        cart(text)
    assert words in slip.value.message


def test_a_hint_names_the_nearest_key() -> None:
    with pytest.raises(UsageError) as slip:
        table_of({"wieght": 1}, "file", ("name", "weight"))
    assert slip.value.hint == "Did you mean weight? There are name, weight."
    assert tables_of({}, "row", "file") == []
