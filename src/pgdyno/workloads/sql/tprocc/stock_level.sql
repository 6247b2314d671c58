\set w {home}
\set d 1 + (:client_id / :wh) % 10
\set threshold random(10, 20)
