"""The ways in which a configuration reaches a server: files, SQL, Patroni; and what its files say then."""
