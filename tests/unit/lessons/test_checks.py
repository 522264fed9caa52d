"""Each check and each reading, on labs that satisfy it and on labs that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lab.arrays.discovery import Superblock
from lab.arrays.status import ArrayState, ArrayStatus, SyncAction, SyncProgress
from lab.checks.catalogue import CHECKS, SOURCES, make_check, make_source
from lab.checks.readings import Reading
from lab.checks.state import Check, CheckedState, DeepState
from lab.errors import SpecError
from lab.faults.crash_points import PointJudgement
from lab.faults.scenario_run import FaultVerdict
from lab.lessons.course import words_in
from lab.results.record import CellRecord, RebuildRecord, ResultRecord
from lab.workloads.fio_output import JobFigures
from tests.unit.lessons.samples import array, lab_state, member, played, points, verified
from tests.unit.results import records

BEGAN = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"
BEFORE = "2025-12-31T23:59:59Z"
RAID5 = array()
SYNCING = array(sync_action=SyncAction.RECOVER, sync_progress=SyncProgress(1, 10))
HALF_RESHAPED = array(sync_action=SyncAction.FROZEN, reshape_position_sectors=9216)
FIRST, SECOND, THIRD = RAID5.members
DEGRADED = array(members=(FIRST, SECOND), degraded_count=1)
FAULTY = array(members=(FIRST, SECOND, member("/dev/ubdc", None, "faulty")), degraded_count=1)
BAD = array(members=(FIRST, replace(SECOND, bad_blocks=((14056, 8),)), THIRD))
REBUILDING = array(members=(FIRST, SECOND, member("/dev/ubdc", 2, "spare")), degraded_count=1)
SPARE = array(members=(*RAID5.members, member("/dev/ubdd", None, "spare")))


MIRROR = "raid1/resync/idle/mixed"


def hole(verdict: FaultVerdict = FaultVerdict.AS_EXPECTED, *, seed: int = 1, **found: str) -> CheckedState:
    """A lab with a run of scenario 17, whose variants ``a`` and ``b`` found these facts."""
    facts = {name: {fact: text.split()[at] for fact, text in found.items()} for at, name in enumerate("ab")}
    return lab_state(played={"17": played(17, facts, verdict, seed=seed)})


def tried(count: int = 50, *, broken: int = 0, is_whole: bool = True, seed: str = "1") -> CheckedState:
    """A lab with tried crash points of a mirror."""
    judged = {PointJudgement.KEPT: count - broken, PointJudgement.BROKEN: broken}
    return lab_state(points={MIRROR: points(MIRROR, judged, seed=seed, is_whole=is_whole)})


def figures(iops: float, p50: float, *, pause: float = 0.0) -> JobFigures:
    """A read job whose median request took ``p50`` seconds; ``pause`` is added to the mean."""
    reads = msgspec.structs.replace(
        records.direction(iops, seconds=3.0),
        mean_seconds=p50 + pause,
        max_seconds=1.0,
        p50_seconds=p50,
        p99_seconds=3 * p50,
    )
    return msgspec.structs.replace(records.cell("", "", 0).figures, reads=reads)


def cell(name: str, repeat: int, measured: JobFigures, phase: str = "healthy") -> CellRecord:
    return records.cell(name, "reads", repeat, phase=phase, figures=measured)


def record(*cells: CellRecord, rebuilds: tuple[RebuildRecord, ...] = ()) -> ResultRecord:
    return records.record("r", cells=cells, rebuilds=rebuilds)


def measured(*cells: CellRecord, **more: Any) -> CheckedState:
    return lab_state(results={"m": record(*cells, **more)})


def rebuilt(is_unchanged: bool | None) -> RebuildRecord:
    return RebuildRecord(array="a", repeat=0, rebuild_seconds=1.0, rebuilt_bytes=1, data_unchanged=is_unchanged)


def check(that: str, **arguments: object) -> Check:
    return make_check({"that": that, **arguments}, where="test")


def ratio(**more: object) -> Check:
    return check("ratio", measure="m", of={"array": "a"}, to={"array": "b"}, **more)


def came_back(written_mib: int) -> CheckedState:
    """A lab in which disk03 of 62 MiB was rebuilt by writing this much of it."""
    events = frozenset({("member-added", "md0", "disk03")})
    return lab_state(RAID5, events=events, written_bytes={"disk03": written_mib << 20})


def read_back(verdict: str, checked_utc: str) -> CheckedState:
    """A lab whose step began at BEGAN, and whose known data were verified at this time."""
    return lab_state(marks={"md0": verified(verdict, checked_utc)}, step_began_utc=BEGAN)


def happened(*event: str) -> CheckedState:
    return lab_state(events=frozenset({event}))


FOUR_TIMES = (cell("a", 0, figures(300, 0.050)), cell("b", 0, figures(75, 0.200)))
PAUSED = (cell("a", 0, figures(300, 0.050)), cell("b", 0, figures(40, 0.200, pause=0.175)))
DISTURBED = (FOUR_TIMES[0], msgspec.structs.replace(FOUR_TIMES[1], stamps=("disturbed: waited 20 %",)))
SPLIT = (*FOUR_TIMES, cell("a", 1, figures(100, 0.050)), cell("b", 1, figures(75, 0.050)))
UNCHANGED = check("rebuild.data_unchanged", measure="m", array="a")

HOLDS: list[tuple[Check, CheckedState]] = [
    (check("array.exists"), lab_state(RAID5)),
    (check("array.level", level="raid5"), lab_state(RAID5)),
    (check("array.state", is_one_of=["clean", "active"]), lab_state(RAID5)),
    (check("array.healthy"), lab_state(RAID5)),
    (check("array.degraded", equals=1), lab_state(DEGRADED)),
    (check("array.members", equals=3), lab_state(RAID5)),
    (check("array.disks", disks="disk03,disk01,disk02"), lab_state(RAID5)),
    (check("array.chunk", equals="64K"), lab_state(RAID5)),
    (check("array.layout", layout="left-symmetric"), lab_state(RAID5)),
    (check("array.bitmap"), lab_state(array(bitmap_location="+8"))),
    (check("array.bitmap", present=False), lab_state(RAID5)),
    (check("array.spares", equals=1), lab_state(SPARE)),
    (check("array.lost"), lab_state(array(state=ArrayState.BROKEN))),
    (check("array.lost", parity_members=1), lab_state(array(degraded_count=2))),
    (check("disk.in_array", disk="disk03"), lab_state(RAID5)),
    (check("disk.out_of_array", disk="disk03"), lab_state(DEGRADED)),
    (check("disk.out_of_array", disk="disk03"), lab_state(FAULTY)),
    (check("disk.rebuilt", disk="disk03", at_least_percent=80), came_back(62)),
    (check("disk.rebuilt", disk="disk03", at_most_percent=20), came_back(6)),
    (check("sync.finished"), lab_state(RAID5)),
    (check("scrub.found"), lab_state(array(mismatch_sectors=128))),
    (check("mark.written"), lab_state(RAID5, marks={"md0": None})),
    (check("disk.bad_blocks", disk="disk02"), lab_state(BAD)),
    (check("disk.bad_blocks", disk="disk01", present=False), lab_state(BAD)),
    (check("array.policy", policy="resync"), lab_state(RAID5)),
    (check("fault.played", scenario=17), hole()),
    (check("fault.played", scenario=17), hole(FaultVerdict.KNOWN_DEFECT)),
    (check("fault.other_seed", scenario=17, seed=2), hole()),
    (check("points.tried", configuration=MIRROR, at_least=50), tried()),
    (check("mark.verdict", verdict="intact"), read_back("intact", LATER)),
    (check("event.seen", event="degraded"), happened("degraded", "md0", "")),
    (check("event.seen", event="member-faulty", disk="disk02"), happened("member-faulty", "md0", "disk02")),
    (check("result.saved", measure="m"), measured()),
    (ratio(at_least=3, at_most=5), measured(*FOUR_TIMES)),
    # The measured IOPS count (300 against 40), even if pauses caused them (the ratio of the median latencies is 4).
    (ratio(at_least=7, at_most=8), measured(*PAUSED)),
    (ratio(at_least=7, at_most=8, figure="bandwidth"), measured(*PAUSED)),
    (ratio(at_most=0.5, figure="p50"), measured(*FOUR_TIMES)),
    (ratio(at_least=3, figure="bandwidth"), measured(*FOUR_TIMES)),
    (ratio(at_most=0.5, figure="p99"), measured(*FOUR_TIMES)),
    (UNCHANGED, measured(rebuilds=(rebuilt(True),))),
]

FAILS: list[tuple[Check, CheckedState, str]] = [
    (check("array.exists"), lab_state(array(state=ArrayState.INACTIVE)), "md0 is inactive"),
    (check("array.level", level="raid6"), lab_state(RAID5), "md0 is raid5"),
    (check("array.state", is_one_of=["active"]), lab_state(RAID5), "md0 is clean"),
    (check("array.healthy"), lab_state(DEGRADED), "md0: 1 of 3 members missing"),
    (check("array.healthy"), lab_state(SYNCING), "a sync is running or pending (recover)"),
    (check("array.healthy"), lab_state(HALF_RESHAPED), "a sync is running or pending (frozen)"),
    (check("array.healthy"), lab_state(array(state=ArrayState.BROKEN)), "md0 is broken"),
    (check("array.degraded", equals=1), lab_state(RAID5), "md0 has all 3 members"),
    (check("array.members", equals=4), lab_state(RAID5), "md0 has 3 members"),
    (check("array.disks", disks="disk01,disk02"), lab_state(RAID5), "md0 consists of disk01, disk02, disk03"),
    (check("array.chunk", equals="512K"), lab_state(RAID5), "the chunk of md0 is 64 KiB"),
    (check("array.chunk", equals="512K"), lab_state(array("raid1", chunk_bytes=None)), "the chunk of md0 is –"),
    (check("array.layout", layout="n2"), lab_state(RAID5), "the layout of md0 is left-symmetric"),
    (check("array.bitmap"), lab_state(RAID5), "md0 has no bitmap"),
    (check("array.spares", equals=1), lab_state(RAID5), "md0 has 0 spare disks"),
    (check("array.lost"), lab_state(array(degraded_count=2)), "md0: 2 of 3 members missing"),
    (check("disk.in_array", disk="disk03"), lab_state(REBUILDING), "disk03 in md0: rebuilding"),
    (check("disk.in_array", disk="disk04"), lab_state(SPARE), "disk04 in md0: spare"),
    (check("disk.out_of_array", disk="disk03"), lab_state(RAID5), "disk03 in md0: in sync"),
    (check("disk.rebuilt", disk="disk03"), lab_state(RAID5, written_bytes={"disk03": 9}), "brought back into sync"),
    (check("disk.rebuilt", disk="disk03", at_most_percent=20), came_back(62), "100 % of disk03 was written"),
    (check("sync.finished"), lab_state(SYNCING), "a sync is running or pending"),
    (check("scrub.found"), lab_state(RAID5), "counted 0 mismatched sectors"),
    (check("scrub.found"), lab_state(array(mismatch_sectors=8, sync_action=SyncAction.CHECK)), "a sync is running"),
    (check("mark.written"), lab_state(RAID5), "md0 holds no known data"),
    (check("disk.bad_blocks", disk="disk01"), lab_state(BAD), "bad-block list of disk01 is empty"),
    (check("disk.bad_blocks", disk="disk04"), lab_state(BAD), "not a member"),
    (check("disk.bad_blocks", disk="disk02", present=False), lab_state(BAD), "of disk02 covers 4 KiB"),
    (check("array.policy", policy="ppl"), lab_state(RAID5), "is resync"),
    (check("fault.played", scenario=17), lab_state(), "has not been run"),
    (check("fault.played", scenario=17), hole(seed=2), "run with seed 2"),
    (check("fault.played", scenario=17), hole(FaultVerdict.NOT_AS_EXPECTED), "NOT as expected"),
    (check("fault.other_seed", scenario=17), hole(), "run with seed 1"),
    (check("points.tried", configuration=MIRROR, at_least=50), tried(seed="2"), "no crash points"),
    (check("points.tried", configuration=MIRROR, at_least=50), tried(49), "49 crash points"),
    (check("points.tried", configuration=MIRROR, at_least=50), tried(broken=1), "1 of them with a broken promise"),
    (check("points.tried", configuration=MIRROR, at_least=50), tried(is_whole=False), "50 crash points"),
    (check("mark.verdict", verdict="intact"), lab_state(RAID5), "md0 holds no known data"),
    (check("mark.verdict", verdict="intact"), lab_state(marks={"md0": None}), "have not been read back"),
    (check("mark.verdict", verdict="intact"), read_back("intact", BEFORE), "have not been read back"),
    (check("mark.verdict", verdict="intact"), read_back("changed", LATER), "have changed"),
    (check("event.seen", event="degraded"), happened("degraded", "md1", ""), "has not occurred on md0"),
    (check("result.saved", measure="m"), lab_state(), "has not finished"),
    (ratio(at_least=3), lab_state(), "has not finished"),
    (ratio(at_least=3), measured(FOUR_TIMES[0]), "has no figure for a or for b"),
    (ratio(at_least=5), measured(*FOUR_TIMES), "ratio 4"),
    (ratio(at_most=3), measured(*FOUR_TIMES), "a 300 IOPS, b 75 IOPS: ratio 4"),
    (ratio(at_least=3, at_most=5), measured(*PAUSED), "ratio 7.5"),
    (ratio(at_least=3), measured(*SPLIT), "the repeats disagree"),
    (ratio(at_least=5), measured(*DISTURBED), "ratio 4. The computer was busy during the measurement"),
    (UNCHANGED, measured(rebuilds=(rebuilt(True), rebuilt(False))), "not the same"),
    (UNCHANGED, measured(rebuilds=(rebuilt(None),)), "not the same"),
    (UNCHANGED, measured(), "not the same"),
    (UNCHANGED, lab_state(), "has not finished"),
]


def superblock(events: int, array_uuid: str = "u") -> Superblock:
    return Superblock(array_uuid, "any:0", 5, 2, 3, 0, (0, 1, 2), events, 0, 0, False)


def deep(*arrays: ArrayStatus, written: int = 0, **more: Any) -> CheckedState:
    return lab_state(*arrays, deep=DeepState(**more), written_bytes={"disk03": written})


AGES = {"disk01": superblock(25), "disk02": superblock(23), "disk04": superblock(90, "another array")}
MAPPED = array(members=(member("/dev/dm-0", 0), member("/dev/dm-1", 1), member("/dev/dm-2", 2)))
MENDED = array(members=(replace(FIRST, error_count=2), SECOND, THIRD))
HOLDS += [
    (check("array.stopped"), deep(resting=frozenset({"md0"}))),
    (check("member.stale", disk="disk02"), deep(superblocks=AGES)),
    (check("member.stale", disk="disk02", at_least=2), deep(superblocks=AGES)),
    # The event count of another array is ignored.
    (check("member.current", disk="disk01"), deep(superblocks=AGES)),
    (check("array.on_overlays"), deep(MAPPED)),
    (check("array.made_anew"), deep(RAID5, marked_before=frozenset({"md0"}))),
    (
        check("disk.copied", source="disk04", target="disk03"),
        deep(RAID5, written=62 << 20, read_bytes={"disk04": 62 << 20}),
    ),
    (check("array.mended"), deep(MENDED)),
    (check("array.waited", at_least_seconds=4), deep(RAID5, waited_seconds={"md0": 4.5})),
    (check("file_system.fills", at_least_percent=90), deep(RAID5, file_system_bytes={"md0": 124 << 20})),
    (check("file_system.fills", at_most_percent=80), deep(RAID5, file_system_bytes={"md0": 93 << 20})),
    (check("file.says", path="/tmp/a", words="Fail"), deep(texts={"/tmp/a": "x\nFail /dev/md0\n"})),
]
FAILS += [
    (check("array.stopped"), deep(RAID5, resting=frozenset({"md1"})), "md0 is clean"),
    (check("array.stopped"), deep(resting=frozenset({"md1"})), "md0 is not running"),
    (check("member.stale", disk="disk01"), deep(superblocks=AGES), "disk01 is 0 events behind"),
    (check("member.stale", disk="disk02", at_least=3), deep(superblocks=AGES), "2 events behind"),
    (check("member.stale", disk="disk03"), deep(superblocks=AGES), "disk03 has no md superblock"),
    (check("member.current", disk="disk02"), deep(superblocks=AGES), "disk02 is 2 events behind"),
    (check("array.on_overlays"), deep(RAID5), "md0 consists of disk01, disk02, disk03"),
    (
        check("array.made_anew"),
        lab_state(RAID5, marks={"md0": None}, deep=DeepState(marked_before=frozenset({"md0"}))),
        "md0 is not a new array",
    ),
    (
        check("disk.copied", source="disk04", target="disk03"),
        deep(RAID5, written=62 << 20, read_bytes={"disk01": 62 << 20}),
        "0 % of disk04 was read",
    ),
    (check("disk.copied", source="disk01", target="disk04"), deep(RAID5), "disk04 has not been brought back"),
    (check("array.mended"), deep(RAID5), "counted 0 corrected"),
    (
        check("array.waited", at_least_seconds=4),
        deep(RAID5, waited_seconds={"md0": 3.9}),
        "waited for a total of 3.9 s",
    ),
    (
        check("file_system.fills", at_least_percent=90),
        deep(RAID5, file_system_bytes={"md0": 93 << 20}),
        "takes up 75 % of md0",
    ),
    (check("file_system.fills", at_most_percent=80), deep(RAID5), "md0 has no ext4"),
    (check("file.says", path="/tmp/a", words="Fail"), deep(texts={"/tmp/a": "x"}), "has no line"),
]


@pytest.mark.parametrize(("check", "at"), HOLDS, ids=lambda each: getattr(each, "name", ""))
def test_it_holds_here_and_not_on_a_fresh_lab(check: Check, at: CheckedState) -> None:
    assert check.evaluate(at).is_passed
    assert not check.evaluate(lab_state()).is_passed


@pytest.mark.parametrize(("check", "at", "message"), FAILS, ids=[f"{each[0].name}: {each[2]}" for each in FAILS])
def test_a_failed_check_describes_the_actual_state(check: Check, at: CheckedState, message: str) -> None:
    outcome = check.evaluate(at)
    assert not outcome.is_passed
    assert message in words_in("en").find(outcome.key, outcome.facts)


def test_every_check_has_words() -> None:
    """In English; test_validation.py requires the same in every language."""
    words = words_in("en")
    for check, at in HOLDS:
        outcome = check.evaluate(at)
        assert words.requirement(check.requirement_key, check.facts)
        assert words.find(outcome.key, outcome.facts)


def test_every_check_is_tested_both_ways() -> None:
    for cases in (HOLDS, FAILS):
        assert {each[0].name for each in cases} == set(CHECKS), "add a case to HOLDS and to FAILS"


def test_a_sentence_that_is_missing_is_named() -> None:
    with pytest.raises(SpecError, match=r"no sentence for 'array\.colour'") as raised:
        words_in("sv").requirement("array.colour", {})
    assert raised.value.hint == "add it to [wanted] in lab/lessons/words/en.toml"


ONE = measured(cell("a", 0, figures(300, 0.050)), cell("b", 0, figures(40, 0.200, pause=0.175)))
LARGE: dict[str, Any] = {"measure": "m", "array": "a", "drive_tb": 18.0}
REBUILT = RebuildRecord(array="a", repeat=0, rebuild_seconds=2.0, rebuilt_bytes=200 << 20)
MIXED = "1T 1T 1T 1T 1T 2T 2T 2T 2T"


def reading(unit: str = "", within_percent: float = 0.0, **written: Any) -> Reading:
    return Reading("?", unit, make_source(written, where="test"), within_percent)


FOUND: list[tuple[Reading, CheckedState, float]] = [
    (reading("TB", get="number", equals=12.5), lab_state(), 12.5),
    (reading("IOPS", get="result.figure", measure="m", of={"array": "a"}), ONE, 300.0),
    (reading("ms", get="result.figure", measure="m", of={"array": "a"}, figure="p50"), ONE, 50.0),
    (reading("KiB/s", get="result.figure", measure="m", of={"array": "a"}, figure="bandwidth"), ONE, 1200.0),
    (reading("IOPS", get="result.figure", measure="m", of={"array": "a"}), measured(*SPLIT), 200.0),
    # The ratio of the measured IOPS, not of mean or median latencies.
    (reading(get="result.ratio", measure="m", of={"array": "a"}, to={"array": "b"}), ONE, 7.5),
    (reading("MiB", get="array.size"), lab_state(array()), 124.0),
    # Chunk 187 is the second of stripe 93, whose parity is on slot 2: 93 chunks and 13 blocks behind the data offset.
    (reading(get="block.place", block=3005, what="stripe"), lab_state(BAD), 93.0),
    (reading(get="block.place", block=3005, what="disk"), lab_state(BAD), 2.0),
    (reading(get="block.place", block=3005, what="parity-disk"), lab_state(BAD), 3.0),
    (reading("sectors", get="block.place", block=3005, what="sector"), lab_state(BAD), 14056.0),
    (reading(get="bad.block", disk="disk02"), lab_state(BAD), 3005.0),
    (reading("KiB", get="bad.bytes"), lab_state(BAD), 4.0),
    (reading("sectors", get="member.offset", disk="disk01"), lab_state(BAD), 2048.0),
    (
        reading(get="mark.first_unreadable"),
        lab_state(marks={"md0": verified("unreadable", "", (8192, 4096), (65536, 4096))}),
        8192.0,
    ),
    (reading(get="fault.figure", scenario=17, variant="b", fact="writes"), hole(writes="3 12.5"), 12.5),
    (reading(get="fault.ratio", scenario=17, fact="writes", of="b", to="a"), hole(writes="4 12"), 3.0),
    (reading(get="points.figure", configuration=MIRROR, judgement="kept"), tried(50, broken=1), 49.0),
    (reading("MiB", get="capacity", disks="32M 32M 32M 64M 64M", system="raid5"), lab_state(), 124.0),
    (reading(get="capacity", disks=MIXED, system="adapt5", figure="arrays"), lab_state(), 5.0),
    (reading(get="capacity", disks=MIXED, system="shr", figure="reads-percent"), lab_state(), 27.0),
    (reading(get="member.events", disk="disk02"), deep(superblocks=AGES), 23.0),
    (reading(get="member.events", disk="disk02", behind=True), deep(superblocks=AGES), 2.0),
    (reading(get="disk.minor", disk="disk02"), deep(minors={"disk02": 16}), 16.0),
    (reading("sectors", get="scrub.mismatches"), lab_state(array(mismatch_sectors=128)), 128.0),
    (reading("MiB/s", get="rebuild.rate", measure="m", array="a"), measured(rebuilds=(REBUILT,)), 100.0),
    # 18 TB at 100 MiB/s.
    (reading("h", get="rebuild.time", **LARGE), measured(rebuilds=(REBUILT,)), 47.6837),
    # MTTF 1 / 1.5 %: 66.67 years; squared, over 8 × 7 × 47.68 h.
    (
        reading("years", get="rebuild.mttdl", members=8, afr_percent=1.5, **LARGE),
        measured(rebuilds=(REBUILT,)),
        14_590.186,
    ),
    # 12 TB are 9.6e13 bits.
    (reading("%", get="read_error.chance", read_tb=12.0, exponent=14), lab_state(), 61.7107),
    (reading("%", get="read_error.chance", read_tb=12.0, exponent=15), lab_state(), 9.153598),
    # (m + (2 N - 1) f) / (N (N - 1) f^2): N = 6, f = -ln(1 - 1.57 %) a year, 1 / m = 72 + 12 + 39.25 h.
    (reading("years", get="fleet.figure", fleet="school", figure="mttdl"), lab_state(), 9490.566),
]


@pytest.mark.parametrize(("read", "at", "expected"), FOUND, ids=[str(each[0].source) for each in FOUND])
def test_the_right_number_is_found(read: Reading, at: CheckedState, expected: float) -> None:
    assert read.expected(at) == pytest.approx(expected, rel=1e-5)
    # The numbers of the table are rounded, and most readings have no tolerance.
    rounding = replace(read, within_percent=0.01)
    assert rounding.compare(f"{expected:.10g}", at).is_passed
    assert not rounding.compare(f"{1.001 * expected:.10g}", at).is_passed


@pytest.mark.parametrize(
    "read",
    [
        reading("IOPS", get="result.figure", measure="m", of={"array": "a"}),
        reading(get="result.ratio", measure="m", of={"array": "a"}, to={"array": "b"}),
        reading("MiB", get="array.size"),
        reading(get="block.place", block=1, what="disk"),
        reading(get="bad.block", disk="disk01"),
        reading(get="mark.first_unreadable"),
        reading(get="fault.figure", scenario=17, variant="a", fact="writes"),
        reading(get="points.figure", configuration=MIRROR, judgement="kept"),
        reading(get="member.events", disk="disk02"),
        reading(get="disk.minor", disk="disk02"),
        reading("sectors", get="scrub.mismatches"),
        reading("years", get="rebuild.mttdl", members=8, afr_percent=1.5, **LARGE),
    ],
    ids=str,
)
def test_without_a_result_or_an_array_there_is_nothing_to_read(read: Reading) -> None:
    assert read.expected(lab_state()) is None
    assert read.compare("5", lab_state()).key == "reading-nothing-there"


def test_a_part_that_was_not_measured_gives_no_ratio() -> None:
    read = reading(get="result.ratio", measure="m", of={"array": "a"}, to={"array": "c"})
    assert read.expected(ONE) is None


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        *((typed, "reading-right") for typed in ("1188", "1189", "1211", "1212")),
        *((typed, "reading-off-result") for typed in ("1187", "1213", "2400")),
        *((typed, "reading-other-unit") for typed in ("1.17", "1228800", "9600")),
    ],
)
def test_a_number_may_differ_by_the_tolerance_of_the_step_and_another_unit_is_recognised(typed: str, key: str) -> None:
    read = reading("KiB/s", 1.0, get="result.figure", measure="m", of={"array": "a"}, figure="bandwidth")
    outcome = read.compare(typed, ONE)
    assert (outcome.key, outcome.is_passed) == (key, key == "reading-right")


def test_what_parts_read_is_checked_with_the_lesson() -> None:
    with pytest.raises(SpecError, match="'1X'"):
        make_source({"get": "capacity", "disks": "1T 1X", "system": "raid5"}, where="test")
    with pytest.raises(SpecError, match="no variant of school 'raid'"):
        make_source({"get": "fleet.figure", "fleet": "school", "figure": "nines", "variant": "raid"}, where="test")


def test_every_source_is_tested() -> None:
    assert {str(type(each[0].source).__struct_config__.tag) for each in FOUND} == set(SOURCES)


def test_a_comma_before_three_digits_groups_thousands_or_is_a_decimal_comma() -> None:
    read = reading(get="number", equals=82_900)
    assert [read.parse(text) for text in ("82,900", "82,9", "0,125")] == [(82_900, 82.9), (82.9,), (0.125,)]
    assert read.compare("82,900", lab_state()).is_passed
    assert reading(get="number", equals=3.142).compare("3,142", lab_state()).is_passed
    assert not reading(get="number", equals=314.2).compare("3,142", lab_state()).is_passed


def test_a_stored_number_with_another_unit_is_asked_for_again() -> None:
    read = reading("TB", get="number", equals=12.5)
    assert read.compare("12 banana", lab_state()).key == "reading-not-given"
