\set w {home}
\set d random(1, 10)
\set c 0
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
\set by_name random(1, 100)
\if :by_name > 60
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\endif
