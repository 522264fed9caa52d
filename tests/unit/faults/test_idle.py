"""When md counts as idle: at once if no sync is due, otherwise only after several seconds."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lab.faults.guest import arrays, player
from lab.faults.guest.arrays import DUE_SECONDS, wait_idle

CLEAN = {
    "array_state": "clean",
    "sync_action": "idle",
    "degraded": "0",
    "resync_start": "none",
    "reshape_position": "none",
    "dev-sda/state": "in_sync",
    "dev-sdb/state": "in_sync",
}


def folder_of(tmp_path: Path, **changes: str) -> str:
    for name, text in {**CLEAN, **{name.replace("__", "/"): text for name, text in changes.items()}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return str(tmp_path)


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The length of each pause in seconds; the pauses take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(arrays, "pause", pauses.append)
    return pauses


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resync_start": "0", "array_state": "read-auto"},
        {"resync_start": "0", "array_state": "readonly"},
        {"degraded": "1", "dev-sdb__state": "faulty"},
        {"dev-sdb__state": "spare"},
    ],
)
def test_without_a_sync_that_is_due_three_readings_suffice(
    tmp_path: Path, waited: list[float], changes: dict[str, str]
) -> None:
    assert wait_idle(folder_of(tmp_path, **changes), 600.0)
    assert len(waited) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"resync_start": "0"},
        {"reshape_position": "6784"},
        {"degraded": "1", "dev-sdb__state": "spare"},
        {"dev-sda__state": "in_sync,want_replacement"},
    ],
)
def test_a_sync_that_is_due_but_never_starts_is_given_some_seconds(
    tmp_path: Path, waited: list[float], changes: dict[str, str]
) -> None:
    assert wait_idle(folder_of(tmp_path, **changes), 600.0)
    assert DUE_SECONDS <= sum(waited) < DUE_SECONDS + 1


def test_a_resync_that_starts_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy computer: idle for two seconds after the start, then a resync of three seconds."""
    seconds = 0.0

    def pause(more: float) -> None:
        nonlocal seconds
        seconds += more
        (tmp_path / "sync_action").write_text("resync\n" if 2 <= seconds < 5 else "idle\n")
        (tmp_path / "resync_start").write_text("none\n" if seconds >= 5 else "0\n")

    folder_of(tmp_path, resync_start="0")
    monkeypatch.setattr(arrays, "pause", pause)
    assert wait_idle(str(tmp_path), 600.0)
    assert 5 < seconds < 7


def test_an_array_that_stays_busy_is_not_idle(tmp_path: Path, waited: list[float]) -> None:
    assert not wait_idle(folder_of(tmp_path, sync_action="resync"), 10.0)
    assert sum(waited) >= 10


def growing(limit: float, first: float, factor: float, most: float) -> list[float]:
    """The pauses of a wait that lasts for ``limit`` seconds, added one by one as on the machine."""
    found, total, step = [], 0.0, first
    while total < limit:
        found.append(step)
        total += step
        step = min(step * factor, most)
    return found


@pytest.mark.parametrize(
    ("content", "words", "least", "ends"),
    [
        ("1", ["0"], None, False),
        ("0", ["0"], None, True),
        ("recover", ["idle", "recover"], None, True),
        ("799", [], 800, False),
        ("1024 / 2048", [], 800, True),
        ("none", [], 800, False),
        ("none", ["none"], 800, True),
    ],
)
def test_until_ends_with_one_of_the_words_or_with_a_number_that_is_large_enough(
    content: str, words: list[str], least: int | None, ends: bool, tmp_path: Path, waited: list[float]
) -> None:
    (tmp_path / "attribute").write_text(content)
    found = player.Player.do_until(player.Player.__new__(player.Player), f"{tmp_path}/attribute", words, 1.0, least)
    assert found == ({"text": content} if ends else {"text": content, "late": True})
    assert bool(waited) is not ends


def test_the_pauses_of_each_wait_are_fixed(
    tmp_path: Path, waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histories in virtual time are repeated exactly only if the length of every pause is fixed."""

    def taken() -> list[float]:
        found = waited.copy()
        waited.clear()
        return found

    folder = folder_of(tmp_path, sync_action="resync")
    assert not wait_idle(folder, 120.0)
    assert taken() == growing(120.0, 0.005, 1.3, 0.25)
    found = player.Player.do_until(player.Player.__new__(player.Player), f"{folder}/sync_action", ["idle"], 60.0)
    assert found == {"text": "resync", "late": True}
    assert taken() == growing(60.0, 0.002, 1.2, 0.05)
    killed: list[int] = []
    monkeypatch.setattr(os, "posix_spawnp", lambda *_, **__: 4711)
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
    assert player.command(["a-program"], 30.0) == {"status": None, "output": ""}
    assert killed == [4711]
    assert taken() == growing(30.0, 0.002, 1.2, 0.1)


def test_a_call_is_repeated_only_while_its_error_may_pass(waited: list[float]) -> None:
    errors = [errno.EIO, errno.EBUSY, errno.EBUSY]

    def act() -> str:
        if errors:
            raise OSError(errors.pop(), "refused")
        return "done"

    with pytest.raises(OSError, match="refused") as failure:
        arrays.retried(act, errno.EBUSY, 1.0, 0.25)
    assert failure.value.errno == errno.EIO
    assert waited == [0.25, 0.25]
    assert arrays.retried(act, errno.EBUSY, 1.0, 0.25) == "done"
    errors += [errno.EBUSY] * 9
    with pytest.raises(OSError, match="refused"):
        arrays.retried(act, errno.EBUSY, 1.0, 0.25)
    assert waited == [0.25] * 6
