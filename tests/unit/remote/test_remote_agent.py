"""The agent and its client, over real pipes: order, errors, silence, and the end of the line."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent_line import agent_line
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RollbackError, UsageError
from pgdyno.remote import agent, wire
from pgdyno.remote.client import AgentClient
from pgdyno.remote.dispatcher import Dispatcher
from pgdyno.remote.session import RemoteSession


def test_calls_are_answered_and_errors_are_raised_again(tmp_path: Path) -> None:
    with agent_line(tmp_path) as client:
        assert "hello" in client.first_words()
        assert client.call("sessions") == []
        with pytest.raises(UsageError, match="no server was opened") as caught:
            client.call("facts")
        assert (caught.value.hint or "").startswith("reworded")
        with pytest.raises(UsageError, match='"x" is not a session'):
            client.call("roll_back", {"id": "x"})
        with pytest.raises(ConnectError, match="cannot connect"):
            client.call("open", {"conninfo": f"host={tmp_path}"})


def test_a_fault_of_the_agent_is_words_and_not_its_end(tmp_path: Path) -> None:
    with agent_line(tmp_path) as client:
        client.first_words()
        with pytest.raises(EnvironmentUnsuitable, match="KeyError: 'no such call'"):
            client.call("no such call")
        with pytest.raises(EnvironmentUnsuitable, match="KeyError"):
            client.call("forget", {})
        assert client.call("sessions") == []
        assert "Traceback" in (tmp_path / "agent.log").read_text()


def test_what_the_agent_prints_is_not_taken_for_a_reply(tmp_path: Path) -> None:
    noisy = (
        "import sys; from pgdyno.remote import agent, dispatcher\n"
        "real = dispatcher.Dispatcher._abandoned\n"
        "dispatcher.Dispatcher._abandoned = lambda self: print('noise') or []\n"
        "print('Welcome to db1!', flush=True)\n"
        "sys.exit(agent.main())"
    )
    with agent_line(tmp_path, noisy) as client:
        assert "hello" in client.first_words()
        assert client.call("abandoned") == []


def test_threads_get_their_own_replies(tmp_path: Path) -> None:
    with agent_line(tmp_path) as client:
        client.first_words()
        failures: list[object] = []

        def ask(number: int) -> None:
            for _ in range(20):
                try:
                    client.call("roll_back", {"id": f"s{number}"})
                except UsageError as error:
                    if f'"s{number}"' not in error.message:
                        failures.append(error)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_a_program_that_is_no_agent(tmp_path: Path) -> None:
    with agent_line(tmp_path, "import sys; sys.stderr.write('no module'); sys.exit(1)") as client:
        with pytest.raises(ConnectError, match="did not start") as caught:
            client.first_words()
        assert caught.value.detail == "no module"


def test_a_line_that_is_cut_ends_every_call(tmp_path: Path) -> None:
    dying = (
        "import os, sys; from pgdyno.remote import agent, dispatcher\n"
        "dispatcher.Dispatcher._abandoned = lambda self: os._exit(9)\n"
        "sys.exit(agent.main())"
    )
    with agent_line(tmp_path, dying) as client:
        client.first_words()
        with pytest.raises(ConnectError, match="connection was lost"):
            client.call("abandoned")
        assert client.is_cut
        with pytest.raises(ConnectError, match="connection was lost"):
            client.call("sessions")


def test_a_reply_that_comes_too_late_is_dropped(tmp_path: Path) -> None:
    given_up = tmp_path / "given-up"
    slow = (
        "import sys, time; from pathlib import Path; from pgdyno.remote import agent, dispatcher\n"
        "def abandoned(self):\n"
        "    until = time.monotonic() + 60\n"
        f"    while not Path({str(given_up)!r}).exists() and time.monotonic() < until:\n"
        "        time.sleep(0.01)\n"
        "    return ['late']\n"
        "dispatcher.Dispatcher._abandoned = abandoned\n"
        "sys.exit(agent.main())"
    )
    with agent_line(tmp_path, slow) as client:
        client.first_words()
        with pytest.raises(ConnectError, match="did not answer within"):
            client.call("abandoned", timeout_s=0.05)
        given_up.touch()
        assert client.call("sessions") == []


def close(read: int, *write: int) -> None:
    """Close a pipe once nobody listens: else the listener of one test reads what the next test sends by its number."""
    for end in write:
        os.close(end)
    for thread in threading.enumerate():
        if thread.name == "pgdyno-listener":
            thread.join(60)
    os.close(read)


def test_an_agent_ends_when_the_line_is_closed() -> None:
    read, write = os.pipe()
    os.write(write, wire.to_line({"id": 1, "call": "rollback"}) + b"{}\n\n" + b'{"id": 2')
    os.close(write)
    replies: list[bytes] = []
    assert agent.serve(Dispatcher(), read, replies.append) == "the connection was closed"
    close(read)
    (reply,) = map(wire.from_line, replies)
    assert reply["id"] == 1
    assert "no session" in str(reply["error"])


def test_an_agent_ends_when_nothing_is_heard() -> None:
    read, write = os.pipe()
    assert "has not responded" in agent.serve(Dispatcher(), read, lambda _: None, silence_s=0.2)
    close(read, write)


def test_an_agent_ends_when_nobody_takes_its_replies() -> None:
    read, write = os.pipe()
    os.write(write, b"not json\n")

    def refuse(_: bytes) -> None:
        raise BrokenPipeError

    assert agent.serve(Dispatcher(), read, refuse) == "the connection was cut"
    close(read, write)


def test_root_by_sudo_takes_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1000")
    with pytest.raises(UsageError, match="restart-command"):
        Dispatcher().calls["open"]({"conninfo": "", "restart_command": ["systemctl", "restart", "pg"]})


def test_a_session_whose_host_is_out_of_reach_does_not_call_itself_restored(tmp_path: Path) -> None:
    def unreachable() -> AgentClient:
        raise ConnectError("cannot reach ssh://db1")

    with agent_line(tmp_path, "pass") as client:
        with pytest.raises(ConnectError):
            client.first_words()
        session = RemoteSession("s1", client, unreachable)
        with pytest.raises(RollbackError, match="session s1") as caught:
            session.__exit__(None, None, None)
    assert "cannot reach" in (caught.value.detail or "")
    assert "pgdyno rollback s1" in (caught.value.hint or "")
