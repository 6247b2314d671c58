-- The page of one account: its balance, its branch and its neighbours; few accounts are asked for often.
-- Run it on pgbench's own tables, 9 times as often as the write of pgbench's simple-update:
--   workload custom, scale=10, scripts=examples/scripts/account_page.sql@9,simple-update@1
\set aid random_zipfian(1, 100000 * :scale - 20, 1.2)
BEGIN;
SELECT a.abalance, b.bbalance FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) WHERE a.aid = :aid;
SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN :aid + 1 AND :aid + 20 ORDER BY aid;
END;
