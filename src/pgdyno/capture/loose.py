"""Names of loose outputs that people make by hand, and the key that each one stands for."""

from __future__ import annotations

from collections.abc import Mapping

LOOSE_FILES: Mapping[str, str] = {
    "cpuinfo": "proc/cpuinfo",
    "meminfo": "proc/meminfo",
    "swaps": "proc/swaps",
    "sysinfo": "proc/sysinfo",
    "cmdline": "proc/cmdline",
    "mountinfo": "proc/self/mountinfo",
    "thp": "sys/kernel/mm/transparent_hugepage/enabled",
    "thp_enabled": "sys/kernel/mm/transparent_hugepage/enabled",
    "thp_defrag": "sys/kernel/mm/transparent_hugepage/defrag",
    "os_release": "etc/os-release",
    "os-release": "etc/os-release",
    "lscpu": "commands/lscpu.txt",
    "lscpu_extended": "commands/lscpu_extended.txt",
    "lscpu_e": "commands/lscpu_extended.txt",
    "uname": "commands/uname.txt",
    "uname_a": "commands/uname.txt",
    "sysctl": "commands/sysctl.txt",
    "sysctl_a": "commands/sysctl.txt",
    "hugepages": "commands/hugepages.txt",
    "auxv_pagesize": "commands/auxv_pagesize.txt",
    "pagesize": "commands/getconf_pagesize.txt",
    "getconf_pagesize": "commands/getconf_pagesize.txt",
    "ppc64_cpu_smt": "commands/ppc64_cpu_smt.txt",
    "nr_hugepages_write": "commands/nr_hugepages_write.txt",
    "migration_cost": "commands/migration_cost.txt",
    "sched_debugfs": "commands/sched_debugfs.txt",
    "sysctl_migration": "commands/sysctl_migration.txt",
    "lsblk_o": "commands/lsblk.json",
    "lsblk_json": "commands/lsblk.json",
    "lsblk": "commands/lsblk.txt",
    "block": "commands/block.txt",
    "lvs_json": "commands/lvs.json",
    "lvs": "commands/lvs.json",
    "vgs_json": "commands/vgs.json",
    "pvs_json": "commands/pvs.json",
    "lscss": "commands/lscss.txt",
    "lsdasd": "commands/lsdasd.txt",
    "lszfcp": "commands/lszfcp.txt",
    "lsscsi": "commands/lsscsi.txt",
    "multipath": "commands/multipath.txt",
    "tuned_adm": "commands/tuned_adm.txt",
    "settings": "postgres/settings.json",
    "pg_settings": "postgres/settings.json",
}
"""By file name without `.txt`, `.json` or `.csv`, in lower case. `lvs` is meant as `--reportformat json`."""
_ENDINGS = (".txt", ".json", ".csv", ".out")


def key_of_loose_file(name: str) -> str | None:
    """Return the key of a loose file, None when its name says nothing to us."""
    stem = name.lower()
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    if stem == "postgresql.conf":
        return "postgres/postgresql.conf"
    return LOOSE_FILES.get(stem)
