-- What a server does beside its statements: checkpoints that began, timed or requested, and tables being vacuumed.
SELECT (SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter) AS checkpoints,
       (SELECT count(*) FROM pg_stat_progress_vacuum) AS vacuums
