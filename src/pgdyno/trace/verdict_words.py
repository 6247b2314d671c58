"""The verdict on a replay as a word and a sentence. Pure."""

from __future__ import annotations

from pgdyno.model.replay_comparison import Basis, ClassTable, Fidelity, RawShare, ShareDifference
from pgdyno.model.verdict import Word


def replay_verdict(
    basis: Basis,
    fidelity: Fidelity,
    share: RawShare,
    difference: ShareDifference | None,
    statements: ClassTable,
    transactions: ClassTable,
) -> tuple[Word, str]:
    """Return the word on B and the sentence that says it.

    `basis` says whose clocks timed the two sides, and `fidelity` whether the run counts. `share` has how many
    transactions of B were not slower, and `difference` compares that with the A/A run, None without one. `statements`
    and `transactions` are the judged classes of either kind.

    A run that does not count, or sides that cannot be compared, have no verdict. A class that is worse makes B worse,
    whatever the share of all. With an A/A run the difference of the shares decides; without one, only a passed
    requirement says something, because equal platforms have a share of about 50 %.
    """
    if not fidelity.is_valid:
        return Word.NOT_RESOLVED, f"the run is INVALID: {'; '.join(fidelity.invalid)}"
    if basis is Basis.UNLIKE:
        return Word.NOT_RESOLVED, "not resolved: times of a server cannot be held against times of a caller"
    if not share.of:
        return Word.NOT_RESOLVED, "not resolved: no transaction has a time on both sides"
    told = _share_text(share, difference)
    worse = statements.count(Word.WORSE), transactions.count(Word.WORSE)
    if any(worse):
        named = " and ".join(
            f"{n} {'class' if n == 1 else 'classes'} of {what}"
            for n, what in zip(worse, ("statements", "transactions"), strict=True)
            if n
        )
        return Word.WORSE, f"B is worse: {named} {'takes' if sum(worse) == 1 else 'take'} longer; {told}"
    if difference is None:
        if share.is_passed:
            return Word.BETTER, f"B is better: {told}"
        return Word.NOT_RESOLVED, f"not resolved, as no A/A run tells what equal platforms give: {told}"
    words = {Word.EQUIVALENT: "equivalent", Word.NOT_RESOLVED: "not resolved"}
    return difference.word, f"{words.get(difference.word, f'B is {difference.word.value}')}: {told}"


def _share_text(share: RawShare, difference: ShareDifference | None) -> str:
    asked = "passes" if share.is_passed else "does not pass"
    text = (
        f"{share.percent or 0.0:.2f} % of {share.of:,} transactions are not slower, "
        f"which {asked} {share.required_percent:g} %"
    )
    if difference is None:
        return text
    return (
        f"{text}; {difference.points:+.2f} points [{difference.lo:+.2f}, {difference.hi:+.2f}] "
        f"against {difference.again.percent or 0.0:.2f} % in the A/A run"
    )
