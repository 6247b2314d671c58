"""What each transaction sends: one prepared SELECT of its function, or statement by statement. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

MOST_LINES = 15
ADVISORY_CLASS = 1867
_CALLS = {
    "new_order": "SELECT * FROM tproc_new_order(:w, :d, :c, :lines, :wh, :c_item);",
    "payment": "SELECT * FROM tproc_payment(:w, :d, :c_w, :c_d, :c, :cents);",
    "order_status": "SELECT * FROM tproc_order_status(:w, :d, :c);",
    "delivery": "SELECT * FROM tproc_delivery(:w, :carrier);",
    "stock_level": "SELECT tproc_stock_level(:w, :d, :threshold);",
}


def body(transaction: str, shape: str, *, rolled_back: bool) -> str:
    """Return the statements of a transaction in this shape, ended by ROLLBACK where it is `rolled_back`."""
    end = "ROLLBACK;" if rolled_back else "COMMIT;"
    if shape == "interactive":
        return "\n".join([*_INTERACTIVE[transaction](), end, ""]).replace("\n\n", "\n")
    call = _CALLS[transaction]
    return f"BEGIN;\n{call}\n{end}\n" if rolled_back else f"{call}\n"


def _new_order() -> list[str]:
    """Order lines are drawn by the client; one SELECT reads price and dist_info of all, and locks their stock in order.

    So no two orders wait in a ring. Of 10 lines that makes 28 statements, where a SELECT for each line made 38.
    """
    lines: list[str] = []
    for n in range(1, MOST_LINES + 1):
        lines += [
            f"\\set i{n} ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1",
            f"\\set s{n} case when random(1, 100) = 1 and :wh > 1"
            " then 1 + (:w - 1 + random(1, :wh - 1)) % :wh else :w end",
            f"\\set q{n} random(1, 10)",
        ]
        if n > 5:
            lines += [f"\\if :lines < {n}", f"\\set i{n} :i1", f"\\set s{n} :s1", "\\endif"]
    wanted = ", ".join(f"(:s{n}, :i{n})" for n in range(1, MOST_LINES + 1))
    local = " AND ".join(f":s{n} = :w" for n in range(1, MOST_LINES + 1))
    lines += [
        f"\\set local case when {local} then 1 else 0 end",
        "BEGIN;",
        "SELECT w_tax FROM warehouse WHERE w_id = :w \\gset",
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d "
        "RETURNING d_next_o_id - 1 AS o, d_tax \\gset",
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) "
        "VALUES (:o, :d, :w, :c, now(), :lines, :local);",
        "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (:o, :d, :w);",
        "SELECT s_w_id, s_i_id, i_price, i_name, i_data, s_quantity, s_data, (ARRAY[s_dist_01, s_dist_02, s_dist_03,"
        " s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[:d] AS dist_info"
        " FROM stock JOIN item ON i_id = s_i_id"
        f" WHERE (s_w_id, s_i_id) IN ({wanted}) ORDER BY s_w_id, s_i_id FOR UPDATE OF stock;",
    ]
    for n in range(1, MOST_LINES + 1):
        line = [
            f"UPDATE stock SET s_quantity = s_quantity - :q{n} + CASE WHEN s_quantity >= :q{n} + 10 THEN 0 ELSE 91 END,"
            f" s_ytd = s_ytd + :q{n}, s_order_cnt = s_order_cnt + 1,"
            f" s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w THEN 0 ELSE 1 END"
            f" WHERE s_w_id = :s{n} AND s_i_id = :i{n};",
            "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,"
            f" ol_amount, ol_dist_info) SELECT :o, :d, :w, {n}, i_id, s_w_id, :q{n}, :q{n} * i_price,"
            " (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08,"
            " s_dist_09, s_dist_10])[:d]"
            f" FROM item JOIN stock ON s_i_id = i_id WHERE i_id = :i{n} AND s_w_id = :s{n};",
        ]
        lines += line if n <= 5 else [f"\\if :lines >= {n}", *line, "\\endif"]
    return lines


def _customer(w: str, d: str) -> list[str]:
    return [
        "\\if :c <= 0",
        "SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) / 2] AS c FROM customer "
        f"WHERE c_w_id = {w} AND c_d_id = {d} AND c_last = tproc_name(0 - :c::int) \\gset",
        "\\endif",
    ]


def _payment() -> list[str]:
    return [
        "BEGIN;",
        *_customer(":c_w", ":c_d"),
        "UPDATE customer SET c_balance = c_balance - :cents / 100.0, c_ytd_payment = c_ytd_payment + :cents / 100.0,"
        " c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' THEN left("
        "concat_ws(' ', c_id, c_d_id, c_w_id, :d::int, :w::int, :cents::int, c_data), 500) ELSE c_data END"
        " WHERE c_w_id = :c_w AND c_d_id = :c_d AND c_id = :c;",
        "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)"
        " SELECT :c, :c_d, :c_w, d_id, w_id, now(), :cents / 100.0, w_name || '    ' || d_name"
        " FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = :w AND d_id = :d;",
        "UPDATE district SET d_ytd = d_ytd + :cents / 100.0 WHERE d_w_id = :w AND d_id = :d;",
        "UPDATE warehouse SET w_ytd = w_ytd + :cents / 100.0 WHERE w_id = :w;",
    ]


def _order_status() -> list[str]:
    return [
        "BEGIN;",
        *_customer(":w", ":d"),
        "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;",
        "SELECT coalesce(max(o_id), 0) AS o FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c \\gset",
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line"
        " WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;",
    ]


def _delivery() -> list[str]:
    lines = ["BEGIN;", f"SELECT pg_advisory_xact_lock({ADVISORY_CLASS}, :w);"]
    for d in range(1, 11):
        lines += [
            f"SELECT coalesce(min(no_o_id), 0) AS o FROM new_order WHERE no_w_id = :w AND no_d_id = {d} \\gset",
            "\\if :o > 0",
            f"DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = {d} AND no_o_id = :o;",
            f"UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = {d} AND o_id = :o "
            "RETURNING o_c_id AS c \\gset",
            f"UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = :w AND ol_d_id = {d} AND ol_o_id = :o;",
            "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance + (SELECT sum(ol_amount)"
            f" FROM order_line WHERE ol_w_id = :w AND ol_d_id = {d} AND ol_o_id = :o)"
            f" WHERE c_w_id = :w AND c_d_id = {d} AND c_id = :c;",
            "\\endif",
        ]
    return lines


def _stock_level() -> list[str]:
    return [
        "BEGIN;",
        "SELECT d_next_o_id AS o FROM district WHERE d_w_id = :w AND d_id = :d \\gset",
        "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = :w AND s_i_id = ol_i_id"
        " WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o - 20 AND ol_o_id < :o AND s_quantity < :threshold;",
    ]


_INTERACTIVE: Mapping[str, Callable[[], list[str]]] = {
    "new_order": _new_order,
    "payment": _payment,
    "order_status": _order_status,
    "delivery": _delivery,
    "stock_level": _stock_level,
}
