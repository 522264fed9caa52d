"""Each planted bug of md has its described effect, and none while it is off: with plain mdadm, by a minimal history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.disks import open_lab
from lab.disks.attaching import DRIVES_CONTROL, KERNEL_DRIVE_NODE
from lab.faults.campaign import PLANTED_SWITCH, PlantedBug, on_planted_kernel, planted_bugs
from lab.machine import GuestProgram, Host, Machine, parse_target
from lab.units import KIB, MIB

pytestmark = [pytest.mark.kernel, pytest.mark.planted, pytest.mark.wide]

ARRAY = "/dev/md0"
FOLDER = "/sys/block/md0/md"
DRIVE_BYTES = 8 * MIB
BLOCK_BYTES = 4 * KIB
CHUNK_KIB = 64
CHUNK_BLOCKS = CHUNK_KIB * KIB // BLOCK_BYTES
PIECE_BLOCKS = 256
PLAIN = "service=100000"
SLOW_SECONDS = 5
"""Time for each request of a slow drive."""
LONGEST_SYNC_SECONDS = 600
PROGRAM = GuestProgram(Path(__file__).with_name("planted_program.py"), "planted-blocks")


@dataclass(slots=True)
class Bench:
    """One array at a time, md0, on drives made for it. Blocks have generation 1 at first and 2 when written again."""

    machine: Machine
    number: int = 0
    """The bug that is planted (0: none)."""
    drives: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    """The drive in each slot."""
    made: int = 0
    expected: dict[int, set[str]] = field(default_factory=dict)
    """The allowed contents of each block."""

    def played(self, history: Callable[[Bench], set[int]], number: int) -> set[int]:
        """Return what a history finds if this bug is planted at the point where the history asks for it (0: none)."""
        self.number = number
        try:
            return history(self)
        finally:
            self.clear()

    def plant(self) -> None:
        if self.number:
            self.machine.write(PLANTED_SWITCH, str(self.number))

    def clear(self) -> None:
        if self.number:
            self.machine.write(PLANTED_SWITCH, "0")
        for number in self.drives:
            self.line("plug", number)
        if self.machine.read([f"{FOLDER}/level"])[f"{FOLDER}/level"]:
            self.stop()
        for number in self.drives:
            self.line("remove", number)
        self.drives, self.members, self.expected, self.made = [], [], {}, 0

    def line(self, *words: object) -> None:
        self.machine.write(DRIVES_CONTROL, " ".join(map(str, words)))

    def add_drive(self, words: str = PLAIN) -> int:
        number = self.made
        self.line("add", number, DRIVE_BYTES, words)
        self.drives.append(number)
        self.made += 1
        return number

    def mdadm(self, *words: object) -> None:
        self.machine.run(("mdadm", *map(str, words)))

    def manage(self, verb: str, *numbers: int) -> None:
        self.mdadm(ARRAY, verb, *nodes(numbers))

    def fail(self, *slots: int) -> None:
        self.manage("--fail", *(self.members[slot] for slot in slots))

    def create(
        self,
        level: int,
        count: int,
        *options: str,
        words: Sequence[str] = (),
        size_kib: int = 512,
        has_journal: bool = False,
        is_planted: bool = True,
    ) -> None:
        """Create an array with consistent parity and copies, fill and restart it, then plant the bug."""
        self.members = [self.add_drive(*words[slot : slot + 1]) for slot in range(count)]
        if has_journal:
            options = (*options, f"--write-journal={KERNEL_DRIVE_NODE}{self.add_drive()}")
        if not options:
            options = ("--bitmap=none",)
        if level != 1:
            options = (*options, f"--chunk={CHUNK_KIB}")
        shape = (f"--level={level}", f"--raid-devices={count}", f"--size={size_kib}", "--assume-clean", *options)
        self.mdadm("--create", ARRAY, "--run", "--quiet", *shape, *nodes(self.members))
        blocks = self.blocks
        for first in range(0, blocks, PIECE_BLOCKS):
            self.write(first, min(PIECE_BLOCKS, blocks - first), 1)
        self.restart()
        if is_planted:
            self.plant()

    @property
    def blocks(self) -> int:
        path = "/sys/block/md0/size"
        return int(self.machine.read([path])[path] or 0) * 512 // BLOCK_BYTES

    def call(self, *words: object) -> str:
        return self.machine.call(PROGRAM, [str(word) for word in words])

    def write(self, first: int, count: int, generation: int = 2) -> None:
        self.call("write", ARRAY, first, count, generation)
        self.expected |= {block: {f"{block}:{generation}"} for block in range(first, first + count)}

    def wrong(self) -> set[int]:
        """The blocks that contain none of their allowed contents."""
        found = json.loads(self.call("read", ARRAY, 0, self.blocks))
        return {block for block, content in enumerate(found) if content not in self.expected[block]}

    def attribute(self, name: str) -> str:
        path = f"{FOLDER}/{name}"
        return (self.machine.read([path])[path] or "").strip()

    def put(self, name: str, value: object) -> None:
        self.machine.write(f"{FOLDER}/{name}", str(value))

    def stay_dirty(self) -> None:
        """From the next write on, keep the array dirty until it is stopped."""
        self.put("safe_mode_delay", 0)

    def stop(self) -> None:
        self.mdadm("--stop", "--quiet", ARRAY)

    def assemble(self, numbers: Iterable[int] | None = None) -> None:
        """Assemble from these drives, as far as mdadm accepts them, allow writes, and wait for the resync."""
        self.mdadm("--assemble", ARRAY, "--run", "--quiet", *nodes(self.drives if numbers is None else numbers))
        self.mdadm("--readwrite", ARRAY)
        self.put("sync_speed_max", "system")
        self.put("sync_max", "max")
        self.idle()

    def restart(self) -> None:
        self.stop()
        self.assemble()

    def idle(self) -> None:
        for _ in range(LONGEST_SYNC_SECONDS * 2):
            self.machine.sleep(0.5)
            if self.attribute("sync_action") == "idle":
                return
        raise AssertionError(f"still {self.attribute('sync_action')}")

    def mismatches(self) -> int:
        self.put("sync_action", "check")
        self.idle()
        return int(self.attribute("mismatch_cnt"))

    def replace(self, slot: int, stops_at: int = 0) -> int:
        """Replace a member by a blank drive, up to this sector or completely; return the number of the new drive."""
        self.fail(slot)
        self.manage("--remove", self.members[slot])
        self.line("remove", self.members[slot])
        self.drives.remove(self.members[slot])
        self.members[slot] = self.add_drive()
        if stops_at:
            self.put("sync_max", stops_at)
        self.manage("--add", self.members[slot])
        if stops_at:
            self.machine.sleep(5)
        else:
            self.idle()
        return self.members[slot]

    def cut(self, block: int, seconds: float, *, slow: int) -> None:
        """Cut the power ``seconds`` after a write past the caches began, while a drive is slow. Stops the array."""
        self.line("pace", slow, SLOW_SECONDS * 10**9)
        self.call("cut", ARRAY, block, 1, 2, seconds, *self.pull_lines(slow))
        self.expected[block] = {*self.expected[block], f"{block}:2"}
        self.line("pace", slow, 0)
        self.after_cut()

    def lose_caches(self) -> None:
        """Cut the power while members have nothing in flight but lose the contents of their caches. Stops the array."""
        for line in self.pull_lines():
            self.line(line)
        self.after_cut()

    def pull_lines(self, last: int = 0) -> list[str]:
        """Lines that pull all drives at once. The drive with a request in flight comes last, so md records no loss."""
        return [f"pull {number}" for number in sorted(self.drives, key=lambda number: number == last)]

    def after_cut(self) -> None:
        self.stop()
        for number in self.drives:
            self.line("plug", number)

    def crash(self) -> None:
        """Go on with copies of the drives as a power cut would leave them, with nothing in flight. Stops the array."""
        before = list(self.drives)
        copies = {number: self.add_drive() for number in before}
        for number, copy in copies.items():
            self.call("copy", f"{KERNEL_DRIVE_NODE}{number}", f"{KERNEL_DRIVE_NODE}{copy}", DRIVE_BYTES)
        self.stop()
        for number in before:
            self.line("remove", number)
        self.drives = list(copies.values())
        self.members = [copies[number] for number in self.members]


def nodes(numbers: Iterable[int]) -> list[str]:
    return [f"{KERNEL_DRIVE_NODE}{number}" for number in numbers]


BLOCK = 5
"""In the first chunk. RAID 5 of four: on slot 0, parity on slot 3. RAID 6 of five: on slot 1, P on 4, Q on 0."""
BESIDE = BLOCK + CHUNK_BLOCKS
"""On the next slot, in the same stripe."""
ELSEWHERE = 100
LAST = 7 * 3 * CHUNK_BLOCKS + BLOCK
"""In the last row of eight. RAID 5 of four: on slot 1, parity on slot 0."""
DURING_THE_FIRST, DURING_THE_SECOND = 0.4 * SLOW_SECONDS, 1.4 * SLOW_SECONDS
"""Seconds until the middle of the first and of the second of two consecutive requests of a slow drive."""
BITMAP = ("--bitmap=internal", "--bitmap-chunk=64K")
PPL = "--consistency-policy=ppl"
MECHANICS = "cylinders=5000 surfaces=2 zones=1:100 seek_short=1,0.1,100 seek_long=2,0.001 queue=4 interface=1e7"
CACHED = f"{MECHANICS} write_cache=8388608"
ON_SLOT_1 = [
    (row * 3 + chunk) * CHUNK_BLOCKS + block
    for row, chunk in ((0, 1), (1, 2), (3, 0), (4, 1), (5, 2), (7, 0))
    for block in range(CHUNK_BLOCKS)
]
"""Of the RAID 5 of four: rows 2 and 6 have their parity on slot 1."""
COPIES_DIFFER = -1
"""Stands for a difference between copies in a set of block numbers."""
History = Callable[[Bench], set[int]]
_HISTORIES: dict[int, tuple[History, Callable[[set[int]], bool]]] = {}


def shows(number: int, *blocks: int, least: int = 0) -> Callable[[History], History]:
    """What a history must find while that bug is planted: exactly these blocks, or at least ``least`` of them."""

    def keep(history: History) -> History:
        _HISTORIES[number] = history, lambda found: found == set(blocks) if blocks else len(found) >= least > 0
        return history

    return keep


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    host = Host.real("tests")
    with open_lab(on_planted_kernel(parse_target("uml:"), host), host, wanted=()) as lab:
        yield Bench(lab.machine)


@pytest.mark.parametrize("bug", planted_bugs(), ids=lambda bug: bug.name)
def test_a_planted_bug_shows_when_it_is_on_and_never_else(bench: Bench, bug: PlantedBug) -> None:
    history, is_expected = _HISTORIES[bug.number]
    assert bench.played(history, 0) == set()
    found = bench.played(history, bug.number)
    assert is_expected(found), sorted(found)


@pytest.mark.virtual_time
def test_with_none_planted_md_asks_the_drives_for_the_same_at_the_same_time() -> None:
    """The same as on a kernel without planted bugs: requests, sectors and milliseconds of each drive, and the clock."""
    host, virtual = Host.real("tests"), parse_target("uml:?time=virtual")
    found = []
    for target in (virtual, on_planted_kernel(virtual, host)):
        with open_lab(target, host, wanted=(), seed=1) as lab:
            found.append(reported_by_drives(Bench(lab.machine)))
    assert found[0] == found[1]


def reported_by_drives(bench: Bench) -> list[str]:
    reported = []
    for level, count, options in ((5, 4, (PPL,)), (6, 5, BITMAP), (1, 2, BITMAP), (10, 4, ())):
        bench.create(level, count, *options, is_planted=False)
        bench.write(BLOCK, 1)
        bench.call("flush", ARRAY)
        bench.replace(1)
        bench.write(BLOCK, 3, 3)
        assert bench.mismatches() == 0
        bench.restart()
        assert bench.wrong() == set()
        paths = ["/proc/uptime", *(f"/sys/block/drive{number}/stat" for number in bench.drives)]
        reported += [text or "" for text in bench.machine.read(paths).values()]
        bench.clear()
    return reported


def test_none_of_them_made_the_kernel_complain(bench: Bench) -> None:
    log = bench.machine.run(("dmesg",)).stdout
    assert "md/raid" in log
    assert [line for line in log.splitlines() if any(word in line for word in ("WARNING", "BUG:", "Call Trace"))] == []


@shows(1, BESIDE)
def parity_not_written(bench: Bench) -> set[int]:
    bench.create(5, 4)
    bench.write(BLOCK, 1)
    bench.restart()
    bench.fail(1)
    return bench.wrong()


@shows(2, BLOCK, BESIDE)
def q_with_two_blocks_swapped(bench: Bench) -> set[int]:
    bench.create(6, 5)
    bench.write(BLOCK, 1)
    bench.restart()
    bench.fail(1, 2)
    return bench.wrong()


@shows(3, COPIES_DIFFER)
def bitmap_bit_not_set(bench: Bench) -> set[int]:
    found = set()
    for moment in (DURING_THE_FIRST, DURING_THE_SECOND):
        # During the second request with a bitmap. The first one writes the bitmap page.
        bench.create(1, 2, *BITMAP, is_planted=False)
        bench.machine.sleep(30)
        bench.stay_dirty()
        bench.write(ELSEWHERE, 1)
        bench.plant()
        bench.cut(BLOCK, moment, slow=1)
        bench.assemble()
        found |= {COPIES_DIFFER} if bench.mismatches() else set()
        bench.clear()
    return found


@shows(4, BLOCK)
def bitmap_forgets_degraded_writes(bench: Bench) -> set[int]:
    bench.create(1, 2, *BITMAP)
    bench.fail(1)
    bench.manage("--remove", 1)
    bench.write(BLOCK, 1)
    bench.manage("--re-add", 1)
    bench.idle()
    bench.fail(0)
    return bench.wrong()


@shows(5, least=10)
def flush_misses_a_member(bench: Bench) -> set[int]:
    bench.create(1, 2, words=(f"rpm=60 {CACHED}", PLAIN))
    bench.stay_dirty()
    # The drive writes them to its medium one after the other, one per revolution.
    for index in range(20):
        bench.write(index * 6, 1)
    bench.call("flush", ARRAY)
    bench.lose_caches()
    bench.assemble()
    return bench.wrong()


@shows(6, COPIES_DIFFER)
def superblock_stays_in_the_cache(bench: Bench) -> set[int]:
    found = set()
    for is_busy in (False, True):
        bench.create(1, 2, words=(f"rpm=600 {CACHED}",) * 2)
        bench.machine.sleep(60)
        # Blocks behind the array: the drives write them before a superblock, unless told to write that one at once.
        for number in bench.drives if is_busy else ():
            bench.call("each", f"/dev/drive{number}", 1024, 500, 2, 9)
        bench.cut(BLOCK, DURING_THE_SECOND, slow=1)
        bench.assemble()
        found |= {COPIES_DIFFER} if bench.mismatches() else set()
        bench.clear()
    return found


@shows(7, BESIDE)
def ppl_entry_not_written(bench: Bench) -> set[int]:
    bench.create(5, 4, PPL)
    bench.stay_dirty()
    bench.write(ELSEWHERE, 1)
    bench.cut(BLOCK, DURING_THE_FIRST, slow=0)
    bench.assemble([0, 2, 3])
    return bench.wrong()


@shows(8, BESIDE + 1)
def ppl_entry_names_the_next_stripe(bench: Bench) -> set[int]:
    bench.create(5, 4, PPL)
    bench.stay_dirty()
    bench.write(BLOCK, 1)
    bench.crash()
    bench.assemble()
    bench.restart()
    bench.fail(1)
    return bench.wrong()


@shows(9, BLOCK + 1, BLOCK + 2, BLOCK + 3)
def journal_replays_into_the_next_stripe(bench: Bench) -> set[int]:
    bench.create(5, 4, has_journal=True)
    bench.write(BLOCK, 3)
    bench.crash()
    bench.assemble()
    return bench.wrong()


@shows(10, BLOCK)
def journal_replay_stops_early(bench: Bench) -> set[int]:
    bench.create(5, 4, has_journal=True)
    bench.put("journal_mode", "write-back")
    bench.write(BLOCK, 1)
    bench.crash()
    bench.assemble()
    return bench.wrong()


@shows(11, BLOCK)
def short_write_to_one_mirror(bench: Bench) -> set[int]:
    bench.create(1, 2)
    bench.write(BLOCK, 1)
    bench.write(ELSEWHERE, 2)
    bench.fail(0)
    return bench.wrong()


@shows(12, BLOCK, BLOCK + 1)
def last_copy_misplaced(bench: Bench) -> set[int]:
    bench.create(10, 2)
    bench.write(BLOCK, 1)
    bench.fail(0)
    return bench.wrong()


@shows(13, LAST + CHUNK_BLOCKS)
def resync_ends_early(bench: Bench) -> set[int]:
    bench.create(5, 4)
    bench.stay_dirty()
    bench.write(ELSEWHERE, 1)
    bench.cut(LAST, DURING_THE_FIRST, slow=1)
    bench.assemble()
    bench.restart()
    bench.fail(2)
    return bench.wrong()


@shows(14, *range(64, 80))
def rebuild_recorded_too_far(bench: Bench) -> set[int]:
    bench.create(1, 2)
    spare = bench.replace(1, stops_at=512)
    bench.stop()
    bench.assemble([0, spare])
    bench.fail(0)
    return bench.wrong()


@shows(15, least=100)
def reshape_position_not_written(bench: Bench) -> set[int]:
    bench.create(5, 3, size_kib=2048)
    bench.manage("--add", bench.add_drive())
    for name in ("sync_speed_max", "sync_speed_min"):
        bench.put(name, 500)
    bench.mdadm("--grow", ARRAY, "--raid-devices=4")
    bench.machine.sleep(1.5)
    assert bench.attribute("sync_action") == "reshape"
    bench.lose_caches()
    bench.assemble()
    # The new end of the array was never written.
    bench.expected |= {block: {"0"} for block in range(len(bench.expected), bench.blocks)}
    return bench.wrong()


@shows(16, BESIDE)
def clean_while_writing(bench: Bench) -> set[int]:
    found = set()
    for moment in (DURING_THE_FIRST, DURING_THE_SECOND):
        # During the second request, unless the bug is planted. The first request writes the superblock.
        bench.create(5, 4)
        bench.machine.sleep(5)
        bench.cut(BLOCK, moment, slow=0)
        bench.assemble()
        bench.restart()
        bench.fail(1)
        found |= bench.wrong()
        bench.clear()
    return found


@shows(17, BLOCK)
def events_do_not_advance(bench: Bench) -> set[int]:
    bench.create(1, 2)
    bench.fail(0)
    bench.write(BLOCK, 1)
    bench.restart()
    return bench.wrong()


@shows(18, *ON_SLOT_1)
def spare_taken_for_the_old_member(bench: Bench) -> set[int]:
    bench.create(5, 4, *BITMAP)
    bench.replace(1)
    bench.restart()
    return bench.wrong()


@shows(19, least=100)
def two_lost_blocks_swapped(bench: Bench) -> set[int]:
    bench.create(6, 5)
    bench.fail(1, 2)
    return bench.wrong()


@shows(20, BLOCK)
def write_error_ignored(bench: Bench) -> set[int]:
    bench.create(5, 4)
    bench.stay_dirty()
    bench.write(ELSEWHERE, 1)
    bench.line("pull", 0)
    bench.write(BLOCK, 1)
    bench.line("plug", 0)
    bench.restart()
    return bench.wrong()
