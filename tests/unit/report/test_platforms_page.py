"""What the pages of comparisons say, from the rows of the sources; one changed row changes the text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO

import pytest

from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.figure import Figure, FigureKind
from pgdyno.model.platform import PlatformComparison
from pgdyno.probes.evidence.iostat import compare
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report
from pgdyno.report.iostat_page import iostat_page
from pgdyno.report.sections import Report
from pgdyno.studies.platforms.comparing import compare_platforms
from pgdyno.studies.platforms.figures import Generation, ratio_bars, throughput_lines
from pgdyno.studies.platforms.page import generations_page, platforms_page, step_sentences
from pgdyno.studies.platforms.words import comparison_json, equal_load_sentences, headroom_sentences, title
from platform_example import power, x86
from seed_tables import Row, seed_rows


def text_of(report: Report) -> str:
    stream = StringIO()
    print_report(report, stream)
    return " ".join(stream.getvalue().split())


def example(**changed: dict[int, float]) -> PlatformComparison:
    return compare_platforms(power(changed.get("power")), x86(changed.get("x86")))


@pytest.mark.requirement("R-CMP-01", "R-CMP-02", "R-CMP-03", "R-CMP-10")
def test_the_page_says_every_figure_of_the_source() -> None:
    told = text_of(platforms_page(example()))
    assert "Per core, power does 2.60 times what x86 does, each at its own best; but per thread 0.65 times" in told
    assert "tuned, 16 instances of 7 clients: per core 2.54 times" in told
    assert "per core 2.72 times, per thread 0.68 times, in total 1.36 times; this is past the best of x86." in told
    assert "headline: each at its own best" in told
    assert "power used 79.49 % of its CPU at its best, 32 instances of 7 clients: 20.51 % was left." in told
    assert "per core kept busy (estimate)" in told
    assert "Per socket is unknown (power: it was not told)." in told
    for word in ("better", "worse", "equivalent", "advantage"):
        assert not re.search(rf"\b{word}\b", told), "no verdict without interleaved pairs"


@pytest.mark.requirement("R-REP-03")
@pytest.mark.parametrize(
    ("changed", "gone", "there"),
    [
        ({"x86": {32: 50000.0}}, "per core 2.72 times", "per core 2.48 times"),
        ({"power": {16: 65000.0}}, "per core 2.54 times", "per core 2.73 times"),
        ({"x86": {16: 40000.0}}, "each at its own best; but per thread 0.65 times", "but per thread 0.68 times"),
    ],
)
def test_a_changed_row_changes_the_text(changed: dict[str, dict[int, float]], gone: str, there: str) -> None:
    before, after = text_of(platforms_page(example())), text_of(platforms_page(example(**changed)))
    assert gone in before
    assert gone not in after
    assert there in after


@pytest.mark.requirement("R-CMP-07")
def test_an_invalid_comparison_says_so_first_and_names_both_values() -> None:
    other = replace(x86(), same={**x86().same, "data set": "scale 2000"})
    report = platforms_page(compare_platforms(power(), other))
    assert report.word == "invalid"
    assert report.title == (
        "The comparison of power and x86 is invalid: data set differs: scale 1000 on power, scale 2000 on x86"
    )
    assert (report.tiles, list(report.figures())) == ((), [])
    told = text_of(report)
    assert "No ratio is stated" in told
    assert "61,963.90" in told
    assert not re.search(r"\btimes\b", told)


@pytest.mark.requirement("R-CMP-04")
def test_unlike_things_are_a_table_in_every_form() -> None:
    report = platforms_page(example())
    for told in (text_of(report), markdown.render(report), html.render(report)):
        assert "64 KiB" in told
        assert "4.18.0-372.9.1.el8.x86_64" in told.replace("\\", "")
        assert "92.36 %" in told


def test_the_figures_of_a_comparison() -> None:
    bars, lines = ratio_bars(example()), throughput_lines(example())
    assert bars is not None
    assert lines is not None
    assert (bars.kind, lines.kind) == (FigureKind.BARS, FigureKind.LINES)
    assert bars.series[0].y == pytest.approx((2.5992, 0.6498, 0.6498, 1.2996, 3.0201), abs=1e-4)
    assert [series.x for series in lines.series] == [(112.0, 224.0, 448.0), (112.0, 224.0)]
    assert lines.series[1].y == pytest.approx((47678.65 / 16, 45570.24 / 16))
    assert ratio_bars(compare_platforms(power(), replace(x86(), rows=()))) is None


def test_cautions_of_a_valid_comparison() -> None:
    single = comparison_json(example())["cautions"]
    assert isinstance(single, list)
    assert "single run" in single[0]
    scattered = [
        replace(one, environment="e1", rows=tuple(replace(r, throughputs=(r.tps / 9, r.tps * 9)) for r in one.rows))
        for one in (power(), x86())
    ]
    told = text_of(platforms_page(compare_platforms(scattered[0], scattered[1])))
    assert "the runs scatter more than the platforms differ: 95 % interval" in told
    assert "two moments of one platform" in told
    assert "each at its own best, within the scatter of the runs" in told, "the title claims no more than the runs do"
    assert "scatter" not in title(example())


def test_json_holds_the_figures_and_the_sentences() -> None:
    found = json.loads(json.dumps(comparison_json(example())))
    assert found["valid"] is True
    assert found["title"] == title(example())
    assert found["sentences"] == list(equal_load_sentences(example()))
    assert found["headroom"] == list(headroom_sentences(example()))
    by_core = next(one for one in found["best"]["ratios"] if one["denominator"] == "per core")
    assert by_core["ratio"] == pytest.approx(2.5992, abs=1e-4)
    assert found["a"]["sockets"] == {"unknown": "it was not told"}


def devices(rows: list[Row]) -> tuple[DeviceActivity, ...]:
    return tuple(
        DeviceActivity(
            row["device"], row["r_s"], row["w_s"], row["rkB_s"], row["wkB_s"], row["r_await"], row["w_await"],
            row["aqu_sz"], row["rareq_sz"], row["wareq_sz"], row["svctm"], row["util_pct"],
        )
        for row in rows
        if row["device"] != "edb_logs_enc"
    )  # fmt: skip


def iostat_text(before: list[Row], after: list[Row]) -> str:
    was, now = devices(before), devices(after)
    return text_of(iostat_page(was, now, compare(was, now)))


@pytest.mark.requirement("R-STO-12", "R-REP-03")
def test_iostat_before_and_after_a_table_got_a_volume_of_its_own() -> None:
    before, after = seed_rows("iostat_before"), seed_rows("iostat_after")
    told = iostat_text(before, after)
    assert "Mean write wait 11.35 ms before, 7.06 ms after: −37.8 %." in told
    assert "Requests 220,167.6/s before, 227,712.6/s after: +3.4 %." in told
    assert "kB/s after: +2.3 %." in told
    assert "edb_stock_enc, new afterwards, carries 64.3 % of the data." in told
    assert "%util is 100 % before and after" in told
    assert "does not prove saturation" in told
    assert len(re.findall("saturat", told)) == 1
    next(row for row in after if row["device"] == "edb_stock_enc")["wkB_s"] *= 2
    changed = iostat_text(before, after)
    assert "64.3 %" not in changed
    assert "carries 73.5 % of the data" in changed


def test_iostat_without_full_devices_has_no_word_on_them() -> None:
    rows = [{**row, "util_pct": 60.0} for row in seed_rows("iostat_before")]
    assert "saturation" not in iostat_text(rows, rows)


def generation_steps(rows: list[Row]) -> list[Generation]:
    return [Generation(row["step"], row["db2"], row["clock"]) for row in rows]


@pytest.mark.requirement("R-CMP-09")
def test_generations_are_drawn_against_their_clock() -> None:
    rows = seed_rows("machine_generations")
    report = generations_page(generation_steps(rows), "the DB2 metric")
    (figure,) = report.figures()
    assert isinstance(figure, Figure)
    assert figure.series[0].y == pytest.approx((2.2, 1.6, 1.375, 1.6, 1.4, 8 / 7))
    assert "grew 3.52-fold and the clock 2.24-fold" in figure.caption
    assert "z900->z990: the DB2 metric 2.20x, clock 1.60x, so 1.38x beyond the clock." in text_of(report)
    assert re.search("clock, z990->z9 █+ 1.40x", text_of(report)), "bars of one name are told apart in text too"
    rows[0]["clock"] = 2.0
    assert "so 1.10x beyond" in step_sentences(generation_steps(rows), "it")[0]
