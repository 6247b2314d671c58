-- How full pg_stat_statements is.
SELECT count(*) AS entries FROM {schema}.pg_stat_statements(false)
