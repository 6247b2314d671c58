"""Findings and machines for the tests of exports."""

from __future__ import annotations

from advisor_case import make_host, make_server
from pgdyno.model.finding import Answer, Change, ChangeKind, Depth, Finding, RuleGroup
from pgdyno.model.inventory import BlockDevice, Inventory, LogicalVolume, Place, Purpose

PG, LINUX, BLOCK = ChangeKind.POSTGRESQL, ChangeKind.LINUX, ChangeKind.BLOCK
SYSCTLS = {"vm.dirty_bytes": "0", "vm.dirty_ratio": "20", "vm.swappiness": "60", "vm.nr_hugepages": "0"}


def finding(*changes, rule="a-rule", title="It is too small", **fields):
    values = {"answer": Answer.FINDING, "group": RuleGroup.THROUGHPUT, "depth": Depth.BASIC, "title": title}
    return Finding(rule=rule, changes=changes, **{**values, **fields})


def pg(knob, value, current=None):
    return Change(PG, knob, value, current)


def sysctl(knob, value, current=None):
    return Change(LINUX, knob, value, current)


def inventory(*, host=None, server=None):
    return Inventory(host or make_host(sysctls=SYSCTLS), server or make_server(), taken_at="2026-01-31T10:00:00Z")


def settings_in(text):
    return [line for line in text.split("\n") if line and not line.startswith(("#", "--"))]


def with_volume():
    return make_host(
        sysctls=SYSCTLS,
        devices=(
            BlockDevice("sda", "disk", scheduler="bfq", read_ahead_kb=128),
            BlockDevice("dm-0", "lvm", ("sda",), read_ahead_kb=512),
        ),
        volumes=(LogicalVolume("vg-db", "data", read_ahead="auto", effective_read_ahead_kb=512),),
        places=(Place(Purpose.DATA, "/data", stack=("dm-0", "sda"), disks=frozenset({"sda"})),),
    )
