"""The five transactions as pgbench scripts with their shares, and the times between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.workloads.parameters import Value
from pgdyno.workloads.script import Script, packaged_script
from pgdyno.workloads.tprocc import statements
from pgdyno.workloads.tprocc.rows import run_constants

NEW_ORDER, ROLLED_BACK = "new_order", "new_order_rolled_back"
ROLLBACK_PCT = 1
"""So many of a hundred New-Orders are rolled back: clause 2.4.1.4."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction: its name, and its keying time and mean think time in seconds (clause 5.2.5)."""

    name: str
    keying_s: float
    thinking_s: float


TRANSACTIONS = (
    Transaction(NEW_ORDER, 18, 12),
    Transaction("payment", 3, 12),
    Transaction("order_status", 2, 10),
    Transaction("delivery", 2, 5),
    Transaction("stock_level", 2, 5),
)
MIXES = {"standard": (45, 43, 4, 4, 4), "hammerdb": (10, 10, 1, 1, 1)}
SHAPES = ("proc", "interactive")
HOMES = {"fixed": "1 + :client_id % :wh", "random": "random(1, :wh)"}
"""A virtual user belongs to one warehouse, as a terminal does, or takes any, as HammerDB's allwarehouse."""
CUSTOMER = (
    "case when random(1, 100) > 60 then ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1"
    " else -(((random(0, 255) | random(0, 999)) + :c_name) % 1000) end"
)
"""40 of a hundred customers are drawn by number, the others by last name, whose number is given as a negative one."""
_CONSTANT = re.compile(r":(wh|c_name|c_customer|c_item)\b")


def shares(text: str) -> tuple[int, ...]:
    """Return the five shares of a mix by its name, or as numbers: 45/43/4/4/4. Raise UsageError on anything else."""
    if text in MIXES:
        return MIXES[text]
    words = text.split("/")
    if len(words) == len(TRANSACTIONS) and all(word.isdigit() and len(word) < 7 for word in words):
        found = tuple(int(word) for word in words)
        if any(found):
            return found
    names = "/".join(transaction.name for transaction in TRANSACTIONS)
    raise UsageError(
        f'mix "{text}" is not known', hint=f"Choose {' or '.join(MIXES)}, or give five shares: {names} as 45/43/4/4/4."
    )


def scripts(parameters: Mapping[str, Value]) -> tuple[Script, ...]:
    """Return the scripts with their weights, New-Orders that are rolled back as a script of their own.

    So the driver's own log counts new orders to the last one, in any window, and the data can be held against it. What
    is constant in a run stands in the text as a number: a variable would be looked up, and sent, at every transaction.
    """
    drawn_by = run_constants(int(parameters["nurand_seed"]))
    constants = {"wh": parameters["warehouses"], "c_name": drawn_by.name, "c_customer": drawn_by.customer}
    constants["c_item"] = drawn_by.item
    shape, home = str(parameters["shape"]), str(parameters["home"])
    if shape not in SHAPES:
        raise UsageError(f'shape "{shape}" is not known', hint=f"Choose {' or '.join(SHAPES)}.")
    if home not in HOMES:
        raise UsageError(f'home "{home}" is not known', hint=f"Choose {' or '.join(HOMES)}.")
    found: list[Script] = []
    for transaction, share in zip(TRANSACTIONS, shares(str(parameters["mix"])), strict=True):
        drawn = packaged_script(f"tprocc/{transaction.name}", home=HOMES[home], customer=CUSTOMER)
        kept = 100 - ROLLBACK_PCT if transaction.name == NEW_ORDER else 100
        variants = [(transaction.name, kept * share, False)]
        if transaction.name == NEW_ORDER:
            variants.append((ROLLED_BACK, ROLLBACK_PCT * share, True))
        for name, weight, rolled_back in variants:
            if weight:
                body = statements.body(transaction.name, shape, rolled_back=rolled_back)
                text = _CONSTANT.sub(lambda name: str(constants[name[1]]), drawn + body)
                text = _wait(transaction, int(parameters["wait_pct"]), text)
                found.append(Script(name, weight, text))
    return tuple(found)


WAITING = {"paused": "0", "think": "0"}
"""The variables by which a virtual user knows whether it has paused, and how long it thinks, in milliseconds."""


def _wait(transaction: Transaction, percent: int, text: str) -> str:
    """Let a script pause at every other call, as a share of the specification's times, and work at those between.

    The driver would count a pause inside of a transaction into its latency. As a call of its own it is a line of the
    log that can be left out. A pause is the think time of the transaction before and the keying time of the one that
    was drawn for it; the one that follows is drawn again, by the same shares.
    """
    if not percent:
        return text
    keying, mean = round(10 * transaction.keying_s * percent), round(10 * transaction.thinking_s * percent)
    thinking = f"\\set think least({10 * mean}, int(-ln(random(1, 1000000) / 1000000.0) * {mean}))"
    pausing = f"\\set paused 1\n\\set pause :think + {keying}\n\\sleep :pause ms\n"
    return f"\\if :paused = 0\n{pausing}\\else\n\\set paused 0\n{thinking}\n{text}\\endif\n"
