-- What a user of the bank does: looks at an account and its last bookings, then books. For pgbench.
\set account random(1, 20000)
\set branch random(1, 100)
\set amount random(-500, 500)
SELECT balance, opened FROM public.account WHERE id = :account;
SELECT id, amount, booked FROM public.booking WHERE account = :account ORDER BY booked DESC LIMIT 10;
BEGIN;
UPDATE public.account SET balance = balance + :amount WHERE id = :account;
INSERT INTO public.booking (account, amount, booked, note) VALUES (:account, :amount, date '2026-11-02', 'counter');
COMMIT;
SELECT b.name, count(*) FROM public.account AS a JOIN public.branch AS b ON b.id = a.branch
WHERE a.id BETWEEN :account AND :account + 200 AND a.branch = :branch GROUP BY b.name;
