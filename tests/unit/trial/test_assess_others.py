"""Foreign work on disks and in other databases, told from the server's own by the samples of a run."""

import pytest
from test_trial_assess import ORIGIN, PLAN, cpu_rows, load

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import TrialState
from pgdyno.probes.window import foreign_disk_mb_per_s, foreign_sessions
from pgdyno.trial.assess import Bounds, assess

pytestmark = pytest.mark.requirement("R-EXP-10")
MB = 1024.0


def rows(table, seconds=8, **values):
    names = TABLES[table].column_names()[1:]
    row = tuple({"interval_s": 1.0, **values}.get(name) for name in names)
    return [SampleRow(table, ORIGIN + i + 1, row) for i in range(seconds)]


def server(**more):
    """Rows of a server that writes 10 MB of WAL a second and reads 5 MB."""
    return [
        *rows("wal", bytes=10 << 20),
        *rows("checkpointer", buffers_written=0),
        *rows("database", blks_read=640, temp_bytes=0),
        *[row for table, values in more.items() for row in rows(table, **values)],
    ]


def disk(read_mb, write_mb, device="sda"):
    return rows("disk", device=device, rkb_per_s=read_mb * MB, wkb_per_s=write_mb * MB)


def foreign(found):
    return foreign_disk_mb_per_s(found, ORIGIN, ORIGIN + 8)


def test_what_the_server_wrote_and_its_journal_is_not_foreign():
    assert foreign([*server(), *disk(5, 20)]) == 0


def test_what_goes_beyond_it_is():
    assert foreign([*server(), *disk(5, 50)]) == pytest.approx(30)
    assert foreign([*server(), *disk(45, 0)]) == pytest.approx(40)


def test_pages_that_were_dirty_before_are_not_foreign():
    dirty = [
        SampleRow("memory", ORIGIN + t, tuple({"dirty_bytes": d}.get(n) for n in TABLES["memory"].column_names()[1:]))
        for t, d in ((1, 240 << 20), (8, 0))
    ]
    assert foreign([*server(), *disk(5, 50), *dirty]) == pytest.approx(0)


def test_devices_above_others_are_not_counted_twice():
    assert foreign([*server(), *disk(5, 20), *disk(500, 500, "dm-0")]) == 0


def test_pg_stat_io_takes_the_place_of_block_counts():
    io = {"backend_type": "client backend", "object": "relation", "context": "normal"}
    found = [*server(), *rows("io", **io, read_bytes=100 << 20, write_bytes=20 << 20), *disk(100, 60)]
    assert foreign(found) == pytest.approx(0)


def test_without_either_side_it_is_unknown():
    assert foreign(server()) is None
    assert foreign(disk(1, 1)) is None


def test_busy_sessions_of_others_are_a_mean():
    found = rows("sessions", 4, foreign_busy=2) + rows("sessions", 8, foreign_busy=0)[4:]
    assert foreign_sessions(found, ORIGIN, ORIGIN + 8) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(foreign_disk_mb_per_s=5), "disk traffic of others"),
        (Bounds(foreign_sessions=0.5), "sessions of others were busy"),
    ],
)
def test_either_disturbs_a_run_where_it_has_a_bound(bounds, said):
    samples = [*cpu_rows(8, server_cpu_s=0.5), *server(), *disk(5, 60), *rows("sessions", foreign_busy=3)]
    assert assess(load([200] * 8), samples, PLAN, Bounds()).state is TrialState.COMPLETE
    outcome = assess(load([200] * 8), samples, PLAN, bounds)
    assert outcome.state is TrialState.DISTURBED
    assert said in outcome.reason
    assert outcome.counters["foreign_disk_mb_per_s"] > 5


def test_a_bound_that_cannot_be_judged_is_told_and_disturbs_nothing():
    outcome = assess(load([200] * 8), cpu_rows(8, server_cpu_s=0.5), PLAN, Bounds(foreign_disk_mb_per_s=5))
    assert outcome.state is TrialState.COMPLETE
    assert any("foreign_disk_mb_per_s is unknown" in text for text in outcome.warnings)


def test_a_run_without_a_score_still_says_what_it_read():
    """Of a slow disk's run that never settled, the blocks read are what tells why."""
    outcome = assess(
        load([20] * 7 + [200] * 2), rows("database", seconds=9, blks_read=10, blks_hit=30), PLAN, Bounds(min_window_s=3)
    )
    assert outcome.state is TrialState.UNSTEADY
    assert outcome.counters["blks_hit"] == pytest.approx(3 * outcome.counters["blks_read"])
    assert outcome.counters["blks_read"] >= 10 * (outcome.ended_at - outcome.began_at - 1)


@pytest.mark.parametrize(("bound", "state"), [(3.0, TrialState.COMPLETE), (2.875, TrialState.DISTURBED)])
def test_as_many_sessions_as_may_be_busy_disturb_nothing(bound, state):
    samples = [*cpu_rows(8, server_cpu_s=0.5), *rows("sessions", foreign_busy=3)]
    assert assess(load([200] * 8), samples, PLAN, Bounds(foreign_sessions=bound)).state is state
