-- One batch of updates: the same choice of rows as the read.
\set first random(1, :run_tab_rows - :batch_size + 1)
\set last :first + :batch_size - 1
UPDATE {table} SET scratch = scratch + 1 WHERE mykey BETWEEN :first AND :last;
