-- The bank: branches, accounts, what was booked, and what a month's end leaves. For psql.
\set accounts 200000
\set bookings 1000000
CREATE TABLE public.branch (id int PRIMARY KEY, name text NOT NULL, region text NOT NULL);
CREATE TABLE public.account (
    id int PRIMARY KEY,
    branch int NOT NULL REFERENCES public.branch,
    balance numeric(14, 2) NOT NULL,
    opened date NOT NULL
);
CREATE TABLE public.booking (
    id bigserial PRIMARY KEY,
    account int NOT NULL REFERENCES public.account,
    amount numeric(12, 2) NOT NULL,
    booked date NOT NULL,
    note text NOT NULL
);
INSERT INTO public.branch SELECT n, 'branch ' || n, 'region ' || n % 7 FROM generate_series(1, 100) AS n;
INSERT INTO public.account
SELECT n, 1 + n % 100, n % 5000, date '2020-01-01' + n % 2000 FROM generate_series(1, :accounts) AS n;
INSERT INTO public.booking (account, amount, booked, note)
SELECT 1 + n % :accounts, (n % 997) / 7.0 - 50, date '2026-10-01' + n % 31, md5(n::text)
FROM generate_series(1, :bookings) AS n;
CREATE INDEX booking_account ON public.booking (account);
CREATE INDEX booking_booked ON public.booking (booked);
CREATE SCHEMA month_end;
CREATE TABLE month_end.balance (account int PRIMARY KEY, balance numeric(14, 2) NOT NULL);
CREATE TABLE month_end.by_branch (branch int PRIMARY KEY, accounts bigint NOT NULL, amount numeric(18, 2) NOT NULL);
CREATE TABLE month_end.statement (account int NOT NULL, bookings bigint NOT NULL, total numeric(18, 2) NOT NULL);
ANALYZE;
