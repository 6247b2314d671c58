"""From an operator's form to a request on record: checked for its form, signed, and left to the study to judge."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping

from pgdyno.errors import UsageError
from pgdyno.model.person.operator_request import (
    LONGEST_SETTING,
    LONGEST_WHY,
    MOST_SETTINGS,
    OperatorAction,
    OperatorRequest,
    Operators,
)
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import RequestBoard

SETTING = "set:"
"""Before the name of a knob, in the fields of an edit."""
_LONGEST_NAME = 200


def record_request(
    store: Store, operators: Operators, who: str, form: Mapping[str, str], clock: Callable[[], float] = time.time
) -> OperatorRequest:
    """Record what an operator's form asks of a study, and return it. Changes nothing else.

    `form` has the fields of the page's form by name. `who` is the name of the operator that sent it, one of
    `operators`, whose token signs the request. The request is put into `store`; `clock` gives its time, in seconds
    since the epoch. Raises UsageError for a form that says no action, no study, no reason or, for an edit, no settings,
    and StoreError as the store does.
    """
    try:
        action = OperatorAction(form.get("action", ""))
    except ValueError as error:
        raise UsageError("the form names no action", hint="Use the buttons of the page.") from error
    why = " ".join(form.get("why", "").split())
    if not why or len(why) > LONGEST_WHY or not why.isprintable():
        raise UsageError(
            f"{action.value}: say why, in at most {LONGEST_WHY} characters",
            hint="Every action is recorded with its reason. Go back and write one.",
        )
    names = {name: form.get(name, "") for name in ("study", "run", "question")}
    if not all(len(one) <= _LONGEST_NAME and one.isprintable() for one in names.values()) or not names["study"]:
        raise UsageError("the form names no study", hint="Use the buttons of the page.")
    request = OperatorRequest(
        id=secrets.token_hex(16),
        study=names["study"],
        run=names["run"],
        action=action,
        who=who,
        why=why,
        at=clock(),
        question=names["question"],
        settings=_settings(form, action),
    )
    if store.study(request.study).id != request.study:
        raise UsageError("the form names no study", hint="Use the buttons of the page.")
    request = operators.sign(request)
    RequestBoard(store).add(request)
    return request


def _settings(form: Mapping[str, str], action: OperatorAction) -> dict[str, str]:
    if action is not OperatorAction.EDIT:
        return {}
    found = {name.removeprefix(SETTING): value.strip() for name, value in form.items() if name.startswith(SETTING)}
    for name, value in found.items():
        if not value or max(len(name), len(value)) > LONGEST_SETTING or not (name + value).isprintable():
            raise UsageError(f'"{name[:40]}" has no value that could be set', hint="Write one, or approve as proposed.")
    if not found or len(found) > MOST_SETTINGS:
        raise UsageError("the form names no settings", hint="Use the buttons of the page.")
    return found
