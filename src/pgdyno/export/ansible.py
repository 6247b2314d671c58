"""Playbooks for Ansible: one sets parameters and sysctls and restarts the server if need be, one takes it all back.

Parameters go by ALTER SYSTEM: through community.postgresql.postgresql_set, and as a statement where that module would
write another value than the one that is meant (lists of names, quotes).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.linux_items import is_sysctl, pool_notes, sysctls_of
from pgdyno.export.quoting import alter_system_reset, alter_system_set, yaml_scalar
from pgdyno.export.sysctl import NAME as SYSCTL_FILE
from pgdyno.model.finding import Change, ChangeKind

NAME, UNDO = "pgdyno-advice.ansible.yaml", "pgdyno-advice.ansible.undo.yaml"
_KINDS = (ChangeKind.POSTGRESQL, ChangeKind.LINUX)
_PLAIN = re.compile(r"[A-Za-z0-9_.:/ %+-]+")
_RELOAD, _RESTART = "Read the configuration again", "Restart PostgreSQL"
_HOW = (
    "Run it: ansible-playbook -e pgdyno_hosts=DB1 FILE. It needs the collections community.postgresql, ansible.posix",
    "and on the host psycopg. -e pgdyno_restart=false leaves the restart to you; the other variables are below.",
)

Task = Sequence[str]
"""The lines of a task, the first without its dash."""


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the playbook and the one that undoes it; nothing where neither parameters nor sysctls change."""
    items, sysctls = advice.of(ChangeKind.POSTGRESQL), sysctls_of(advice)
    if not items and not sysctls.written:
        return {}
    tasks = [_sysctl(name, value) for name, value in sysctls.written.items()]
    tasks += [_set(item.change.knob, item.change.value, advice.late) for item in items]
    path = f"/etc/sysctl.d/{SYSCTL_FILE}"
    back = [_task(f"Remove {path}", "ansible.builtin.file", path=path, state="absent")] if sysctls.written else []
    back += [_sysctl_now(name, value) for name, value in sysctls.undo.items() if value is not None]
    back += [_back(advice, item.change.knob) for item in items]
    lost = [f"{name} is not known as it was found" for name, value in sysctls.undo.items() if value is None]
    notes = [*advice.restarts(), *pool_notes(sysctls), *_HOW]
    head = advice.head("playbook of Ansible", _KINDS, about=_is_here) + comment(notes)
    undo = advice.head("undo of the playbook of Ansible", _KINDS, about=_is_here) + comment([*notes, *lost])
    port, socket = (
        advice.settings[name].setting.partition(",")[0].strip() if name in advice.settings else otherwise
        for name, otherwise in (("port", "5432"), ("unix_socket_directories", ""))
    )
    return {
        NAME: head + _play("Apply what pgdyno advises", tasks, port, socket),
        UNDO: undo + _play("Take back what pgdyno advised", back, port, socket),
    }


def _is_here(change: Change) -> bool:
    return change.kind is ChangeKind.POSTGRESQL or is_sysctl(change)


def _set(name: str, value: str, late: Sequence[str]) -> Task:
    if _PLAIN.fullmatch(value) is None or value.lower() in ("default", "true", "false"):
        return _statement(f"Set {name}", alter_system_set(name, value), name, late)
    return _module(f"Set {name} to {value}", name, value, late)


def _back(advice: ExportedAdvice, name: str) -> Task:
    """Return the task that brings a parameter back: as it stood in postgresql.auto.conf, else without a line there."""
    found = advice.found(name)
    unseen = found.in_auto_conf is None and not found.is_default and not found.overridden_by
    if found.text is not None and (found.in_auto_conf or unseen):
        return _set(name, found.text, advice.late)
    return _statement(f"Reset {name}", alter_system_reset(name), name, advice.late)


def _module(title: str, name: str, value: str, late: Sequence[str]) -> Task:
    task = _task(title, "community.postgresql.postgresql_set", name=name, value=value, **_LOGIN)
    return [*task, *_as_owner(name in late, reloads=True)]


def _statement(title: str, query: str, name: str, late: Sequence[str]) -> Task:
    task = _task(title, "community.postgresql.postgresql_query", query=query, autocommit=True, **_LOGIN)
    return [*task, "changed_when: true", *_as_owner(name in late, reloads=False)]


_LOGIN = {"login_db": "postgres", "login_port": "{{ pgdyno_port }}", "login_unix_socket": "{{ pgdyno_socket }}"}


def _as_owner(restarts: bool, *, reloads: bool) -> Task:
    notified = _RESTART if restarts else "" if reloads else _RELOAD
    owner = ["become_user: " + yaml_scalar("{{ pgdyno_owner }}")]
    return [*owner, f"notify: {yaml_scalar(notified)}"] if notified else owner


def _sysctl(name: str, value: str) -> Task:
    path = f"/etc/sysctl.d/{SYSCTL_FILE}"
    return _task(
        f"Set {name} to {value}", "ansible.posix.sysctl", name=name, value=value, sysctl_file=path, sysctl_set=True
    )


def _sysctl_now(name: str, value: str) -> Task:
    title = f"Set {name} to {value} as it was found"
    lines = [f"name: {yaml_scalar(title)}", "ansible.builtin.command:", "  argv: "]
    lines[-1] += f"[sysctl, -w, {_scalar(f'{name}={value}')}]"
    return [*lines, "changed_when: true"]


def _task(title: str, module: str, **options: str | bool) -> Task:
    values = {
        name: str(value).lower() if isinstance(value, bool) else _scalar(value) for name, value in options.items()
    }
    return [f"name: {yaml_scalar(title)}", f"{module}:", *(f"  {name}: {value}" for name, value in values.items())]


def _scalar(value: str) -> str:
    """Write a value; what looks like a template to Ansible, as `{%p}` of log_line_prefix, is marked as none."""
    is_template = "{" in value and value not in _LOGIN.values()
    return f"!unsafe {yaml_scalar(value)}" if is_template else yaml_scalar(value)


def _play(title: str, tasks: Sequence[Task], port: str, socket: str) -> str:
    reload = _task(_RELOAD, "community.postgresql.postgresql_query", query="SELECT pg_reload_conf()", **_LOGIN)
    restart = _task(_RESTART, "ansible.builtin.service", name="{{ pgdyno_service }}", state="restarted")
    restart = [line.replace("!unsafe ", "") for line in restart]
    handlers = [[*reload, *_as_owner(False, reloads=True)], [*restart, "when: pgdyno_restart | bool"]]
    lines = [
        f"- name: {yaml_scalar(title)}",
        '  hosts: "{{ pgdyno_hosts }}"',
        "  become: true",
        "  gather_facts: false",
        "  vars:",
        '    pgdyno_owner: "postgres"',
        f"    pgdyno_port: {yaml_scalar(port)}",
        f"    pgdyno_socket: {yaml_scalar(socket)}",
        '    pgdyno_service: "postgresql"',
        "    pgdyno_restart: true",
        "  tasks:",
        *_listed(tasks),
        "  handlers:",
        *_listed(handlers),
    ]
    return "".join(f"{line}\n" for line in lines)


def _listed(tasks: Sequence[Task]) -> list[str]:
    return [f"    {'- ' if number == 0 else '  '}{line}" for task in tasks for number, line in enumerate(task)]
