INSERT INTO month_end.bookings
SELECT n % 1000, (n % 997) / 7.0, date '2026-10-01' + n % 31 FROM generate_series(1, 100000) AS n
