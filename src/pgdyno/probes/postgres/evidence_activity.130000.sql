-- What client sessions of all databases do at this moment; those of pgdyno itself are left out.
SELECT state, wait_event_type, wait_event, count(*) AS sessions
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND NOT starts_with(application_name, 'pgdyno')
GROUP BY state, wait_event_type, wait_event
