-- Transactions of all databases, and the time that sessions were at work: commits and planning are in it, too.
SELECT sum(xact_commit)::float8 AS commits, sum(xact_rollback)::float8 AS rollbacks, sum(active_time)::float8 AS active_ms
FROM pg_stat_database
