\set w {home}
\set d random(1, 10)
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\set lines random(5, 15)
