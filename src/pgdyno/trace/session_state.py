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
_KEPT_BY_RESET_ALL = ("role", "session_authorization")


class StateChange(Enum):
    """What one statement does to the state of its session."""

    SET = auto()
    RESET_ALL = auto()
    PREPARE = auto()
    DEALLOCATE = auto()
    DEALLOCATE_ALL = auto()
    DISCARD_ALL = auto()


@dataclass(frozen=True, slots=True)
class StateStep:
    """One change, and the setting or the prepared statement that it is of; without a name it is of all."""

    change: StateChange
    name: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement without an error that `STATE_LIKE` found."""

    session: int
    seq: int
    text: str
    is_undone: bool
    """Its transaction was rolled back, with what it set."""


def needed(sent: Iterable[Sent]) -> Iterator[tuple[int, int]]:
    """Yield session and place of each statement that still counts after the last one; they come by session, in order.

    Of statements that set the same only the last is given. What a rolled-back transaction set counts for nothing, while
    what it prepared stays. A text of several statements counts where each is a change of state and none prepares.
    """
    session, state = None, _State()
    for one in sent:
        if one.session != session:
            if session is not None:
                yield from ((session, seq) for seq in state.left())
            session, state = one.session, _State()
        for step in changes(one.text):
            if not (one.is_undone and step.change in (StateChange.SET, StateChange.RESET_ALL)):
                state.follow(step, one.seq)
    if session is not None:
        yield from ((session, seq) for seq in state.left())


@dataclass(slots=True)
class _State:
    settings: dict[str, int] = field(default_factory=dict)
    prepared: dict[str, int] = field(default_factory=dict)

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

    def left(self) -> list[int]:
        return sorted({*self.settings.values(), *self.prepared.values()})


@lru_cache(maxsize=CACHED)
def changes(text: str) -> tuple[StateStep, ...]:
    """Return what a text does to the state of its session, where it does nothing else; empty for any other text."""
    found = of_tree(text, lambda parsed, _: [_step(one.stmt) for one in parsed.stmts])
    if not found or None in found:
        return ()
    steps = tuple(step for some in found for step in some or ())
    return steps if len(found) == 1 or not any(step.change is StateChange.PREPARE for step in steps) else ()


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
