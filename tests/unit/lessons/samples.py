"""Lessons written for tests, and states of arrays for their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus, SyncAction
from lab.checks.state import CheckedState, PlayedFault
from lab.faults.crash_points import PointJudgement, StoredPoints
from lab.faults.scenario import FactCheck
from lab.faults.scenario_run import FaultVerdict, ScenarioOutcome, StepOutcome, VariantOutcome
from lab.measure.rebuild import DataVerdict
from lab.session.data_mark import LastVerdict

LESSON = """
format_version = 2
id = "01-first"
title = "First"
goal = "Build a {seed.level}."
minutes = 5
disks = 4

[seed]
level = { one_of = ["raid1", "raid5"] }
members = { case = "level", of = { raid1 = 2, raid5 = 3 } }
disks = { disks = "members" }
victim = { disk_from = "disks" }

[[steps]]
id = "build"
say = "Build `md0` of {seed.disks}."
do = [{ act = "array.create", level = "{seed.level}", disks = "{seed.disks}" }]
check = [{ that = "array.level", level = "{seed.level}" }, { that = "array.healthy" }]
hints = ["one", "two", "{by_hand}"]
explain = "Because."

[steps.ask]
question = "Faster?"
options = { yes = "yes", no = "no" }
answer = "yes"

[[steps.mistakes]]
id = "striped"
when = [{ that = "array.level", level = "raid0" }]
hint = "That is a RAID 0."

[[steps]]
id = "fail"
say = "Let {seed.victim} fail."
do = [{ act = "array.fail", disk = "{seed.victim}" }]
check = [{ that = "array.degraded", equals = 1 }, { that = "scrub.found" }]
hints = ["a", "b", "{by_hand}"]
explain = "So it is."

[[wrong]]
step = "build"
do = [{ act = "array.create", level = "raid0", disks = "{seed.disks}" }]
mistake = "striped"
"""

TRANSLATION = """
format_version = 2
id = "01-first"
language = "sv"
title = "Först"
goal = "Bygg en {seed.level}."

[steps.build]
say = "Bygg `md0` av {seed.disks}."
hints = ["ett", "två", "{by_hand}"]
explain = "Därför."
mistakes = { striped = "Det är en RAID 0." }

[steps.build.ask]
question = "Snabbare?"
options = { yes = "ja", no = "nej" }

[steps.fail]
say = "Låt {seed.victim} gå sönder."
hints = ["a", "b", "{by_hand}"]
explain = "Så är det."
"""


def write(folder: Path, text: str = LESSON, name: str = "01-first", **translations: str) -> Path:
    """Write a lesson file with its translations; return its path."""
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    for language, translated in translations.items():
        (folder / f"{name}.{language}.toml").write_text(translated, encoding="utf-8")
    return path


def member(device: str, slot: int | None, *flags: str) -> MemberStatus:
    return MemberStatus(device, slot, frozenset(flags or ("in_sync",)), 0, 2048, 62 << 10)


def array(level: str = "raid5", members: tuple[MemberStatus, ...] = (), **changes: Any) -> ArrayStatus:
    """The status of an array, by default with three members in sync; ``changes`` are other fields."""
    whole = ArrayStatus(
        name="md0",
        level=level,
        state=ArrayState.CLEAN,
        raid_disks=3,
        degraded_count=0,
        size_bytes=124 << 20,
        chunk_bytes=64 << 10,
        layout_number=2,
        component_size_kib=62 << 10,
        metadata_version="1.2",
        consistency_policy="resync",
        sync_action=SyncAction.IDLE,
        sync_progress=None,
        sync_speed_kib_per_second=None,
        mismatch_sectors=0,
        bitmap_location=None,
        reshape_position_sectors=None,
        resync_start_sectors=None,
        members=members or tuple(member(f"/dev/ubd{letter}", slot) for slot, letter in enumerate("abc")),
        holders=(),
    )
    return replace(whole, **changes)


def lab_state(*arrays: ArrayStatus, **more: object) -> CheckedState:
    """The lab with disks disk01 to disk04 behind /dev/ubda to /dev/ubdd."""
    nodes = {f"disk{number:02d}": f"/dev/ubd{letter}" for number, letter in enumerate("abcd", 1)}
    return CheckedState(arrays={each.name: each for each in arrays}, nodes=nodes, **more)  # type: ignore[arg-type]


def verified(verdict: str, checked_utc: str = "", *unreadable: tuple[int, int]) -> LastVerdict:
    """The last verification of known data."""
    return LastVerdict(verdict=DataVerdict(verdict), checked_utc=checked_utc, unreadable=unreadable)


def played(
    number: int,
    variants: Mapping[str, Mapping[str, str]],
    verdict: FaultVerdict = FaultVerdict.AS_EXPECTED,
    *,
    seed: int = 1,
) -> PlayedFault:
    """A run of a scenario; ``variants``: variant -> fact -> value found."""
    outcomes = []
    for name, facts in variants.items():
        checks = tuple(FactCheck(what=fact, wanted="", found=text, is_met=True) for fact, text in facts.items())
        outcomes.append(VariantOutcome(name=name, array="", steps=(StepOutcome(do="check", checks=checks),)))
    outcome = ScenarioOutcome(
        number=number, id="x", title="", model="", must=(), sources=(), verdict=verdict, variants=tuple(outcomes)
    )
    return PlayedFault(seed, outcome)


def points(
    configuration: str, judged: Mapping[PointJudgement, int], *, seed: str = "1", is_whole: bool = True
) -> StoredPoints:
    """Stored crash points with these judgements."""
    judgements = {word: judged.get(word, 0) for word in PointJudgement}
    return StoredPoints(
        id="p",
        created_utc="2026-01-01T00:00:00Z",
        configuration=configuration,
        seed=seed,
        points=sum(judgements.values()),
        judgements=judgements,
        refused=0,
        is_whole=is_whole,
    )
