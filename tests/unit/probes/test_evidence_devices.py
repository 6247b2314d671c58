"""Files of iostat and sadf of other machines, and what follows from their rows."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.advisor.device_figures import inconsistencies
from pgdyno.model.evidence import DeviceActivity, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.host_activity import burst
from pgdyno.probes.evidence.iostat import compare, mean_devices, parse_iostat
from pgdyno.probes.evidence.sadf import parse_sadf

FILES = Path(__file__).parents[2] / "data" / "iostat"


def rows(name: str) -> tuple[DeviceActivity, ...]:
    (report,) = parse_iostat((FILES / name).read_text())
    return report


@pytest.mark.requirement("R-STO-11", "R-STO-29", "R-VER-11")
def test_columns_by_name_with_svctm_and_cut():
    data, logs = rows("iostat_before.txt")
    assert (data.device, data.reads_s, data.writes_s) == ("edb_data_enc", 93870.4, 126297.2)
    assert (data.write_kb_s, data.write_await_ms, data.queue) == (1082067.2, 11.35, 1477.52)
    assert logs.reads_s == 0.0
    assert (logs.service_ms, logs.util_pct, logs.write_request_kb) == (0.49, 100.0, 170.56)


@pytest.mark.requirement("R-STO-11", "R-VER-11")
def test_columns_without_svctm_with_discards_and_flushes_drop_the_report_since_boot():
    text = (FILES / "iostat_sysstat-12.6.1.txt").read_text()
    ((second,),) = parse_iostat(text)
    assert (second.device, second.reads_s, second.writes_s) == ("vda", 0.0, 0.0)
    assert isinstance(second.service_ms, Unknown)
    first, _ = parse_iostat(text, skips_first=False)
    assert (first[0].reads_s, first[0].write_kb_s, first[0].queue, first[0].util_pct) == (110.22, 21809.71, 0.35, 3.66)


@pytest.mark.parametrize(
    ("header", "row", "kilobytes"),
    [
        (
            "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util",
            "sda 0 0 1 2 20 40 8 0 1 1 1",
            20,
        ),
        ("Device r/s w/s rMB/s wMB/s", "sda 1 2 1 2", 2048),
        ("Device tps kB_read/s kB_wrtn/s kB_dscd/s kB_read kB_wrtn", "sda 3 10 20 0 5 5", 20),
        ("Device r/s w/s rkB/s wkB/s", "sda 1,00 2,00 10,00 20,50", 20.5),
    ],
)
@pytest.mark.requirement("R-VER-11")
def test_units_and_names_of_other_versions(header, row, kilobytes):
    (((device,),)) = parse_iostat(f"{header}\n{row}\n")
    assert device.write_kb_s == kilobytes


@pytest.mark.requirement("R-STO-11")
@given(st.integers(0, 300))
def test_cut_file_leaves_columns_unknown(cut):
    text = (FILES / "iostat_after.txt").read_text()
    whole = {row.device: asdict(row) for row in parse_iostat(text)[0]}
    for report in parse_iostat(text[: text.rfind(" ", 0, cut) + 1]):
        for row in report:
            for name, value in asdict(row).items():
                assert isinstance(getattr(row, name), Unknown) or value == whole[row.device][name]


@given(st.text(max_size=500))
def test_arbitrary_text_never_raises(text):
    mean_devices(parse_iostat(f"Device r/s w/s r_await\n{text}"))
    assert isinstance(parse_sadf(text, 4096), Unknown)


def test_several_reports_average_waits_by_requests():
    text = "Device r/s w/s rkB/s wkB/s r_await w_await\nsda 0 {} 0 0 0 {}\n\n"
    (row,) = mean_devices(parse_iostat(text.format(9, 9) + text.format(1, 10.0) + text.format(3, 2.0)))
    assert (row.writes_s, row.write_await_ms) == (2.0, 4.0)


@pytest.mark.requirement("R-STO-12", "R-STO-06")
def test_before_and_after_a_table_got_its_own_volume():
    before = [row for row in rows("iostat_before.txt") if row.device != "edb_logs_enc"]
    after = [row for row in rows("iostat_after.txt") if row.device != "edb_logs_enc"]
    found = compare(before, after)
    assert found.after.requests_s / found.before.requests_s == pytest.approx(1.034, abs=0.0005)
    assert found.after.kb_s / found.before.kb_s == pytest.approx(1.023, abs=0.0005)
    assert found.shares["edb_stock_enc"] == pytest.approx(0.643, abs=0.0005)


@pytest.mark.requirement("R-STO-10")
def test_waits_and_queues_fell_while_the_devices_stayed_fully_used():
    before = [row for row in rows("iostat_before.txt") if row.device != "edb_logs_enc"]
    after = [row for row in rows("iostat_after.txt") if row.device != "edb_logs_enc"]
    found = compare(before, after)
    assert {row.util_pct for row in [*before, *after]} == {100.0}
    assert found.before.write_await_ms == pytest.approx(11.35)
    assert found.after.write_await_ms == pytest.approx(7.06, abs=0.01)
    assert found.before.queue == pytest.approx(1477.52)
    assert found.after.queue == pytest.approx(941.33)


@pytest.mark.requirement("R-STO-13")
@pytest.mark.parametrize("name", ["iostat_before.txt", "iostat_after.txt"])
def test_rows_of_the_guide_follow_from_each_other(name):
    assert [wrong for row in rows(name) for wrong in inconsistencies(row)] == []


@pytest.mark.requirement("R-STO-13")
@pytest.mark.parametrize(
    ("field", "column"), [("read_request_kb", "rareq-sz"), ("write_request_kb", "wareq-sz"), ("queue", "aqu-sz")]
)
def test_a_figure_that_does_not_follow_is_named(field, column):
    row = rows("iostat_before.txt")[0]
    (wrong,) = inconsistencies(replace(row, **{field: getattr(row, field) * 1.2}))
    assert wrong.startswith(f"edb_data_enc: {column} is ")


def test_what_two_digits_round_away_contradicts_nothing():
    quiet = "Device r/s w/s rkB/s wkB/s r_await w_await aqu-sz rareq-sz wareq-sz\nsda 0.03 0 0.10 0 1 0 0 4.00 0\n"
    ((row,),) = parse_iostat(quiet)
    assert inconsistencies(row) == ()


def test_unknown_columns_contradict_nothing():
    assert inconsistencies(DeviceActivity("sda", reads_s=5.0)) == ()


@pytest.mark.requirement("R-MON-12")
def test_sadf_of_another_machine():
    host, devices = parse_sadf((FILES / "sadf_A.json").read_text(), 4096)
    assert isinstance(host, HostActivity)
    assert host.window.seconds == 3
    assert host.window.began == "2026-11-21T19:24:07"
    assert 0 <= host.usr_pct <= 100
    assert host.usr_pct + host.sys_pct + host.iowait_pct + host.idle_pct + host.steal_pct == pytest.approx(100, abs=0.1)
    assert host.swap_in_bytes_s == 0
    assert isinstance(host.write_peak_to_mean, Unknown)
    assert [row.device for row in devices] == ["vda"]
    assert isinstance(devices[0].write_await_ms, Unknown)


@pytest.mark.requirement("R-MON-12")
@given(st.data())
def test_sadf_with_missing_parts_never_raises(data):
    document = json.loads((FILES / "sadf_A.json").read_text())
    records = document["sysstat"]["hosts"][0]["statistics"]
    for record in records:
        for name in data.draw(st.sets(st.sampled_from(sorted(record)))):
            record[name] = data.draw(st.sampled_from([None, [], {}, "x", 3, [1], {"a": []}]))
    parse_sadf(json.dumps(document), 4096)


@pytest.mark.requirement("R-KRN-08")
def test_square_wave_is_a_burst_and_a_flat_line_is_none():
    wave = burst([0.0, 0.0, 0.0, 40_000.0] * 5)
    assert (wave.peak_to_mean, wave.idle_share) == (4.0, 0.75)
    assert wave.variation == pytest.approx(3**0.5)
    flat = burst([500.0] * 20)
    assert (flat.peak_to_mean, flat.variation, flat.idle_share) == (1.0, 0.0, 0.0)


@pytest.mark.requirement("R-KRN-08")
def test_silence_and_few_readings_say_so():
    assert burst([0.0] * 9).idle_share == 1.0
    assert isinstance(burst([0.0] * 9).peak_to_mean, Unknown)
    assert isinstance(burst([1.0, 2.0]).variation, Unknown)


@given(st.lists(st.floats(0, 1e9), min_size=5, max_size=50))
def test_burst_figures_stay_in_their_ranges(series):
    found = burst(series)
    assert 0 <= found.idle_share <= 1
    assert isinstance(found.peak_to_mean, Unknown) or found.peak_to_mean >= 1 - 1e-9
