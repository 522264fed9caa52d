"""A command line that cannot be read is answered with what can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.main import run
from lab.errors import ExitCode


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("results list", "results needs no list", "write: raidlab results"),
        ("disks ls", "disks needs no ls", "write: raidlab disks"),
        ("workloads list", "workloads needs no list", "write: raidlab workloads"),
        ("reslts", "there is no command 'raidlab reslts'", "did you mean 'raidlab results'?"),
        ("array shwo", "there is no command 'raidlab array shwo'", "did you mean 'raidlab array show'?"),
        ("drill lst", "there is no command 'raidlab drill lst'", "did you mean 'raidlab drill list'?"),
        ("results shwo latest", "there is no command 'raidlab results shwo'", "did you mean 'raidlab results show'?"),
        ("results show a b c", "'raidlab results show' takes no 'b', 'c'", "leave that out"),
        ("doctor now", "'raidlab doctor' takes no 'now'", "'raidlab doctor --help'"),
        ("lint --explan x", "Did you mean --explain", "'raidlab lint --help'"),
        ("xyzzy", "there is no command 'raidlab xyzzy'", "known: array"),
    ],
)
def test_the_next_step(
    line: str,
    message: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    assert run(line.split()) == ExitCode.USAGE
    said, _, following = capsys.readouterr().err.partition("\n  next: ")
    assert message in said
    assert hint in following
    assert "Unused Tokens" not in said
