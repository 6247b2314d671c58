"""A captured load on a server: whether it may be sent there, from which state, and as a workload of a study.

Owns the proof that a target is another server than the source, the tape that a trace becomes, the ways to bring a state
back, and the workload `replay`. Must not import fleet, trial or anything above. Engines are the room
`trace`; a replay that is a study of its own is `studies/replay`.
"""
