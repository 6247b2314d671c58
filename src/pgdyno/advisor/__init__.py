"""Rules as data with pure predicates: inventory and evidence in, findings out. Cannot touch a server."""
