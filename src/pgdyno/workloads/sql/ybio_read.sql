-- One batch: as many rows as the batch, consecutive by key, scattered over the table.
\set first random(1, :run_tab_rows - :batch_size + 1)
\set last :first + :batch_size - 1
SELECT count(*), max(scratch) FROM {table} WHERE mykey BETWEEN :first AND :last;
