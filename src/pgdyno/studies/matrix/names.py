"""How cells and curves of a matrix are called: always by what tells them from the others, and by no more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.matrix import Cell, MatrixRow
from pgdyno.stats.matrix import Curve, threads_differ
from pgdyno.units import plural

MODE_WORDS = {"tpcb-like": "default script", "simple-update": "-N", "select-only": "-S", "custom": "custom script"}
_FACTORS = ("smt", "placement", "mode", "scale", "server_cpus")
_PLAIN = {"smt": "", "placement": "socket", "mode": "tpcb-like"}
"""Levels that need no word."""


@dataclass(frozen=True, slots=True)
class CellNames:
    """Names for the cells of one matrix. `differing` are the factors beside load and configuration that vary in it.

    `threads` is True where they are a factor of their own and do not go with the clients.
    """

    differing: tuple[str, ...]
    threads: bool

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> CellNames:
        """Return the names for these cells."""
        differing = tuple(name for name in _FACTORS if len({getattr(cell, name) for cell in cells}) > 1)
        return cls(differing, threads_differ(cells))

    @classmethod
    def of_rows(cls, rows: Sequence[MatrixRow]) -> CellNames:
        """Return the names for the cells of these rows."""
        return cls.of([row.cell for row in rows])

    def test(self, cell: Cell) -> str:
        """Return the column Test: the configuration and every differing factor; SMT has a column of its own."""
        return ", ".join([cell.configuration, *(level_word(cell, n) for n in self.differing if n != "smt")])

    def where(self, cell: Cell, axis: str) -> str:
        """Return at what a factor was compared: the load, and every other factor that differs or is not plain."""
        load = f"{cell.instances} x {cell.clients}" if axis == "jobs" else f"{cell.instances} x {load_text(cell)}"
        configuration = [] if axis == "configuration" else [cell.configuration]
        return ", ".join([load, *configuration, *self._told(cell, without=axis)])

    def curve(self, curve: Curve) -> str:
        """Return what a curve is called: the factors that its rows share."""
        cell = curve[0].cell
        mark = " [X]" if curve[0].durability == "X" else ""
        threads = [plural(cell.jobs, "thread")] if self.threads else []
        return ", ".join([cell.configuration + mark, *self._told(cell), *threads])

    def cell(self, row: MatrixRow) -> str:
        """Return a cell as a sentence names it."""
        cell = row.cell
        mark = " [X]" if row.durability == "X" else ""
        threads = f" in {plural(cell.jobs, 'thread')}" if self.threads else ""
        each = " each" if cell.instances > 1 else ""
        load = f"{plural(cell.instances, 'load generator')} with {plural(cell.clients, 'client')}{threads}{each}"
        return ", ".join([cell.configuration + mark, *self._told(cell), load])

    def _told(self, cell: Cell, *, without: str = "") -> list[str]:
        return [level_word(cell, name) for name in _FACTORS if name != without and self._is_told(cell, name)]

    def _is_told(self, cell: Cell, name: str) -> bool:
        """Return True for a level that is not the plain one; scale and CPUs have none, and are told where they vary."""
        return getattr(cell, name) != _PLAIN[name] if name in _PLAIN else name in self.differing


def level_word(cell: Cell, name: str) -> str:
    """Return the level that a cell has of a factor, as a word that says what it is."""
    value = getattr(cell, name)
    words = {
        "mode": MODE_WORDS.get(cell.mode, cell.mode),
        "scale": f"scale {value}" if value else "size of its own",
        "server_cpus": f"CPUs {value or 'all'}",
        "smt": f"SMT {value or 'as found'}",
    }
    return words.get(name, str(value))


def load_text(cell: Cell) -> str:
    """Write clients and threads of one load generator: `7` where they are equal, as the study does, else `7/2`."""
    return str(cell.clients) if cell.clients == cell.jobs else f"{cell.clients}/{cell.jobs}"
