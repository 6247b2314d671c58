"""From a target or a capture to findings, from findings to steps, and from verdicts to proofs."""
