"""The playbooks of `--emit ansible`: tasks that apply, and a playbook that takes every one of them back."""

from __future__ import annotations

import pytest
import yaml

from advisor_case import make_host, make_server
from pgdyno.export import emit
from pgdyno.model.finding import Answer, Change, ChangeKind, Depth, Finding, RuleGroup
from pgdyno.model.inventory import Inventory

SET, QUERY = "community.postgresql.postgresql_set", "community.postgresql.postgresql_query"


class Loader(yaml.SafeLoader):
    """Reads what Ansible reads: a value that is marked as no template stays a text."""


Loader.add_constructor("!unsafe", lambda loader, node: ("unsafe", loader.construct_scalar(node)))


def plays(*changes, **server):
    kinds = {name: ChangeKind.LINUX if name.startswith(("vm.", "kernel.")) else ChangeKind.POSTGRESQL
             for name, _ in changes}  # fmt: skip
    found = Finding("a-rule", Answer.FINDING, RuleGroup.GENERAL, Depth.BASIC, "It is so",
                    changes=tuple(Change(kinds[name], name, value) for name, value in changes))  # fmt: skip
    host = make_host(sysctls={"vm.swappiness": "60", "vm.dirty_bytes": "0", "vm.dirty_ratio": "20"})
    files = emit([found], Inventory(host, make_server(**server)), "ansible")
    return [yaml.load(text, Loader)[0] for text in files.values()]


def notified(task):
    return task.get("notify", "")


@pytest.mark.requirement("R-ADV-06")
def test_the_playbook_sets_each_value_and_restarts_only_for_what_needs_it():
    play, back = plays(("work_mem", "16MB"), ("effective_cache_size", "8GB"), ("shared_buffers", "1GB"),
                       ("vm.swappiness", "1"),
                       changed={"work_mem": "8192"})  # fmt: skip
    sysctl, memory, _, buffers = play["tasks"]
    assert sysctl["ansible.posix.sysctl"] == {
        "name": "vm.swappiness", "value": "1", "sysctl_file": "/etc/sysctl.d/90-pgdyno-advice.conf", "sysctl_set": True,
    }  # fmt: skip
    assert (memory[SET]["name"], memory[SET]["value"], notified(memory)) == ("work_mem", "16MB", "")
    assert (buffers[SET]["value"], notified(buffers)) == ("1GB", "Restart PostgreSQL")
    assert memory["become_user"] == "{{ pgdyno_owner }}"
    assert {one["name"] for one in play["handlers"]} == {"Restart PostgreSQL", "Read the configuration again"}
    assert play["hosts"] == "{{ pgdyno_hosts }}"  # never a host that nobody named
    undone = {str(task) for task in back["tasks"]}
    assert any("'state': 'absent'" in task for task in undone)
    assert any("vm.swappiness=60" in task for task in undone)
    assert any(
        "ALTER SYSTEM RESET effective_cache_size;" in task and "Read the configuration" in task for task in undone
    )
    assert any("shared_buffers" in task and "Restart PostgreSQL" in task for task in undone)


def test_of_two_counterparts_the_undo_sets_the_one_that_counted():
    _, back = plays(("vm.dirty_bytes", "1048576"))
    assert [task["ansible.builtin.command"]["argv"] for task in back["tasks"] if "ansible.builtin.command" in task] == [
        ["sysctl", "-w", "vm.dirty_ratio=20"]
    ]


def test_what_the_module_would_write_otherwise_is_a_statement():
    play, _ = plays(("shared_preload_libraries", "a, b"), ("log_line_prefix", "{%p} it's "))
    queries = {task[QUERY]["query"] if isinstance(task[QUERY]["query"], str) else task[QUERY]["query"][1]
               for task in play["tasks"]}  # fmt: skip
    assert "ALTER SYSTEM SET shared_preload_libraries = 'a', 'b';" in queries
    assert "ALTER SYSTEM SET log_line_prefix = '{%p} it''s ';" in queries
    (prefix,) = [task for task in play["tasks"] if "prefix" in task["name"]]
    assert prefix[QUERY]["query"][0] == "unsafe"  # else Ansible takes {% for a template
    assert notified(prefix) == "Read the configuration again"
