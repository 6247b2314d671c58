"""An idle server shows nothing of its load: a rule that saw nothing bad there does not call it in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor_case import make_case, make_host
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import (
    SAMPLED,
    DeviceActivity,
    Evidence,
    HostActivity,
    Statistics,
    TinyRequests,
    Window,
    WorkloadClass,
)
from pgdyno.model.facts import LittleLoad, NoLoad, Unknown
from pgdyno.model.finding import Answer

WINDOW = Window(3, SAMPLED)
SEEN: dict[str, Any] = {
    "statistics": Statistics(
        WINDOW,
        hit_ratio=1.0,
        blocks_read_s=0.0,
        temp_bytes_s=0.0,
        checkpoints_timed=0,
        checkpoints_requested=0,
        maxwritten_clean=0,
        wal_bytes_s=0.0,
        full_page_image_share=0.0,
    ),
    "host": HostActivity(WINDOW, steal_pct=0.0, swap_in_bytes_s=0.0, write_peak_to_mean=1.0, write_variation=0.0),
    "devices": (DeviceActivity("sda", queue=0.0, read_await_ms=0.1, write_await_ms=0.5),),
    "statements": (),
    "tables": (),
    "tiny_requests": TinyRequests(calls_s=1.0, calls_share=0.1, time_share=0.1, mean_ms=0.1, calls=20),
}
OF_LOAD = (
    "background-writer",
    "buffer-cache-small",
    "device-queueing",
    "full-page-burst",
    "hot-tables",
    "max-wal-size",
    "shared-processors",
    "statements-first",
    "swapping",
    "tiny-requests",
    "work-mem",
    "write-bursts",
)


@pytest.mark.requirement("R-ADV-11")
@pytest.mark.parametrize("idle", [NoLoad("no transaction ended"), LittleLoad("nearly idle")])
def test_what_an_idle_window_does_not_show_is_unknown_and_under_load_in_order(idle: NoLoad) -> None:
    host = make_host()
    host = replace(host, processor=replace(host.processor, shared=Unknown("no hypervisor was asked")))

    def answers(workload: WorkloadClass | NoLoad) -> dict[str, tuple[Answer, bool]]:
        findings = advise(make_case(host).inventory, Evidence(workload=workload, **SEEN), shipped_rules())
        return {one.rule: (one.answer, idle.reason in one.reason) for one in findings if one.rule in OF_LOAD}

    assert answers(idle) == dict.fromkeys(OF_LOAD, (Answer.UNKNOWN, True))
    assert answers(WorkloadClass.OLTP) == dict.fromkeys(OF_LOAD, (Answer.OK, False))
