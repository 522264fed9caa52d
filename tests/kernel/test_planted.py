"""Each planted bug of md does what it says, and nothing while it is off: by plain mdadm, with the shortest history."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.disks import open_lab
from lab.faults.campaign import PlantedBug, on_planted_kernel, planted_bugs
from lab.machine import Host, parse_target
from tests.kernel.planted_rig import ARRAY, CHUNK_BLOCKS, PLAIN, SLOW_SECONDS, Bench

pytestmark = [pytest.mark.kernel, pytest.mark.planted, pytest.mark.wide]

BLOCK = 5
"""In the first chunk. RAID 5 of four: on slot 0, its parity on slot 3. RAID 6 of five: on slot 1, P on 4, Q on 0."""
BESIDE = BLOCK + CHUNK_BLOCKS
"""On the next slot, in the same stripe."""
ELSEWHERE = 100
LAST = 7 * 3 * CHUNK_BLOCKS + BLOCK
"""In the last row of eight. RAID 5 of four: on slot 1, its parity on slot 0."""
DURING_THE_FIRST, DURING_THE_SECOND = 0.4 * SLOW_SECONDS, 1.4 * SLOW_SECONDS
"""Moments, by the requests of a slow drive that come one after another."""
BITMAP = ("--bitmap=internal", "--bitmap-chunk=64K")
PPL = "--consistency-policy=ppl"
MECHANICS = "cylinders=5000 surfaces=2 zones=1:100 seek_short=1,0.1,100 seek_long=2,0.001 queue=4 interface=1e7"
CACHED = f"{MECHANICS} write_cache=8388608"
ON_SLOT_1 = [
    (row * 3 + chunk) * CHUNK_BLOCKS + block
    for row, chunk in ((0, 1), (1, 2), (3, 0), (4, 1), (5, 2), (7, 0))
    for block in range(CHUNK_BLOCKS)
]
"""Of the RAID 5 of four: rows 2 and 6 have their parity there."""
COPIES_DIFFER = -1
"""Stands among numbers of blocks."""
History = Callable[[Bench], set[int]]
_HISTORIES: dict[int, tuple[History, Callable[[set[int]], bool]]] = {}


def shows(number: int, *blocks: int, least: int = 0) -> Callable[[History], History]:
    """What a history finds while that bug is on: these blocks and no other, or at least so many."""

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
    """As the kernel without them: requests, sectors and milliseconds of each drive, and the clock."""
    host, virtual = Host.real("tests"), parse_target("uml:?time=virtual")
    found = []
    for target in (virtual, on_planted_kernel(virtual, host)):
        with open_lab(target, host, wanted=(), seed=1) as lab:
            found.append(told_of_drives(Bench(lab.machine)))
    assert found[0] == found[1]


def told_of_drives(bench: Bench) -> list[str]:
    told = []
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
        told += [text or "" for text in bench.machine.read(paths).values()]
        bench.clear()
    return told


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
        # Of the second request with a bitmap, whose page is the first.
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
    # The drive puts one after another on its medium, a turn each.
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
        # Behind the array: what drives have to put on their media before a superblock, unless they are told to hurry.
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
    # Its new end was never written.
    bench.expected |= {block: {"0"} for block in range(len(bench.expected), bench.blocks)}
    return bench.wrong()


@shows(16, BESIDE)
def clean_while_writing(bench: Bench) -> set[int]:
    found = set()
    for moment in (DURING_THE_FIRST, DURING_THE_SECOND):
        # Of the second request unless it is planted: the superblock is the first.
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
def events_stand_still(bench: Bench) -> set[int]:
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
