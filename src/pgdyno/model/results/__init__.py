"""What a study comes to, one frozen dataclass a kind: what `--json` prints, the store keeps and the report draws.

JSON has the fields of these classes by their names, or by those that `named` gives; `model.shapes` reads and writes
them. A field that came later than the first stored results has a default: what its absence means in those.
"""
