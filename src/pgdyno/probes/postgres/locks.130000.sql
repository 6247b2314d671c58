-- Locks on transactions belong to no database (NULL) and shared catalogues to database 0: both are counted.
SELECT mode, locktype,
       count(*) FILTER (WHERE granted) AS granted,
       count(*) FILTER (WHERE NOT granted) AS waiting
FROM pg_locks
WHERE pid IS DISTINCT FROM pg_backend_pid()
  AND (database IS NULL OR database = 0
       OR database = (SELECT oid FROM pg_database WHERE datname = %(database)s))
GROUP BY mode, locktype
