-- The transactions as functions, called as prepared SELECT f(...). Nothing here needs more than PostgreSQL 13.
-- Locks are taken in the order customer, district, stock (sorted), warehouse, and the hottest row comes last.

CREATE FUNCTION tproc_name(in_number int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT s[1 + in_number / 100] || s[1 + in_number / 10 % 10] || s[1 + in_number % 10]
    FROM (SELECT ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'] AS s) AS syllables
$$;

-- A customer is given by number, or as minus the number of a last name: then it is the middle one of those with this
-- name, by first name (clause 2.5.2.2).
CREATE FUNCTION tproc_customer(in_w int, in_d int, in_name int) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_c int;
BEGIN
    SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) / 2] INTO STRICT found_c
    FROM customer WHERE c_w_id = in_w AND c_d_id = in_d AND c_last = tproc_name(in_name);
    IF found_c IS NULL THEN
        RAISE EXCEPTION 'no customer named % in district % of warehouse %', tproc_name(in_name), in_d, in_w;
    END IF;
    RETURN found_c;
END $$;

-- Lines are drawn here: as many as `in_lines` different ones, 1 % of them from another warehouse. One row for each line,
-- with what a terminal shows of it (clause 2.4.3.3); what it shows of the whole order stands in every row.
CREATE FUNCTION tproc_new_order(
    in_w int, in_d int, in_c int, in_lines int, in_warehouses int, in_c_item int,
    OUT order_id int, OUT entered timestamptz, OUT last_name varchar, OUT credit char, OUT discount numeric,
    OUT warehouse_tax numeric, OUT district_tax numeric, OUT total numeric, OUT line_supply int, OUT line_item int,
    OUT line_name varchar, OUT line_quantity int, OUT line_stock int, OUT line_brand char, OUT line_price numeric,
    OUT line_amount numeric) RETURNS SETOF record LANGUAGE plpgsql ROWS 10 AS $$
DECLARE
    keys bigint[];
    different int;
    lines int;
BEGIN
    LOOP
        SELECT array_agg(key ORDER BY key), count(DISTINCT key) INTO keys, different
        FROM (
            SELECT ((floor(random() * 8192)::int | (1 + floor(random() * 100000)::int)) + in_c_item) % 100000 + 1
                   + 1000000::bigint * CASE WHEN in_warehouses > 1 AND random() < 0.01
                       THEN 1 + (in_w + floor(random() * (in_warehouses - 1))::int) % in_warehouses
                       ELSE in_w END AS key
            FROM generate_series(1, in_lines)) AS drawn;
        EXIT WHEN different = in_lines;
    END LOOP;
    entered := now();
    SELECT w_tax, c_discount, c_last, c_credit INTO STRICT warehouse_tax, discount, last_name, credit
    FROM warehouse JOIN customer ON c_w_id = w_id WHERE w_id = in_w AND c_d_id = in_d AND c_id = in_c;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = in_w AND d_id = in_d
    RETURNING d_next_o_id - 1, d_tax INTO STRICT order_id, district_tax;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (order_id, in_d, in_w, in_c, entered, in_lines,
            CASE WHEN keys[1] / 1000000 = in_w AND keys[in_lines] / 1000000 = in_w THEN 1 ELSE 0 END);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (order_id, in_d, in_w);
    RETURN QUERY WITH line AS (
        SELECT place::int, (key / 1000000)::int AS supply, (key % 1000000)::int AS item_id,
               1 + floor(random() * 10)::int AS quantity
        FROM unnest(keys) WITH ORDINALITY AS sorted (key, place)
    ), taken AS (
        UPDATE stock SET
            s_quantity = s_quantity - quantity + CASE WHEN s_quantity >= quantity + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + CASE WHEN supply = in_w THEN 0 ELSE 1 END
        FROM line WHERE s_w_id = supply AND s_i_id = item_id
        RETURNING place, supply, item_id, quantity, s_quantity AS left_over, s_data LIKE '%ORIGINAL%' AS original,
            CASE in_d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
                WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
                WHEN 9 THEN s_dist_09 ELSE s_dist_10 END AS info
    ), priced AS (
        SELECT taken.*, i_name, i_price, quantity * i_price AS amount,
               original AND i_data LIKE '%ORIGINAL%' AS branded
        FROM taken JOIN item ON i_id = item_id
    ), written AS (
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                                ol_dist_info)
        SELECT order_id, in_d, in_w, place, item_id, supply, quantity, amount, info FROM priced
    )
    SELECT order_id, entered, last_name, credit, discount, warehouse_tax, district_tax,
           sum(amount) OVER () * (1 - discount) * (1 + warehouse_tax + district_tax), supply, item_id, i_name, quantity,
           left_over, CASE WHEN branded THEN 'B' ELSE 'G' END::bpchar, i_price, amount
    FROM priced;
    GET DIAGNOSTICS lines = ROW_COUNT;
    IF lines <> in_lines THEN
        RAISE EXCEPTION 'order % of district % of warehouse % has % of % lines', order_id, in_d, in_w, lines, in_lines;
    END IF;
END $$;

-- One row with what a terminal shows of a payment (clause 2.5.3.3); of the customer's data only where the credit is bad.
CREATE FUNCTION tproc_payment(
    in_w int, in_d int, in_c_w int, in_c_d int, in_c int, in_cents int,
    OUT paid_at timestamptz, OUT amount numeric, OUT the_c int, OUT warehouse_place text, OUT district_place text,
    OUT full_name text, OUT customer_place text, OUT phone char, OUT since timestamptz, OUT credit char,
    OUT credit_lim numeric, OUT discount numeric, OUT balance numeric, OUT notes text)
LANGUAGE plpgsql AS $$
DECLARE
    names text;
BEGIN
    paid_at := now();
    amount := in_cents / 100.0;
    the_c := CASE WHEN in_c <= 0 THEN tproc_customer(in_c_w, in_c_d, -in_c) ELSE in_c END;
    UPDATE customer SET
        c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC' THEN left(
            concat_ws(' ', the_c, in_c_d, in_c_w, in_d, in_w, amount, c_data), 500) ELSE c_data END
    WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_id = the_c
    RETURNING concat_ws(' ', c_first, c_middle, c_last), concat_ws(', ', c_street_1, c_street_2, c_city, c_state, c_zip),
        c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance,
        CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END
    INTO STRICT full_name, customer_place, phone, since, credit, credit_lim, discount, balance, notes;
    SELECT w_name || '    ' || d_name, concat_ws(', ', w_street_1, w_street_2, w_city, w_state, w_zip),
        concat_ws(', ', d_street_1, d_street_2, d_city, d_state, d_zip)
    INTO STRICT names, warehouse_place, district_place
    FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = in_w AND d_id = in_d;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (the_c, in_c_d, in_c_w, in_d, in_w, paid_at, amount, names);
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = in_w AND d_id = in_d;
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = in_w;
END $$;

-- One row for each line of the customer's last order, with what a terminal shows (clause 2.6.3.3).
CREATE FUNCTION tproc_order_status(
    in_w int, in_d int, in_c int,
    OUT the_c int, OUT full_name text, OUT balance numeric, OUT last_order int, OUT entered timestamptz,
    OUT carrier int, OUT line_supply int, OUT line_item int, OUT line_quantity int, OUT line_amount numeric,
    OUT line_delivered timestamptz) RETURNS SETOF record LANGUAGE plpgsql STABLE ROWS 10 AS $$
BEGIN
    the_c := CASE WHEN in_c <= 0 THEN tproc_customer(in_w, in_d, -in_c) ELSE in_c END;
    SELECT concat_ws(' ', c_first, c_middle, c_last), c_balance INTO STRICT full_name, balance
    FROM customer WHERE c_w_id = in_w AND c_d_id = in_d AND c_id = the_c;
    SELECT o_id, o_entry_d, o_carrier_id INTO STRICT last_order, entered, carrier
    FROM orders WHERE o_w_id = in_w AND o_d_id = in_d AND o_c_id = the_c
    ORDER BY o_w_id, o_d_id, o_c_id, o_id DESC LIMIT 1;
    RETURN QUERY SELECT the_c, full_name, balance, last_order, entered, carrier, ol_supply_w_id, ol_i_id, ol_quantity,
        ol_amount, ol_delivery_d
    FROM order_line WHERE ol_w_id = in_w AND ol_d_id = in_d AND ol_o_id = last_order;
END $$;

-- One row for each district: the order that was delivered, as clause 2.7.2.2 has it recorded. Two deliveries of one
-- warehouse would both look at the same oldest order: the advisory lock lets one in at a time.
CREATE FUNCTION tproc_delivery(in_w int, in_carrier int, OUT district int, OUT delivered int) RETURNS SETOF record
LANGUAGE plpgsql ROWS 10 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1867, in_w);
    RETURN QUERY WITH oldest AS (
        SELECT d, (SELECT no_o_id FROM new_order WHERE no_w_id = in_w AND no_d_id = d ORDER BY no_o_id LIMIT 1) AS o
        FROM generate_series(1, 10) AS d
    ), taken AS (
        DELETE FROM new_order USING oldest WHERE no_w_id = in_w AND no_d_id = d AND no_o_id = o RETURNING d, o
    ), sent AS (
        UPDATE orders SET o_carrier_id = in_carrier FROM taken
        WHERE o_w_id = in_w AND o_d_id = d AND o_id = o RETURNING d, o, o_c_id
    ), lines AS (
        UPDATE order_line SET ol_delivery_d = now() FROM taken
        WHERE ol_w_id = in_w AND ol_d_id = d AND ol_o_id = o RETURNING d, ol_amount
    ), owed AS (
        SELECT d, sum(ol_amount) AS amount FROM lines GROUP BY d
    ), charged AS (
        UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
        FROM sent JOIN owed USING (d) WHERE c_w_id = in_w AND c_d_id = sent.d AND c_id = o_c_id RETURNING sent.d, sent.o
    )
    SELECT charged.d, charged.o FROM charged;
END $$;

CREATE FUNCTION tproc_stock_level(in_w int, in_d int, in_threshold int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    next_order int;
    low bigint;
BEGIN
    SELECT d_next_o_id INTO STRICT next_order FROM district WHERE d_w_id = in_w AND d_id = in_d;
    SELECT count(DISTINCT s_i_id) INTO low
    FROM order_line JOIN stock ON s_w_id = in_w AND s_i_id = ol_i_id
    WHERE ol_w_id = in_w AND ol_d_id = in_d AND ol_o_id >= next_order - 20 AND ol_o_id < next_order
      AND s_quantity < in_threshold;
    RETURN low;
END $$;
