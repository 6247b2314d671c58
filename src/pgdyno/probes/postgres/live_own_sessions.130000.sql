-- Sessions that are none of pgdyno's: all of them, and those of the role that pgdyno has here.
SELECT count(*) AS sessions, count(*) FILTER (WHERE usename = current_user) AS own
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND application_name NOT LIKE 'pgdyno%%'
