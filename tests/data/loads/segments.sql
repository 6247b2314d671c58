SELECT pg_logical_emit_message(true, 'a test', 'x');
SELECT pg_switch_wal();
