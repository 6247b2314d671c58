"""Read a server's log as a stream of bytes: bounded memory, fast over the lines that say nothing to us.

Whole blocks are searched for the few marks that messages of interest hold; only lines with one are taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pgdyno.model.evidence import LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.log_events import MARKS, LogCounts
from pgdyno.probes.evidence.log_lines import (
    NO_TIME,
    LogFormat,
    LogLine,
    format_of,
    parse_csv,
    parse_json,
    parse_stderr,
    starts_csv,
)

_LONGEST_RECORD = 1 << 20
"""A csvlog record or a line that is longer is given up: a statement of a megabyte is not what we look for."""
_ENGLISH = (
    *(b"ERROR:  ", b"HINT:  ", b"STATEMENT:  ", b"LOG:  checkpoint", b"LOG:  database system", b"LOG:  automatic"),
    *(b"LOG:  starting PostgreSQL", b"LOG:  connection ", b"LOG:  duration: ", b"LOG:  received "),
)
_FOREIGN_WORDS = (
    "FEHLER TIPP ANWEISUNG ERREUR ASTUCE INSTRUCTION DÉTAIL DETALLE SENTENCIA ERRORE SUGGERIMENTO ISTRUZIONE ОШИБКА "
    "СООБЩЕНИЕ ПОДСКАЗКА ОПЕРАТОР エラー ヒント 错误 日志 提示 语句 오류 로그 힌트 BŁĄD DZIENNIK FEL SATS CHYBA HATA"
)
_FOREIGN = tuple(f"{word}:  ".encode() for word in _FOREIGN_WORDS.split())


@dataclass(slots=True)
class LogReader:
    """Reads one server's log from any number of files, oldest first.

    `language` is lc_messages, None when it is not known. `keep_at_most` lines that were understood are kept for a
    capture; they hold no statement.
    """

    language: str | None = None
    keep_at_most: int = 0
    counts: LogCounts = field(default_factory=LogCounts)
    began: str | Unknown = NO_TIME
    ended: str | Unknown = NO_TIME
    english: int = 0
    foreign: int = 0
    is_ours: Callable[[LogLine], bool] = lambda _line: False
    """Tells of a line that pgdyno itself caused it: it counts for nothing."""
    is_log: bool = False
    """Whether any line was one of a server's log; a file of something else says nothing of checkpoints."""

    def __post_init__(self) -> None:
        self.counts.keep_at_most = self.keep_at_most

    def read(self, blocks: Iterable[bytes], *, starts_whole: bool = True) -> bool:
        """Read one file and return whether it is a server's log, in whatever language; as `blocks` raises.

        `starts_whole` False: the first line is the rest of one and is left out.
        """
        kind: LogFormat | None = None
        records = _CsvRecords()
        others, foreign, self.is_log = self.is_log, self.foreign, False
        for block, ends_whole in _whole_lines(blocks, starts_whole=starts_whole):
            kind = kind or format_of(block[: 1 << 16])
            self.counts.lines += block.count(b"\n") + (0 if block.endswith(b"\n") else 1)
            if kind is LogFormat.STDERR:
                self._stderr(block, ends_whole=ends_whole)
            else:
                parsed = _json_lines(block) if kind is LogFormat.JSON else records.lines(block)
                self._records(parsed)
        self.counts.unparsed += records.given_up
        found = self.is_log or self.foreign > foreign or self._is_foreign
        self.is_log = self.is_log or others
        return found

    @property
    def _is_foreign(self) -> bool:
        return self.language is not None and not is_english(self.language)

    def evidence(self, files: tuple[str, ...]) -> LogEvidence | Unknown:
        """Return what was counted; unknown when nothing was understood: another language, or no server's log at all.

        Without any line it is what was counted: in a window in which the server had nothing to say.
        """
        if self._is_foreign and not self.english:
            return Unknown(f"the server writes its messages in {self.language}, and only English ones are understood")
        if self.foreign and not (self.english and not self._is_foreign):
            return Unknown("the log has messages in another language than English, which are not understood")
        if self.counts.lines and not self.is_log:
            told = "its one line is not" if self.counts.lines == 1 else f"none of its {self.counts.lines} lines is"
            return Unknown(f"{', '.join(files) or 'the file'} is not a server log ({told} a message of PostgreSQL)")
        return self.counts.evidence(files, self.began, self.ended)

    def _stderr(self, block: bytes, *, ends_whole: bool) -> None:
        head = block[: 1 << 16]  # a language shows everywhere; looking at all of it would cost as much as all else
        self.english += sum(head.count(word) for word in _ENGLISH)
        self.foreign += sum(head.count(word) for word in _FOREIGN)
        self.is_log = self.is_log or any(parse_stderr(line) is not None for line in head.splitlines())
        self._span(block)
        for start in _marked(block):
            end = block.find(b"\n", start)
            line = parse_stderr(
                block[start : len(block) if end < 0 else end][:_LONGEST_RECORD], is_whole=end >= 0 or ends_whole
            )
            if line is not None and not self.is_ours(line):
                self.counts.take(line)

    def _records(self, lines: Iterable[LogLine | None]) -> None:
        for line in lines:
            if line is None:
                self.counts.unparsed += 1
                continue
            self.is_log = True
            if isinstance(self.began, Unknown):
                self.began = line.at
            if not isinstance(line.at, Unknown):
                self.ended = line.at
            if line.severity in ("ERROR", "LOG", "HINT"):
                self.english += line.severity == "ERROR" or line.message.startswith(("checkpoint", "database system"))
            elif f"{line.severity}:  ".encode() in _FOREIGN:
                self.foreign += 1
            if not self.is_ours(line):
                self.counts.take(line)

    def _span(self, block: bytes) -> None:
        if isinstance(self.began, Unknown):
            self.began = next(_times(block[: 1 << 16].splitlines()), self.began)
        self.ended = next(_times(reversed(block[-(1 << 16) :].splitlines())), self.ended)


def is_english(language: str) -> bool:
    """Tell whether a value of lc_messages means English; an empty one takes the environment's and says nothing."""
    return language.split(".")[0].split("@")[0] in ("C", "POSIX", "") or language.lower().startswith(("en", "c."))


def _times(lines: Iterable[bytes]) -> Iterator[str]:
    for raw in lines:
        line = parse_stderr(raw)
        if line is not None and not isinstance(line.at, Unknown):
            yield line.at


def _whole_lines(blocks: Iterable[bytes], *, starts_whole: bool) -> Iterator[tuple[bytes, bool]]:
    """Cut blocks at line ends; the flag says that the last line of the block is whole."""
    rest, skips = b"", not starts_whole
    for block in blocks:
        data = rest + block
        if skips:
            cut = data.find(b"\n")
            if cut < 0:
                rest = b""
                continue
            data, skips = data[cut + 1 :], False
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end], True
        rest = data[end:]
        if len(rest) > 4 * _LONGEST_RECORD:
            rest, skips = b"", True  # one endless line: what follows its end is read again
    if rest and not skips:
        yield rest, False


_MARK = re.compile(b"|".join(re.escape(mark) for mark in MARKS))


def _marked(block: bytes) -> list[int]:
    """Return where the lines that hold a mark start, in order, each once.

    One `find` a mark over the whole block is several times faster than a pattern of all marks, or a look at each line.
    """
    starts: set[int] = set()
    for mark in MARKS:
        at = block.find(mark)
        while at >= 0:
            starts.add(block.rfind(b"\n", 0, at) + 1)
            end = block.find(b"\n", at)
            at = -1 if end < 0 else block.find(mark, end)
    return sorted(starts)


def _json_lines(block: bytes) -> Iterator[LogLine | None]:
    lines = block.splitlines()
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if number in (0, last) or _MARK.search(line):
            yield parse_json(line[:_LONGEST_RECORD])


class _CsvRecords:
    """Puts the records of csvlog together, whose quoted fields hold line ends; finds its way again after damage."""

    def __init__(self) -> None:
        self._open = b""
        self.given_up = 0

    def lines(self, block: bytes) -> Iterator[LogLine | None]:
        first = True
        for line in block.splitlines(keepends=True):
            record = self._add(line)
            if record is not None and (first or _MARK.search(record)):
                first = False
                yield parse_csv(record)

    def _add(self, line: bytes) -> bytes | None:
        """Return a record that this line ends. Quotes are balanced where a record ends (RFC 4180)."""
        if self._open and starts_csv(line) and parse_csv(line) is not None:
            self._open, self.given_up = b"", self.given_up + 1  # the open one was cut, this one is whole
        self._open += line
        if len(self._open) > _LONGEST_RECORD:
            self._open, self.given_up = b"", self.given_up + 1
            return None
        if self._open.count(b'"') % 2:
            return None
        record, self._open = self._open, b""
        return record if starts_csv(record) else None
