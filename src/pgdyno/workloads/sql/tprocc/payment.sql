\set w {home}
\set d random(1, 10)
\set other case when :wh > 1 and random(1, 100) > 85 then random(1, :wh - 1) else 0 end
\set c_w 1 + (:w - 1 + :other) % :wh
\set c_d case when :other = 0 then :d else random(1, 10) end
\set cents random(100, 500000)
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
\set c case when random(1, 100) > 60 then ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1 else 0 end
