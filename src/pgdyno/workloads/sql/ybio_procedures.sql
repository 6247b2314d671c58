-- The YBIO shape as procedures. Names and parameters are those of YBIO's setup and runit; the code is pgdyno's own.
-- Needs PostgreSQL 13 or later; run it in any database to call both by hand.
CREATE TABLE IF NOT EXISTS benchruns (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began timestamptz NOT NULL,
    ended timestamptz NOT NULL,
    table_name text NOT NULL,
    tab_rows bigint NOT NULL,
    batch_size bigint NOT NULL,
    pct_update numeric NOT NULL,
    batches bigint NOT NULL,
    rows_read bigint NOT NULL,
    rows_updated bigint NOT NULL,
    retried bigint NOT NULL,
    max_scratch bigint,
    comments text
);
COMMENT ON TABLE benchruns IS 'one row for each call of runit; nothing of pgdyno drops it or deletes from it';

-- Fill a table with the keys 1 to tab_rows in scattered order, commit after each batch, then build the index. The
-- order is a permutation of a counter, so that the same parameters give the same table, as COPY by pgdyno does.
-- With several segments the keys are cut into so many ranges, and each range has pages of its own.
CREATE OR REPLACE PROCEDURE setup(
    tab_prefix text DEFAULT 'bench',
    tab_num int DEFAULT 1,
    tab_rows bigint DEFAULT 1000000,
    batch_size bigint DEFAULT 10000,
    filler int DEFAULT 400,
    segments int DEFAULT 1,
    recreate boolean DEFAULT false
)
LANGUAGE plpgsql AS $setup$
DECLARE
    table_name CONSTANT text := tab_prefix || lpad(tab_num::text, 4, '0');
    share CONSTANT bigint := (tab_rows + segments - 1) / segments;
    bits CONSTANT int := greatest(2, length(ltrim((share - 1)::bit(64)::text, '0')));
    counters CONSTANT bigint := CASE WHEN segments = 1 THEN 1::bigint << bits
        ELSE segments * ((((1::bigint << bits) + {chunk} - 1) / {chunk}) * {chunk}) END;
    first bigint := 0;
BEGIN
    IF tab_rows NOT BETWEEN 1 AND {most_rows} OR batch_size < 1 OR segments NOT BETWEEN 1 AND tab_rows THEN
        RAISE EXCEPTION 'setup: tab_rows % or batch_size % or segments % is out of range', tab_rows, batch_size, segments;
    END IF;
    IF recreate THEN
        EXECUTE format('DROP TABLE IF EXISTS %I', table_name);
    END IF;
    EXECUTE format('CREATE TABLE %I (mykey bigint NOT NULL, scratch bigint NOT NULL, filler char(%s))',
                   table_name, filler);
    COMMIT;
    WHILE first < counters LOOP
        EXECUTE format($insert$
            INSERT INTO %I
            SELECT segment * $3 + k3 + 1, c, ''
            FROM generate_series($1, $2) AS c,
                 LATERAL (SELECT (c / {chunk}) %% $4 AS segment,
                                 CASE WHEN $4 = 1 THEN c ELSE c / {chunk} / $4 * {chunk} + c %% {chunk} END AS k0) AS o,
                 LATERAL (SELECT (k0 * {first}) & $5 AS p1) AS a, LATERAL (SELECT p1 # (p1 >> $6) AS k1) AS b,
                 LATERAL (SELECT (k1 * {second}) & $5 AS p2) AS d, LATERAL (SELECT p2 # (p2 >> $6) AS k2) AS e,
                 LATERAL (SELECT (k2 * {third}) & $5 AS p3) AS f, LATERAL (SELECT p3 # (p3 >> $6) AS k3) AS g
            WHERE k0 <= $5 AND k3 < $3 AND segment * $3 + k3 < $7$insert$, table_name)
        USING first, least(first + batch_size, counters) - 1, share, segments::bigint,
              (1::bigint << bits) - 1, bits / 2, tab_rows;
        first := first + batch_size;
        COMMIT;
    END LOOP;
    EXECUTE format('CREATE INDEX ON %I (mykey)', table_name);
    COMMIT;
END;
$setup$;

-- Read, or as pct_update percent of the batches update, batch_size rows with consecutive keys among the first tab_rows,
-- commit each batch, and go on until run_duration is over: at 0 it is one batch. One row of benchruns says what was
-- done; it is committed without waiting for its WAL, so that a load that only reads does not measure the log's disk.
CREATE OR REPLACE PROCEDURE runit(
    tab_prefix text DEFAULT 'bench',
    tab_num int DEFAULT 1,
    tab_rows bigint DEFAULT 1000000,
    batch_size bigint DEFAULT 10000,
    run_duration interval DEFAULT '1 minute',
    pct_update numeric DEFAULT 0,
    comments text DEFAULT NULL,
    INOUT total_rows bigint DEFAULT NULL,
    INOUT rows_per_s numeric DEFAULT NULL,
    INOUT response_ms numeric DEFAULT NULL
)
LANGUAGE plpgsql AS $runit$
DECLARE
    table_name CONSTANT text := tab_prefix || lpad(tab_num::text, 4, '0');
    read_batch CONSTANT text := format(
        'SELECT count(*), max(scratch) FROM %I WHERE mykey BETWEEN $1 AND $2', table_name);
    update_batch CONSTANT text := format(
        'UPDATE %I SET scratch = scratch + 1 WHERE mykey BETWEEN $1 AND $2', table_name);
    began CONSTANT timestamptz := clock_timestamp();
    ended timestamptz;
    lot CONSTANT float8 := random();
    share CONSTANT float8 := pct_update / 100.0;
    first bigint;
    touched bigint;
    highest bigint;
    max_scratch bigint;
    batches bigint := 0;
    updated bigint := 0;
    retried bigint := 0;
BEGIN
    IF batch_size NOT BETWEEN 1 AND tab_rows OR pct_update NOT BETWEEN 0 AND 100 THEN
        RAISE EXCEPTION 'runit: batch_size % (of % rows) or pct_update % is out of range', batch_size, tab_rows, pct_update;
    END IF;
    total_rows := 0;
    LOOP
        batches := batches + 1;
        first := 1 + floor(random() * (tab_rows - batch_size + 1))::bigint;
        -- As many updates as the share asks for to within one, wherever the calls begin: the first one is drawn by lot.
        IF floor(lot + batches * share) > floor(lot + (batches - 1) * share) THEN
            LOOP
                BEGIN
                    EXECUTE update_batch USING first, first + batch_size - 1;
                    GET DIAGNOSTICS touched = ROW_COUNT;
                    EXIT;
                EXCEPTION WHEN deadlock_detected OR serialization_failure THEN
                    retried := retried + 1;  -- two overlapping ranges locked each other out
                END;
            END LOOP;
            updated := updated + touched;
        ELSE
            EXECUTE read_batch INTO touched, highest USING first, first + batch_size - 1;
            max_scratch := greatest(max_scratch, highest);
        END IF;
        IF touched <> batch_size THEN
            RAISE EXCEPTION 'runit: % has % of the % rows from key % on', table_name, touched, batch_size, first
                USING HINT = format('Give tab_rows as setup had it: %s are more than the table holds.', tab_rows);
        END IF;
        total_rows := total_rows + touched;
        COMMIT;
        EXIT WHEN clock_timestamp() >= began + run_duration;
    END LOOP;
    ended := clock_timestamp();
    response_ms := round((1000 * extract(epoch FROM ended - began))::numeric, 3);
    rows_per_s := round(1000 * total_rows / greatest(response_ms, 0.001));
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO benchruns (began, ended, table_name, tab_rows, batch_size, pct_update, batches, rows_read, rows_updated,
                           retried, max_scratch, comments)
    VALUES (began, ended, table_name, tab_rows, batch_size, pct_update, batches, total_rows - updated, updated, retried,
            max_scratch, comments);
END;
$runit$;
