-- Texts of the statements that are asked for, whole ones alone: what is longer cannot be planned.
SELECT DISTINCT ON (queryid) queryid, query::text AS text
FROM {schema}.pg_stat_statements
WHERE queryid = ANY (%(ids)s) AND length(query) <= 10000
ORDER BY queryid
