-- From 17 the checkpointer has a view of its own.
SELECT (SELECT num_timed + num_requested FROM pg_stat_checkpointer) AS checkpoints,
       (SELECT count(*) FROM pg_stat_progress_vacuum) AS vacuums
