from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from lab.errors import LabError, MachineLost, PrivilegeRefused, ToolMissing
from lab.machine.attached import AGENT_FILE, _local_loss, _ssh_loss, remote_command, ssh_arguments
from lab.machine.target import parse_target


def test_ssh_never_asks_and_takes_the_targets_options() -> None:
    argv = ssh_arguments(parse_target("ssh:root@lab1?port=2222&identity=/k&known_hosts=/h&config=/c"))
    assert argv[-2:] == ["--", "root@lab1"]
    assert "BatchMode=yes" in argv
    for flag, value in (("-p", "2222"), ("-i", "/k"), ("-F", "/c"), ("-o", "UserKnownHostsFile=/h")):
        assert value in [follower for first, follower in pairwise(argv) if first == flag]
    assert "IdentitiesOnly=yes" in argv
    assert "IdentitiesOnly=yes" not in ssh_arguments(parse_target("ssh:lab1"))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_remote_command_runs_the_agent_it_is_sent(shell: str, tmp_path: Path) -> None:
    # A fake id, first in PATH, pretends that the user is root.
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "id").chmod(0o755)
    source = AGENT_FILE.read_bytes()
    request = b'{"id":1,"verb":"run","argv":["echo","hello"]}\n'
    done = subprocess.run(
        [shell, "-c", remote_command(len(source))],
        input=source + request + b'{"id":2,"verb":"list","paths":["/nowhere"]}\n',
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        timeout=20,
        check=True,
    )
    first, *messages = done.stdout.splitlines()
    assert first == b""
    answers = [json.loads(line) for line in messages]
    assert answers[0]["event"] == "hello"
    assert {"id": 2, "done": True, "names": {"/nowhere": []}} in answers


def test_a_source_that_is_cut_short_is_no_agent() -> None:
    line = remote_command(100).replace("sudo -n ", "")
    assert subprocess.run(["sh", "-c", line], input=b"x", capture_output=True, timeout=20, check=False).returncode == 1


@pytest.mark.parametrize(
    ("status", "said", "error", "message"),
    [
        (255, "me@lab1: Permission denied (publickey).", MachineLost, "does not let this user in"),
        (
            255,
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            MachineLost,
            "has changed",
        ),
        (255, "No ED25519 host key is known\nHost key verification failed.", MachineLost, "unknown host key"),
        (255, "ssh: connect to host lab1 port 22: Connection refused", MachineLost, "the connection to me@lab1 failed"),
        (127, "raidlab: python3 not found", ToolMissing, "python3"),
        (1, "raidlab: python3 here is older than 3.9", ToolMissing, "3.9 or later"),
        (1, "sudo: a password is required", PrivilegeRefused, "sudo on me@lab1 refused"),
        (1, "", MachineLost, "it said nothing"),
    ],
)
def test_what_ssh_says_becomes_an_error_with_a_hint(
    status: int, said: str, error: type[LabError], message: str
) -> None:
    loss = _ssh_loss("me@lab1", status, said)
    assert type(loss) is error
    assert message in loss.message
    assert loss.hint


def test_a_lost_virtual_machine_names_vagrants_command() -> None:
    assert "vagrant ssh raidlab" in _ssh_loss("vagrant:", 255, "No route to host", "vagrant ssh raidlab").hint


def test_what_sudo_says_becomes_an_error_with_a_hint() -> None:
    assert isinstance(_local_loss(1, "sudo: a password is required"), PrivilegeRefused)
    assert isinstance(_local_loss(-9, ""), MachineLost)
