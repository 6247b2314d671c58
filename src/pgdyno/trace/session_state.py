"""Which earlier statements of a session the later ones need: settings, roles, and statements prepared by SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache

from pgdyno.trace.fingerprints import CACHED, Message, of_tree

STATE_LIKE = (
    r"^(\s|/\*([^*]|\*[^/])*\*/|--[^\n]*\n)*"
    r"(set|reset|prepare|deallocate|discard|select\s+(pg_catalog\.)?set_config)\b"
)
"""Regular expression of RE2, for any case: texts that may change the state of a session, and few others."""
CONTROL_LIKE = r"\b(commit|end|rollback|abort|savepoint|release|prepare)\b"
"""The same of texts that may end a transaction, or go back in it."""
_KEPT_BY_RESET_ALL = ("role", "session_authorization")


class StateChange(Enum):
    """What one statement does to the state of its session."""

    SET = auto()
    RESET_ALL = auto()
    PREPARE = auto()
    DEALLOCATE = auto()
    DEALLOCATE_ALL = auto()
    DISCARD_ALL = auto()
    SAVEPOINT = auto()
    RELEASE = auto()
    ROLLBACK_TO = auto()
    ROLLBACK = auto()
    COMMIT = auto()


_CONTROL = {
    "TRANS_STMT_SAVEPOINT": StateChange.SAVEPOINT,
    "TRANS_STMT_RELEASE": StateChange.RELEASE,
    "TRANS_STMT_ROLLBACK_TO": StateChange.ROLLBACK_TO,
    "TRANS_STMT_ROLLBACK": StateChange.ROLLBACK,
    "TRANS_STMT_COMMIT": StateChange.COMMIT,
    "TRANS_STMT_PREPARE": StateChange.COMMIT,  # its settings stay
}
_OF_TRANSACTIONS = frozenset(_CONTROL.values())


@dataclass(frozen=True, slots=True)
class StateStep:
    """One change, and the setting, prepared statement or savepoint that it is of; without a name it is of all."""

    change: StateChange
    name: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement that `STATE_LIKE` found, or one of its transaction that failed or that `CONTROL_LIKE` found."""

    session: int
    seq: int
    tx: int | None
    """Ordinal of its transaction in the session; None for one of its own."""
    text: str
    failed: bool
    may_be_sent: bool
    """It may be sent again for the state that it leaves."""


def needed(sent: Iterable[Sent]) -> Iterator[tuple[int, int]]:
    """Yield session and place of each statement that still counts after the last one; they come by session, in order.

    Of statements that set the same only the last is given. What a rolled-back transaction set counts for nothing, nor
    what came after a savepoint that it went back to, while what it prepared stays. A text of several statements counts
    where each is a change of state and none prepares.
    """
    session, state = None, _State()
    for one in sent:
        if one.session != session:
            if session is not None:
                yield from ((session, seq) for seq in state.left())
            session, state = one.session, _State()
        if one.tx is None or one.tx != state.tx:
            state.begin(one.tx)
        if one.failed:
            state.failed = True
            continue
        for step in changes(one.text):
            if one.may_be_sent or step.change in _OF_TRANSACTIONS:
                state.follow(step, one.seq)
    if session is not None:
        yield from ((session, seq) for seq in state.left())


@dataclass(slots=True)
class _State:
    settings: dict[str, int] = field(default_factory=dict)
    prepared: dict[str, int] = field(default_factory=dict)
    tx: int | None = None
    failed: bool = False
    """The transaction takes nothing more, until it goes back to a savepoint."""
    before: dict[str, int] = field(default_factory=dict)
    """The settings when the transaction began."""
    saved: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """Its savepoints, each with the settings then; of those that have one name the last is meant."""

    def begin(self, tx: int | None) -> None:
        """Follow another transaction. One that failed was rolled back, whatever ended it."""
        self._end(keeps=not self.failed)
        self.tx = tx

    def follow(self, step: StateStep, seq: int) -> None:
        match step.change:
            case StateChange.SET:
                if step.name == "session_authorization":  # it sets the role as well
                    self.settings.pop("role", None)
                self.settings[step.name] = seq
            case StateChange.RESET_ALL:
                self.settings = {one: at for one, at in self.settings.items() if one in _KEPT_BY_RESET_ALL}
            case StateChange.PREPARE:
                self.prepared[step.name] = seq
            case StateChange.DEALLOCATE:
                self.prepared.pop(step.name, None)
            case StateChange.DEALLOCATE_ALL:
                self.prepared.clear()
            case StateChange.DISCARD_ALL:
                self.settings.clear()
                self.prepared.clear()
            case StateChange.SAVEPOINT:
                self.saved.append((step.name, dict(self.settings)))
            case StateChange.RELEASE:
                del self.saved[self._place(step.name) :]
            case StateChange.ROLLBACK_TO:
                place = self._place(step.name)
                self.settings = dict(self.saved[place][1] if place < len(self.saved) else self.before)
                del self.saved[place + 1 :]
                self.failed = False
            case StateChange.ROLLBACK | StateChange.COMMIT:
                self._end(keeps=step.change is StateChange.COMMIT and not self.failed)

    def _place(self, name: str) -> int:
        """Return where the last savepoint of a name is; behind all for one that was before the log."""
        return next((n for n in reversed(range(len(self.saved))) if self.saved[n][0] == name), len(self.saved))

    def _end(self, *, keeps: bool) -> None:
        if not keeps:
            self.settings = self.before
        self.before, self.saved, self.failed = dict(self.settings), [], False

    def left(self) -> list[int]:
        settings = self.before if self.failed else self.settings
        return sorted({*settings.values(), *self.prepared.values()})


@lru_cache(maxsize=CACHED)
def changes(text: str) -> tuple[StateStep, ...]:
    """Return what a text does to the state of its session, where it does nothing else; of any other text, what to its
    transaction.
    """
    found = of_tree(text, lambda parsed, _: [_step(one.stmt) for one in parsed.stmts]) or []
    steps = tuple(step for some in found for step in some or ())
    control = tuple(step for step in steps if step.change in _OF_TRANSACTIONS)
    prepares = len(found) > 1 and any(step.change is StateChange.PREPARE for step in steps)
    return control if control or None in found or prepares else steps


def _step(statement: Message) -> tuple[StateStep, ...] | None:
    kind = statement.WhichOneof("node")
    node: Message = getattr(statement, kind) if kind else None
    match kind:
        case "variable_set_stmt":
            return _setting(node)
        case "prepare_stmt":
            return (StateStep(StateChange.PREPARE, node.name),)
        case "deallocate_stmt":
            return (
                StateStep(StateChange.DEALLOCATE, node.name) if node.name else StateStep(StateChange.DEALLOCATE_ALL),
            )
        case "discard_stmt":
            return {"DISCARD_ALL": (StateStep(StateChange.DISCARD_ALL),)}.get(_word(node, "target"), ())
        case "select_stmt":
            return _by_function(node)
        case "transaction_stmt":
            change = _CONTROL.get(_word(node, "kind"))
            return None if change is None else (StateStep(change, node.savepoint_name),)
    return None


def _setting(node: Message) -> tuple[StateStep, ...]:
    kind = _word(node, "kind")
    if node.is_local or (kind == "VAR_SET_MULTI" and node.name.startswith("TRANSACTION")):
        return ()
    return (
        StateStep(StateChange.RESET_ALL) if kind == "VAR_RESET_ALL" else StateStep(StateChange.SET, node.name.lower()),
    )


def _by_function(node: Message) -> tuple[StateStep, ...] | None:
    """Return what `SELECT set_config('name', value, false)` sets; None for any other query."""
    steps = list[StateStep]()
    for target in node.target_list:
        call = target.res_target.val.func_call
        if not call.funcname or call.funcname[-1].string.sval != "set_config" or len(call.args) != 3:
            return None
        name, is_local = call.args[0].a_const, call.args[2].a_const
        if name.WhichOneof("val") != "sval" or is_local.WhichOneof("val") != "boolval":
            return None
        if not is_local.boolval.boolval:
            steps.append(StateStep(StateChange.SET, name.sval.sval.lower()))
    return None if node.from_clause else tuple(steps)


def _word(node: Message, enum: str) -> str:
    return str(node.DESCRIPTOR.fields_by_name[enum].enum_type.values_by_number[getattr(node, enum)].name)
