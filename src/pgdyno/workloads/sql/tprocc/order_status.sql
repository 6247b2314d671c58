\set w {home}
\set d random(1, 10)
\set c {customer}
