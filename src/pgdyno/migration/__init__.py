"""A database moved to another server: what has to be known before, who moves it, and whether all arrived.

Owns the plan of a migration, the protocol `Mover` with its implementations, the assessment, the validation, and what
makes a killed rehearsal go on by item. The source is only read, but for what a mover announces. Must not import trial
or anything above; a rehearsal that is a study is `studies/migrate`.
"""
