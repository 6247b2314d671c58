"""Whether an error of the load's script ends the study: every trial would fail like this one. Pure."""

from __future__ import annotations

from pgdyno.errors import PgdynoError, ScriptError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import TrialSpec


class ScriptErrors:
    """The errors of one study's script so far.

    What the server says of a statement without running it ends the study at once. An error that shows when it runs may
    be rare, or due to a trial's settings: it ends the study under the server's own settings, or where all runs are
    alike, unless the script came to its end before; then only the second such failure in a row does.
    """

    def __init__(self, *, are_alike: bool) -> None:
        self._are_alike = are_alike
        self._came_through = self._failed_last = False

    def note_complete(self) -> None:
        """Hear that a trial of the script was complete."""
        self._came_through, self._failed_last = True, False

    def ends_study(self, error: PgdynoError, spec: TrialSpec) -> bool:
        """Tell whether every trial would fail like the one of `spec`; other errors than the script's never say so."""
        if not isinstance(error, ScriptError):
            return False
        if error.is_certain:
            return True
        if spec.configuration != BASELINE and not self._are_alike:
            return False
        again, self._failed_last = self._failed_last, True
        return again or not self._came_through
