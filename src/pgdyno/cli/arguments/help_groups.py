"""The help of a verb with many flags: in groups, those of the verb alone first."""

from __future__ import annotations

from collections.abc import Mapping

import click

GROUPS: Mapping[str, tuple[str, ...]] = {
    "The server": (
        "target", "restart_command", "patroni", "patroni_auth", "patroni_ca", "patroni_cert", "sql_only", "sandbox",
        "sandbox_bin", "sandbox_memory", "keep",
    ),
    "A server on another host": ("host", "sudo_user", "sudo"),
    "The load": (
        "workload", "params", "scripts", "init", "clients", "jobs", "protocol", "rate", "connect_each", "warmup",
        "measure", "reset", "load_seed",
    ),
    "What counts as disturbed": ("foreign_cpu", "steal", "foreign_disk", "foreign_sessions"),
    "Guards and watchdog": ("guards", "guard_trips", "watchdog_deadline"),
    "The run and what it prints": ("report", "resume", "yes", "as_json", "store_url"),
}  # fmt: skip
"""Flags that verbs share, by the names of their parameters."""
FEW = 25
"""Help of no more flags than these needs no groups."""


class GroupedCommand(click.Command):
    """A command whose help is in groups; a flag that no group has is the verb's own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags of the verb, then those that it shares with others."""
        for title, rows in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the rows of help below their titles."""
        records = {
            param.name: record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
        }
        if len(records) <= FEW:
            return {"Options": list(records.values())}
        help_option = self.get_help_option(ctx)
        last = () if help_option is None else (help_option.name,)
        shared = {*last} | {name for names in GROUPS.values() for name in names}
        own = {f"Options of {ctx.info_name}": [name for name in records if name not in shared]}
        found = {
            title: [records[name] for name in names if name in records]
            for title, names in {**own, **GROUPS, "Help": last}.items()
        }
        return {title: rows for title, rows in found.items() if rows}
