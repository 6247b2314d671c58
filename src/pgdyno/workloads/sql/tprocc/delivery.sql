\set w {home}
\set carrier random(1, 10)
