"""Stored recordings: a drive's content at a crash point without its driver; how recordings are stored and found."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from lab.errors import SpecError
from lab.faults.campaign import HistoryOutcome, repeated, replayed
from lab.faults.crash_points import (
    DriveImages,
    DriveRecording,
    find_configuration,
    find_recording,
    recording_of,
    store_recording,
)
from lab.faults.guest.ledger import DISCARD, DRIVE_WRITE, MARK, RECORD, cut_of
from lab.faults.guest.player import DriveStates, accept_discards
from lab.faults.history import PlannedStep, Purpose, generated
from lab.faults.judge import HistoryDifference
from lab.machine import Host

# Writes of one letter: start, end, sector, place of the data, sectors, drive, kind, flags.
LINES = [
    (1, 2, 0, 0, 2, 0, DRIVE_WRITE, 0),
    (3, 3, 0, 0, 7, 0, MARK, 0),
    (4, 6, 1, 1024, 2, 0, DRIVE_WRITE, 0),
    (5, 7, 0, 2048, 1, 1, DRIVE_WRITE, 0),
    (8, 9, 0, 2560, 1, 0, DISCARD, 0),
]
ENCODED = b"".join(RECORD.pack(*line) for line in LINES)
DATA = b"a" * 1024 + b"b" * 1024 + b"c" * 512
IMAGES = DriveImages(data=gzip.compress(DATA), bases={"0": gzip.compress(b"." * 2048), "1": gzip.compress(b"," * 2048)})


def letters(image: bytes) -> str:
    """The first byte of each sector, with 0 for a zero."""
    return "".join(chr(image[at]) if image[at] else "0" for at in range(0, len(image), 512))


@pytest.mark.parametrize(
    ("drive", "words", "seen"),
    [
        (0, "", "...."),
        (0, "0", "aa.."),
        (0, "0-2", "abb."),
        (0, "2:1-1", "..b."),
        (0, "0-4", "0bb."),
        (0, "2 0", "aab."),
        (1, "0-4", "c,,,"),
    ],
)
def test_a_drive_holds_its_base_and_the_listed_requests(drive: int, words: str, seen: str) -> None:
    assert letters(DriveStates(IMAGES.job(ENCODED)).of(drive, words)) == seen


def test_a_recording_is_found_by_its_id_and_is_the_same() -> None:
    host, configuration = Host.real("tests"), find_configuration("raid5/ppl/idle/mixed")
    recording = DriveRecording(configuration, "3", [["write", 1, 0, 1, 0]], ENCODED, IMAGES)
    kept = store_recording(host, "qemu:", recording, ["7:0=2"])
    found = find_recording(host, kept.id)
    assert (found, recording_of(found)) == (kept, recording)
    recording.require(cut_of("7:0=2"))
    with pytest.raises(SpecError, match="no open write 9"):
        recording.require(cut_of("7:0=9"))
    with pytest.raises(SpecError, match="'other'"):
        find_recording(host, "other")


@pytest.mark.parametrize(
    ("kind", "times", "words"),
    [
        ("", 2, "confirmed with 2 CPUs on Linux 7.2: 1 of 1 run; 1 more run did not reach the history"),
        ("machine lost", 2, "confirmed with 2 CPUs on Linux 7.2: 1 of 1 run; 1 more run did not reach the history"),
        ("unreadable", 2, "not seen in 1 run with 2 CPUs on Linux 7.2; 1 more run did not reach the history"),
        ("machine lost", 1, "the history was never reached in 1 run with 2 CPUs on Linux 7.2"),
    ],
)
def test_a_machine_that_is_lost_before_the_history_begins_does_not_count(
    kind: str, times: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier, history = generated(1), generated(2)
    lost = HistoryOutcome(earlier, (HistoryDifference("machine lost", 1, "after a write"),), Counter(), is_over=True)
    batches = [[lost], [HistoryOutcome(earlier, (), Counter()), replace(lost, history=history)]]
    monkeypatch.setattr("lab.faults.campaign.play", lambda place, histories, **more: batches.pop(0))
    arena = MagicMock()
    arena.opened().__enter__().lab.machine.facts = SimpleNamespace(cpu_count=2, kernel_release="7.2")
    repeats = repeated(arena, history, times, [earlier])
    assert [outcome.history for outcome in repeats.outcomes] == [history] * times
    assert repeats.verdict(kind) == words


def test_what_ends_the_machine_before_a_history_is_no_difference_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier, history = generated(1), generated(2)
    documents = ((PlannedStep(["run", ["sync"]], 1, Purpose.TOOL), {"log": ["the last words"]}),)
    differences = (HistoryDifference("machine lost", 1, "after a write"),)
    lost = HistoryOutcome(earlier, differences, Counter(), documents=documents, is_over=True)
    monkeypatch.setattr("lab.faults.campaign.play", lambda *_, **__: [lost])
    outcome = replayed(MagicMock(), history, [earlier])
    assert (outcome.history, outcome.kinds, outcome.is_reached) == (history, frozenset(), False)
    assert outcome.documents == documents


@pytest.mark.parametrize(
    ("most", "granule", "accepts", "left"),
    [
        ("0", "4096", True, "8192"),
        ("4096", "4096", True, "4096"),
        # Values that Linux 7.2 shows for a device with discards disabled.
        ("0", "0", False, "0"),
    ],
)
def test_discards_are_switched_on_again_where_the_kernel_lets_them(
    most: str, granule: str, accepts: bool, left: str, tmp_path: Path
) -> None:
    for name, text in (("max_bytes", most), ("max_hw_bytes", "8704"), ("granularity", granule)):
        (tmp_path / f"discard_{name}").write_text(f"{text}\n")
    assert accept_discards(str(tmp_path)) is accepts
    assert (tmp_path / "discard_max_bytes").read_text().split()[0] == left
