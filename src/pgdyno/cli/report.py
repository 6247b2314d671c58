"""`pgdyno report`: what a study found, as text, Markdown, one HTML file, PDF, JSON, or its tables as CSV."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgdyno.cli.arguments.flags import argument, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.terminal.reporting import ReportFlags, emit

if TYPE_CHECKING:
    from pgdyno.model.study import Study
    from pgdyno.model.trial import Trial
    from pgdyno.store.catalogue import Store


class _Flags(ReportFlags, StoreFlag):
    study: str = argument("[STUDY|RUN]", default="last")


@verb("report")
def command(flags: _Flags) -> int:
    """Write the report of STUDY: its id, a prefix of it, or `last`; or of one RUN, by its number.

    The HTML report is one file that opens without a network and can be sent by mail; PDF is that page printed by a
    Chromium or Chrome on the PATH. JSON holds every drawn number and all tables; CSV is a folder with a file for each.
    """
    from pgdyno.model.trial import Trial
    from pgdyno.studies.bench.run import run_record
    from pgdyno.studies.reports import build_report, build_run_report

    with open_store(flags.store_url) as store:
        found = find(store, flags.study)
        if isinstance(found, Trial):
            report = build_run_report(store, run_record(store, store.study(found.study_id), found))
        else:
            report = build_report(store, found.id)
    emit(report, flags.wanted, flags.output)
    return 0


def find(store: Store, name: str) -> Study | Trial:
    """Return the trial of that number, else the study: a beginning of an id may be all digits too."""
    from pgdyno.errors import UsageError

    if not re.fullmatch("[0-9]{1,18}", name):
        return store.study(name)
    try:
        return store.trial(int(name))
    except UsageError as error:
        try:
            return store.study(name)
        except UsageError:
            raise error from None
