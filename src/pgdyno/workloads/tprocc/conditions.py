"""The consistency conditions of clause 3.3.2, and four more that real drivers were found to break; each counts rows.

A query gives one row with one number, the violations. They read whole tables: seconds for each gigabyte.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from pgdyno.server.postgres import Postgres

SESSIONS = min(4, 1 + (os.cpu_count() or 1))
"""Sessions that read or load at a time. Four tables hold 98 % of the rows."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One or several conditions that a single pass over the tables answers: `names` are the columns of `query`."""

    names: tuple[str, ...]
    meanings: tuple[str, ...]
    query: sql.SQL

    @property
    def meaning(self) -> str:
        """Return the meanings as one text."""
        return "; ".join(self.meanings)


Answers = list[tuple[Condition, tuple[int, ...]]]
"""Conditions with how many rows break each of them."""
CONDITIONS = (
    Condition(
        ("C01",),
        ("the year-to-date sum of a warehouse is that of its districts",),
        sql.SQL(
            "SELECT count(*) AS n FROM warehouse JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id)"
            " AS d ON d_w_id = w_id WHERE w_ytd <> ytd"
        ),
    ),
    Condition(
        ("C02", "C03"),
        (
            "the next order number of a district follows its last order, and its last new order if it has one",
            "the new orders of a district are numbered without a gap",
        ),
        sql.SQL(
            "SELECT count(*) FILTER (WHERE d_next_o_id - 1 <> o OR d_next_o_id - 1 <> coalesce(last, o)) AS n,"
            " count(*) FILTER (WHERE last - first + 1 <> waiting) AS m"
            " FROM district JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o FROM orders GROUP BY o_w_id, o_d_id) AS done"
            " ON o_w_id = d_w_id AND o_d_id = d_id"
            " LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last, min(no_o_id) AS first, count(*) AS waiting"
            " FROM new_order GROUP BY no_w_id, no_d_id) AS undone ON no_w_id = d_w_id AND no_d_id = d_id"
        ),
    ),
    Condition(
        ("C04", "C06", "C07"),
        (
            "a district has as many order lines as its orders count",
            "an order has as many lines as it counts",
            "a line has a delivery date when its order has a carrier, and only then",
        ),
        sql.SQL(
            "WITH line AS (SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, count(*) AS lines,"
            " count(ol_delivery_d) AS sent FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id),"
            " joined AS (SELECT coalesce(w, o_w_id) AS w, coalesce(d, o_d_id) AS d, coalesce(lines, 0) AS lines,"
            " coalesce(sent, 0) AS sent, coalesce(o_ol_cnt, 0) AS counted, o_carrier_id AS carrier"
            " FROM line FULL JOIN orders ON o_w_id = w AND o_d_id = d AND o_id = o),"
            " district_sums AS (SELECT sum(lines) AS lines, sum(counted) AS counted FROM joined GROUP BY w, d)"
            " SELECT (SELECT count(*) FROM district_sums WHERE lines <> counted) AS n,"
            " count(*) FILTER (WHERE lines <> counted) AS m,"
            " count(*) FILTER (WHERE sent <> CASE WHEN carrier IS NULL THEN 0 ELSE lines END) AS l FROM joined"
        ),
    ),
    Condition(
        ("C05",),
        ("an order has no carrier as long as it is a new order, and only then",),
        sql.SQL(
            "SELECT count(*) AS n FROM new_order FULL JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id"
            " AND o_id = no_o_id WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)"
        ),
    ),
    Condition(
        ("C08", "C09"),
        (
            "the year-to-date sum of a warehouse is that of its payments",
            "the year-to-date sum of a district is that of its payments",
        ),
        sql.SQL(
            "WITH paid AS (SELECT h_w_id AS w, h_d_id AS d, sum(h_amount) AS amount FROM history"
            " GROUP BY h_w_id, h_d_id)"
            " SELECT (SELECT count(*) FROM warehouse LEFT JOIN (SELECT w, sum(amount) AS amount FROM paid GROUP BY w)"
            " AS p ON w = w_id WHERE w_ytd <> coalesce(amount, 0)) AS n,"
            " (SELECT count(*) FROM district LEFT JOIN paid ON w = d_w_id AND d = d_id"
            " WHERE d_ytd <> coalesce(amount, 0)) AS m"
        ),
    ),
    Condition(
        ("C10", "C12"),
        (
            "the balance of a customer is what was delivered less what was paid",
            "balance and payments of a customer together are what was delivered",
        ),
        sql.SQL(
            "WITH sent AS (SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, sum(ol_amount) AS amount FROM order_line"
            " WHERE ol_delivery_d IS NOT NULL GROUP BY ol_w_id, ol_d_id, ol_o_id),"
            " delivered AS (SELECT w, d, o_c_id AS c, sum(amount) AS amount FROM sent JOIN orders"
            " ON o_w_id = w AND o_d_id = d AND o_id = o GROUP BY w, d, o_c_id),"
            " paid AS (SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS amount FROM history"
            " GROUP BY h_c_w_id, h_c_d_id, h_c_id)"
            " SELECT count(*) FILTER (WHERE c_balance <> coalesce(delivered.amount, 0) - coalesce(paid.amount, 0))"
            " AS n,"
            " count(*) FILTER (WHERE c_balance + c_ytd_payment <> coalesce(delivered.amount, 0)) AS m"
            " FROM customer LEFT JOIN delivered ON delivered.w = c_w_id AND delivered.d = c_d_id"
            " AND delivered.c = c_id"
            " LEFT JOIN paid ON paid.w = c_w_id AND paid.d = c_d_id AND paid.c = c_id"
        ),
    ),
    Condition(
        ("X1", "X2", "X4"),
        (
            "every order line has an amount",
            "every order line is of an item that exists",
            "the amount of a line that was ordered in a run is quantity times price",
        ),
        sql.SQL(
            "SELECT count(*) FILTER (WHERE ol_amount IS NULL) AS n, count(*) FILTER (WHERE i_id IS NULL) AS m,"
            " count(*) FILTER (WHERE ol_o_id > 3000 AND ol_amount IS DISTINCT FROM ol_quantity * i_price) AS l"
            " FROM order_line LEFT JOIN item ON i_id = ol_i_id"
        ),
    ),
    Condition(
        ("X3",),
        ("the stock counts every line that a run ordered, its quantity, and the remote ones",),
        sql.SQL(
            "SELECT count(*) AS n FROM stock FULL JOIN (SELECT ol_supply_w_id AS w, ol_i_id AS i, count(*) AS lines,"
            " sum(ol_quantity) AS quantity, count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id) AS remote"
            " FROM order_line WHERE ol_o_id > 3000 GROUP BY ol_supply_w_id, ol_i_id) AS ordered"
            " ON s_w_id = w AND s_i_id = i WHERE coalesce(s_order_cnt, 0) <> coalesce(lines, 0)"
            " OR coalesce(s_ytd, 0) <> coalesce(quantity, 0) OR coalesce(s_remote_cnt, 0) <> coalesce(remote, 0)"
        ),
    ),
)
"""What must hold whenever no transaction is under way."""

INITIAL = Condition(
    ("C11",),
    ("a district has 2,100 orders more than new orders",),
    sql.SQL(
        "SELECT count(*) AS n FROM (SELECT o_w_id, o_d_id, count(*) AS orders FROM orders GROUP BY o_w_id, o_d_id)"
        " AS o LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS waiting FROM new_order GROUP BY no_w_id, no_d_id) AS n"
        " ON no_w_id = o_w_id AND no_d_id = o_d_id WHERE orders - coalesce(waiting, 0) <> 2100"
    ),
)
"""What holds for the first population alone, because deliveries change it: checked when the data are loaded."""


def ask(
    connection: psycopg.Connection[DictRow], conditions: Sequence[Condition], *, snapshot: str | None = None
) -> Answers:
    """Ask the conditions in one snapshot, so that even a stray session cannot come between two of them.

    `snapshot` is one that another session has exported and still holds.
    """
    with connection.transaction():
        _begin(connection)
        if snapshot is not None:
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        return [(condition, violations(connection, condition)) for condition in conditions]


def ask_together(postgres: Postgres, conditions: Sequence[Condition]) -> Answers:
    """Ask the conditions by several sessions in one snapshot: as `ask`, in half the time. Raises psycopg.Error.

    The balance of customers takes longest, so it begins first. Workers beside the sessions would cost more than they
    gain (18.6, two cores).
    """
    order = sorted(conditions, key=lambda condition: "C10" not in condition.names)

    def one(condition: Condition) -> tuple[tuple[str, ...], tuple[int, ...]]:
        with postgres.connect() as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")
            return condition.names, ask(connection, (condition,), snapshot=snapshot)[0][1]

    with postgres.connect() as holder, holder.transaction():
        _begin(holder)
        row = holder.execute("SELECT pg_export_snapshot() AS name").fetchone()
        assert row is not None, "a function has a row"
        snapshot = str(row["name"])
        with ThreadPoolExecutor(SESSIONS) as threads:
            found = dict(threads.map(one, order))
    return [(condition, found[condition.names]) for condition in conditions]


def _begin(connection: psycopg.Connection[DictRow]) -> None:
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute("SET LOCAL work_mem = '128MB'")


def violations(connection: psycopg.Connection[DictRow], condition: Condition) -> tuple[int, ...]:
    """Return how many rows break each of the conditions, in the order of their names. Reads only."""
    row = connection.execute(condition.query).fetchone()
    assert row is not None, "a count has a row"
    return tuple(int(value) for value in row.values())
