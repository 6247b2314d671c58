SELECT pg_sleep(CASE current_setting('enable_indexscan') WHEN 'on' THEN 0.04 ELSE 0.08 END);
