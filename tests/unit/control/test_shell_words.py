"""A restart command that was written for a shell: what it starts is an argument list, or is refused with one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.control.shell_words import restart_argv
from pgdyno.errors import UsageError

PG_CTL = ("pg_ctl", "restart", "-D", "/var/lib/pgsql/data")


@pytest.mark.requirement("R-TUN-02")
@pytest.mark.parametrize(
    "text",
    [
        'su postgres <<<"pg_ctl restart -D /var/lib/pgsql/data"',
        "su - postgres <<< 'pg_ctl restart -D /var/lib/pgsql/data'",
        'su postgres -c "pg_ctl restart -D /var/lib/pgsql/data"',
        "su -c 'pg_ctl restart -D /var/lib/pgsql/data' - postgres",
        'su -s /bin/sh postgres --command "pg_ctl restart -D /var/lib/pgsql/data"',
        "sudo -u postgres pg_ctl restart -D /var/lib/pgsql/data",
        "sudo -n --user=postgres -- pg_ctl restart -D /var/lib/pgsql/data",
        'sudo su - postgres -c "pg_ctl restart -D /var/lib/pgsql/data"',
        "runuser -u postgres -- pg_ctl restart -D /var/lib/pgsql/data",
        "sudo -iu postgres pg_ctl restart -D /var/lib/pgsql/data",
        "sudo -nHupostgres pg_ctl restart -D /var/lib/pgsql/data",
        "sudo -u postgres bash -lc 'pg_ctl restart -D /var/lib/pgsql/data'",
        "/bin/sh -c 'sudo -u postgres pg_ctl restart -D /var/lib/pgsql/data'",
        "sudo -u postgres sh -c 'pg_ctl restart -D \"/var/lib/pgsql/data\"'",
    ],
)
def test_usual_forms_run_the_program_as_that_user(text):
    assert restart_argv(text, is_root=True) == ("runuser", "-u", "postgres", "--", *PG_CTL)
    assert restart_argv(text, is_root=False) == ("sudo", "-n", "-u", "postgres", "--", *PG_CTL)


@pytest.mark.parametrize(
    ("text", "root", "other"),
    [
        ("systemctl restart pg", ("systemctl", "restart", "pg"), ("systemctl", "restart", "pg")),
        (
            "sudo service postgresql restart",
            ("service", "postgresql", "restart"),
            ("sudo", "-n", "-u", "root", "--", "service", "postgresql", "restart"),
        ),
        ("bash -c 'systemctl restart pg'", ("systemctl", "restart", "pg"), ("systemctl", "restart", "pg")),
    ],
)  # fmt: skip
def test_what_needs_no_other_user_is_run_as_it_is(text, root, other):
    assert restart_argv(text, is_root=True) == root
    assert restart_argv(text, is_root=False) == other


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('su postgres -c "cd / && pg_ctl restart -D /d"', "&"),
        ("pg_ctl restart -D $PGDATA", r"\$"),
        ('su postgres -c "pg_ctl restart -D $PGDATA"', r"\$"),
        ("systemctl restart pg | tee log", r"\|"),
        ("systemctl restart pg > log", ">"),
        ("pg_ctl restart -D ~/data", "~"),
        ("pg_ctl restart -D /d `id`", "`"),
        ("PGDATA=/d pg_ctl restart", "it sets PGDATA"),
        ("a\nb", "several lines"),
        ("su postgres <<EOF\npg_ctl restart\nEOF", "<"),
        ("su postgres", "open a session"),
        ("su postgres -c id extra", "after the command"),
        ("sudo -x y", "not understood"),
        ("su 'a;b' -c id", "no name of a user"),
        ("su postgres <<< pg_ctl restart", "one word"),
        ("cat <<< x", "behind su USER"),
        ("bash -o pipefail -c 'pg_ctl restart'", "only -c with one command"),
        ("/bin/bash -c 'pg_ctl restart' and more", "only -c with one command"),
        ('"open', "[Nn]o closing quotation"),
        ("", "no command"),
    ],
)
@pytest.mark.parametrize("is_root", [True, False])
def test_what_needs_a_shell_is_refused_with_what_to_write(text, why, is_root):
    with pytest.raises(UsageError, match=why) as refused:
        restart_argv(text, is_root=is_root)
    assert "--restart-command '" in refused.value.hint


@pytest.mark.parametrize("chain", ["cd /tmp; pg_ctl restart -D /d", "pg_ctl restart -D /d && sleep 1; true"])
def test_the_command_of_a_chain_that_restarts_is_what_to_write(chain):
    with pytest.raises(UsageError) as refused:
        restart_argv(f'su postgres -c "{chain}"', is_root=True)
    assert "--restart-command 'runuser -u postgres -- pg_ctl restart -D /d'" in refused.value.hint


def test_a_chain_of_which_nothing_restarts_has_an_example():
    with pytest.raises(UsageError, match="needs a shell") as refused:
        restart_argv("cd /tmp; true", is_root=True)
    assert "--restart-command 'runuser -u postgres -- pg_ctl restart -D /var/lib/pgsql/data'" in refused.value.hint


@given(st.text(alphabet="su do-c<>&|;$'\"`ab/\n", max_size=30), st.booleans())
def test_no_text_becomes_a_shell(text, is_root):
    try:
        words = restart_argv(text, is_root=is_root)
    except UsageError:
        return
    assert words
    assert words[0] not in ("sh", "bash", "su")
