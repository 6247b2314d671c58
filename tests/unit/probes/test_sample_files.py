"""Files of sadf and iostat of other machines as sample rows, and as a study in the store."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.cli.importing import command
from pgdyno.errors import UsageError
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.study import StudyKind
from pgdyno.probes.evidence.sample_files import read_iostat, read_sadf
from pgdyno.store.catalogue import Store
from pgdyno.studies.imported.samples import import_samples, named

FILES = Path(__file__).parents[2] / "data" / "iostat"
SADF = (FILES / "sadf_A.json").read_text()
BEFORE = (FILES / "iostat_before.txt").read_text()


def columns(found, table):
    names = TABLES[table].column_names()
    return [dict(zip(names, (row.t, *row.values), strict=True)) for row in found.rows if row.table == table]


@pytest.mark.requirement("R-MON-12")
def test_sadf_becomes_rows_of_each_second():
    found = read_sadf(SADF, source="sadf_A.json")
    cpu, memory, disk = (columns(found, table) for table in ("cpu", "memory", "disk"))
    assert len(cpu) == len(memory) == len(disk) == 3
    assert cpu[0]["t"] == datetime(2026, 11, 21, 19, 24, 7, tzinfo=UTC).timestamp()
    assert (cpu[0]["usr_pct"], cpu[0]["sys_pct"], cpu[0]["cpus"], cpu[0]["interval_s"]) == (93.5, 6.5, 2, 1.0)
    assert memory[1]["available_bytes"] == 22112916 * 1024
    assert (disk[1]["device"], disk[1]["rkb_per_s"], disk[1]["r_await_ms"]) == ("vda", 72.0, None)
    assert found.ended_at - found.began_at == 3
    assert found.machine.startswith("vm Linux")


@pytest.mark.requirement("R-MON-12")
def test_iostat_keeps_its_times_and_columns_and_leaves_out_the_averages_since_boot():
    found = read_iostat((FILES / "iostat_sysstat-12.6.1.txt").read_text(), source="x")
    (row,) = columns(found, "disk")
    assert row["t"] == datetime(2026, 11, 21, 19, 24, 6, tzinfo=UTC).timestamp()
    assert (row["device"], row["rkb_per_s"], row["interval_s"]) == ("vda", 0.0, 1.0)
    assert found.cpus == 2
    single = columns(read_iostat(BEFORE, source="x"), "disk")
    assert (single[0]["device"], single[0]["w_await_ms"], single[0]["util_pct"]) == ("edb_data_enc", 11.35, 100.0)
    assert single[0]["t"] == datetime(2023, 3, 31, 4, 36, 45, tzinfo=UTC).timestamp()


REPORTS = """Linux 6.1 (db1) 	01/02/24 	_x86_64_	(4 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           1.00    0.00    1.00    0.00    0.00   98.00

Device            r/s     w/s     rkB/s   wkB/s   aqu-sz  %util
sda              1.00    1.00      8.00    8.00     0.10   1.00

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          40.00    2.00    8.00   10.00    0.00   40.00

Device            r/s     w/s     rkB/s   wkB/s   aqu-sz  %util
sda            100.00   50.00    800.00  400.00     3.00  99.00

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          50.00    0.00   10.00    0.00    0.00   40.00

Device            r/s     w/s     rkB/s   wkB/s   aqu-sz  %util
sda            200.00   50.00   1600.00  400.00     5.00 100.00
"""


@pytest.mark.requirement("R-MON-12")
def test_reports_without_times_need_an_interval():
    with pytest.raises(UsageError) as refused:
        read_iostat(REPORTS, source="db1.txt")
    assert "--interval" in refused.value.hint
    found = read_iostat(REPORTS, source="db1.txt", interval_s=5.0)
    assert [row["t"] for row in columns(found, "disk")] == [5.0, 10.0]
    assert [(row["usr_pct"], row["iowait_pct"]) for row in columns(found, "cpu")] == [(42.0, 10.0), (50.0, 0.0)]
    assert any("5 s apart" in note for note in found.notes)


@pytest.mark.requirement("R-MON-12")
@pytest.mark.parametrize(
    "text", ["", "{}", '{"sysstat": {"hosts": []}}', "[1]", '{"sysstat": {"hosts": [{"statistics": [3]}]}}']
)
def test_what_is_not_of_the_tool_is_refused_by_name(text):
    with pytest.raises(UsageError, match='file "f" is not what sadf prints'):
        read_sadf(text, source="f")
    with pytest.raises(UsageError, match='file "f" is not what iostat prints'):
        read_iostat(text, source="f")


@pytest.mark.requirement("R-MON-12")
@settings(max_examples=60)
@given(st.data())
def test_damaged_sadf_is_read_or_refused(data):
    document = json.loads(SADF)
    for record in document["sysstat"]["hosts"][0]["statistics"]:
        for name in data.draw(st.sets(st.sampled_from(sorted(record)), max_size=4)):
            record[name] = data.draw(st.sampled_from([None, 3, "x", [], {}, [{}], [{"cpu": "all"}]]))
    try:
        found = read_sadf(json.dumps(document), source="f")
    except UsageError:
        return
    assert all(len(row.values) == len(TABLES[row.table].columns) for row in found.rows)


@pytest.mark.requirement("R-MON-12")
@given(st.text(max_size=400), st.integers(0, len(REPORTS)))
def test_any_text_is_read_or_refused(text, cut):
    for made in (text, REPORTS[:cut] + text, REPORTS[:cut]):
        try:
            found = read_iostat(made, source="f", interval_s=1.0)
        except UsageError:
            continue
        assert found.ended_at >= found.began_at


@pytest.mark.requirement("R-MON-12")
def test_an_import_is_a_study_of_its_own_kind_with_samples_by_run(tmp_path):
    with Store.open(tmp_path / "s.db") as store:
        samples = read_iostat(REPORTS, source="db1.txt", interval_s=5.0)
        result = import_samples(store, [named("db1.txt", REPORTS, samples)])
        study = store.study(result.study)
        (trial,) = store.trials(study.id)
        assert study.kind is StudyKind.IMPORTED
        assert study.target.startswith("Linux 6.1 (db1)")
        assert trial.outcome.throughput is None
        assert store.samples(trial.id, "disk")["aqu_sz"] == [3.0, 5.0]
        assert any("sda: mean rkB/s 1,200.00" in text for text in result.sentences)


@pytest.mark.requirement("R-MON-12")
def test_the_verb_prints_what_it_read_and_keeps_it(tmp_path):
    store = str(tmp_path / "s.db")
    done = CliRunner().invoke(command, ["sadf", str(FILES / "sadf_A.json"), "--store", store, "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["word"] == "imported"
    shown = CliRunner().invoke(command, ["iostat", str(FILES / "iostat_after.txt"), "--store", store])
    assert "edb_stock_enc" in shown.output
    missing = CliRunner().invoke(command, ["iostat", str(tmp_path / "none.txt"), "--store", store])
    assert isinstance(missing.exception, UsageError)
