-- Transactions of all databases; the time of sessions is not counted before 14.
SELECT sum(xact_commit)::float8 AS commits, sum(xact_rollback)::float8 AS rollbacks, NULL::float8 AS active_ms
FROM pg_stat_database
