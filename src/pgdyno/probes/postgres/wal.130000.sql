-- 13 has no pg_stat_wal: the position alone, which counts the padding of switched segments too.
SELECT pg_wal_lsn_diff(
         CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END,
         '0/0'
       )::int8 AS bytes
