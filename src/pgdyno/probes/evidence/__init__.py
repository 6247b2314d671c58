"""Evidence: what server and host did in a window, from statistics, logs and files of other tools."""

from pgdyno.probes.evidence.gather import evidence_of_capture, gather, write_evidence

__all__ = ["evidence_of_capture", "gather", "write_evidence"]
