\set w {home}
\set d random(1, 10)
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
\set c case when random(1, 100) > 60 then ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1 else 0 end
