"""The kernel's lists of mounts and cgroups, as they are and as nobody expects them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.linux.cgroups import CgroupTree, cgroup_trees, path_of
from pgdyno.linux.mountinfo import MountLine, mount_lines, unescaped

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def escaped(name: str) -> str:
    """Write a name as the kernel does: white space, backslash and # in octal (seq_escape)."""
    return "".join(f"\\{ord(letter):03o}" if letter in " \t\n\\#" else letter for letter in name)


@given(shown=NAMES, point=NAMES, source=NAMES)
def test_any_name_comes_back_from_its_line(shown: str, point: str, source: str) -> None:
    shown, point = f"/{shown}", f"/{point}"  # as the kernel gives them: a point called "-" would be the line's own mark
    part, place, device = (escaped(name) for name in (shown, point, source))
    line = f"36 35 98:0 {part} {place} rw,noatime master:1 - ext3 {device} rw,errors=continue\n"
    found = MountLine(shown, point, ("rw", "noatime"), "ext3", source, ("rw", "errors=continue"))
    assert mount_lines(line) == (found,)


@given(st.text(st.sampled_from("ab -\n"), max_size=60))
def test_a_line_that_is_none_is_left_out(text: str) -> None:
    for mount in mount_lines(text):
        assert mount.kind
        assert mount.point


def test_an_escape_is_of_three_octal_digits() -> None:
    assert unescaped(r"a\040b\134c\12x") == r"a b\c\12x"


def test_groups_are_found_in_what_a_tree_shows_and_not_outside_of_it() -> None:
    lines = (
        "1 0 0:1 /docker/a /c/mem rw - cgroup cgroup rw,memory\n"
        "2 0 0:2 / /c/one rw - cgroup2 none rw\n"
        "3 0 0:3 / /proc rw - proc proc rw\n"
    )
    memory, unified = cgroup_trees(lines)
    assert memory == CgroupTree(1, Path("/c/mem"), "/docker/a", frozenset({"rw", "memory"}))
    assert (memory.may_bound("memory"), memory.may_bound("cpu"), unified.may_bound("cpu")) == (True, False, True)
    text = "4:memory,hugetlb:/docker/a/b/c\n0::/x\n"
    group = memory.group_of(text, "memory")
    assert group == Path("/c/mem/b/c")
    assert memory.upwards(group) == [Path("/c/mem/b/c"), Path("/c/mem/b"), Path("/c/mem")]
    assert memory.group_of("4:memory:/elsewhere\n", "memory") is None
    assert memory.group_of("", "memory") == Path("/c/mem")
    assert memory.group_of("4:memory:/docker/a/..b\n", "memory") == Path("/c/mem/..b"), "a name may begin with dots"
    assert unified.group_of(text, "memory") == Path("/c/one/x")
    assert path_of(text, "hugetlb") == "/docker/a/b/c"
    assert path_of(text, "pids") is None


def test_the_name_of_a_group_is_no_line_of_its_own() -> None:
    for end in ("\x0b", "\x85", "\u2028"):
        text = f"12:pids:/user/x{end}4:cpu:/victim\n4:cpu,cpuacct:/server\n0::/a{end}b\n"
        assert path_of(text, "cpu") == "/server"
        assert path_of(text, "") == f"/a{end}b"
