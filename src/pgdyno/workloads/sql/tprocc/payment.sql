\set w {home}
\set d random(1, 10)
\set c_w case when random(1, 100) > 85 and :wh > 1 then 1 + (:w - 1 + random(1, :wh - 1)) % :wh else :w end
\set c_d case when :c_w = :w then :d else random(1, 10) end
\set c {customer}
\set cents random(100, 500000)
