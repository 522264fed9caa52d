from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from lab.adapt.kind import ADAPT, volumes_in
from lab.adapt.layout import AdaptLevel
from lab.adapt.operations import add, scrub
from lab.adapt.spec import VolumeSpec, slice_rows, unused_lines
from lab.arrays.array import OpenArrays
from lab.arrays.discovery import BroughtUp
from lab.arrays.levels import parse_level
from lab.arrays.status import ArrayState, SyncAction, SyncProgress
from lab.disks import DiskKind, DiskSpec
from lab.errors import ArrayError, SpecError
from lab.plans import Plan
from lab.session.monitor import events_between
from lab.session.session import larger_bytes, larger_line, new_specs
from lab.units import MIB
from tests.unit.adapt.running import EXAMPLE, disks_of, labels_on, ready_label, running
from tests.unit.session.looks import look

LARGE = 3
"""A disk of the example that belongs to more than one array."""


def test_a_whole_volume_is_an_array_of_its_disks() -> None:
    whole = running()
    assert (whole.name, whole.level, whole.device) == ("adapt0", "adapt5", "/dev/mapper/adapt0")
    assert [member.device for member in whole.members] == [disk.node for disk in EXAMPLE.disks]
    assert all(member.is_in_sync for member in whole.members)
    assert whole.state is ArrayState.CLEAN
    assert not whole.is_degraded
    assert whole.sync is None


def test_json_has_the_state_of_the_arrays_inside() -> None:
    whole = running()
    stopped = replace(whole, windows=(replace(whole.windows[0], array=None), *whole.windows[1:]))
    volume = ADAPT.array(cast(OpenArrays, SimpleNamespace(disk_name=lambda node: node)), "adapt0")
    document = volume.value(stopped)
    changing = {
        "state_words": "data lost in 1 of 5 arrays",
        "is_degraded": True,
        "lost_windows": [0],
        "failures_survived_now": 0,
    }
    assert changing.items() <= document.items()
    assert document.keys() - changing == {
        *("name", "uuid", "level", "device", "kernel_name", "size_bytes", "chunk_bytes", "reference_blocks"),
        *("optimal_io_bytes", "mismatch_sectors", "disks", "windows"),
    }


def test_a_failed_disk_is_one_faulty_member_however_many_arrays_have_it() -> None:
    failed = running(failed=[LARGE])
    assert failed.degraded_count == 1
    assert [member.slot for member in failed.members if member.is_faulty] == [LARGE]


def test_a_removed_disk_is_not_a_member() -> None:
    gone = running(gone=[LARGE])
    assert LARGE not in [member.slot for member in gone.members]
    assert gone.degraded_count == 1


def test_two_failed_disks_that_share_arrays_break_it_with_their_number() -> None:
    broken = running(failed=[2, LARGE])
    assert broken.state is ArrayState.BROKEN
    events = events_between(look(1.0, running()), look(2.0, broken))
    assert "adapt0 is broken: data lost in" in " ".join(event.sentence for event in events)


def test_a_volume_that_is_degraded_cannot_do_without_a_disk_that_shares_an_array() -> None:
    healthy, degraded = running(), running(failed=[LARGE])
    assert not healthy.breaks_without(healthy.members[0])
    assert degraded.breaks_without(degraded.members[0])


def test_the_progress_of_a_rebuild_goes_over_all_arrays_of_the_disk() -> None:
    own = running().disks[LARGE].windows
    fractions = []
    for done, number in enumerate(own):
        for part in (0.0, 0.5):
            array = running(filled={LARGE: own[:done]}, syncing={number: part})
            assert array.sync is not None
            assert (array.sync.number, array.sync.count) == (done + 1, len(own))
            assert array.sync_place == f"{done + 1} of {len(own)}"
            assert array.sync_progress is not None
            fractions.append(array.sync_progress.fraction)
    assert fractions[0] == 0.0
    assert fractions == sorted(set(fractions))
    assert fractions[-1] < 1.0


def test_a_disk_missing_from_some_arrays_while_md_is_idle_is_an_interrupted_rebuild() -> None:
    own = running().disks[LARGE].windows
    assert running(filled={LARGE: own[:1]}).is_interrupted
    assert not running(filled={LARGE: own[:1]}, syncing={own[1]: 0.5}).is_interrupted
    assert not running(failed=[LARGE]).is_interrupted


def test_an_interrupted_rebuild_goes_on_with_the_array_that_was_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    own = running().disks[LARGE].windows
    asleep = running(filled={LARGE: own[:1]}, syncing={own[1]: 0.5}, action=SyncAction.IDLE)
    windows = tuple(
        replace(each, array=replace(each.array, state=ArrayState.READ_AUTO)) if each.array else each
        for each in asleep.windows
    )
    known = BroughtUp(started=volumes_in(labels_on(ready_label())))
    disk = asleep.disks[LARGE].node
    volume = ADAPT.array(cast(OpenArrays, SimpleNamespace(found=known, node=lambda _: disk)), "adapt0")
    monkeypatch.setattr(volume, "volume", lambda: replace(asleep, windows=windows))
    steps = [step.argv for step in volume.add("disk03").steps]
    assert ("mdadm", "--readwrite", f"/dev/md{100 + own[1]}") in steps
    added = [argv[2] for argv in steps if "--add" in argv]
    assert added == [f"/dev/md{100 + number}" for number in own[2:]]
    assert [argv[-1] for argv in steps if "wait" in argv] == [f"/dev/md{100 + number}" for number in own[1:]]
    # Nothing is left to resume once md rebuilds the last array.
    monkeypatch.setattr(volume, "volume", lambda: running(filled={LARGE: own[:-1]}, syncing={own[-1]: 0.5}))
    with pytest.raises(ArrayError, match="already a disk of adapt0"):
        volume.add("disk03")


def test_the_first_sync_works_in_all_arrays_at_once() -> None:
    count = len(running().windows)
    array = running(first_sync=True, syncing=dict.fromkeys(range(count), 0.25))
    assert array.sync is not None
    assert array.sync.at_once == count
    assert array.sync_place == ""
    assert array.sync_progress is not None
    assert array.sync_progress.fraction == pytest.approx(0.25, abs=0.01)


def test_a_scrub_counts_the_arrays_before_the_one_at_work_as_done() -> None:
    array = running(syncing={2: 0.0}, action=SyncAction.CHECK)
    assert array.sync is not None
    assert (array.sync.number, array.sync.count) == (3, 5)
    assert array.sync_action is SyncAction.CHECK
    assert not array.is_degraded


def test_finer_progress_of_an_array_inside_moves_the_whole() -> None:
    own = running().disks[LARGE].windows
    before = running(filled={LARGE: ()}, syncing={own[0]: 0.1})
    after = before.with_progress({f"md{100 + own[0]}": SyncProgress(900, 1000)})
    assert before.sync_progress is not None
    assert after.sync_progress is not None
    assert after.sync_progress.fraction > before.sync_progress.fraction
    assert before.with_progress({"md7": SyncProgress(1, 2)}) is before


def test_every_slice_of_every_array_is_in_the_sketch_once() -> None:
    for sizes in ((60, 60, 60, 60, 30), (30, 30, 60), (30, 60, 90, 90, 120, 120), (30, 30, 30)):
        composition = VolumeSpec(disks_of(*sizes)).geometry().composition
        rows = slice_rows(composition.windows, len(sizes))
        drawn = sorted((window, disk) for row in rows for disk, window in enumerate(row.windows) if window is not None)
        assert drawn == sorted((window.number, disk) for window in composition.windows for disk in window.disks)
        assert all(unused >= 0 for unused in unused_lines(composition))


def test_what_one_larger_disk_has_more_is_unused() -> None:
    composition = VolumeSpec(disks_of(30, 30, 60)).geometry().composition
    assert unused_lines(composition)[2] * EXAMPLE.chunk_bytes == 30 * MIB


def test_the_preview_of_unequal_disks_has_room_systems_and_a_plan() -> None:
    shown = EXAMPLE.preview(EXAMPLE.disks)
    assert shown.can_be_built
    assert shown.plan is not None
    assert shown.array_names == ("md100", "md101", "md102", "md103", "md104")
    assert shown.write_penalty.startswith("3 or 4 I/Os")
    assert {each.system for each in shown.systems} == {"raid5", "onlyfast", "shr", "adapt5"}
    assert EXAMPLE.preview(EXAMPLE.disks, taken=("md100",)).array_names[0] == "md101"
    assert EXAMPLE.preview(EXAMPLE.disks, has_plan=False).usable_bytes == shown.usable_bytes


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((30, 30, 30), "have the same size, so this is a plain RAID 5 of all 3"),
        ((30, 30, 60), "Only one disk is larger"),
        ((300, 300, 300, 300, 600, 600, 600, 600), "A full stripe of 6 chunks instead of 7 would hold"),
    ],
)
def test_the_preview_notes_no_gain_and_possible_gain(sizes: tuple[int, ...], message: str) -> None:
    shown = VolumeSpec(disks_of(*sizes)).preview(())
    assert shown.can_be_built
    assert message in shown.note


@pytest.mark.parametrize("sizes", [(), (30,), (30, 60)])
def test_the_preview_of_too_few_disks_shows_a_problem_and_never_raises(sizes: tuple[int, ...]) -> None:
    shown = VolumeSpec(disks_of(*sizes)).preview(())
    assert not shown.can_be_built
    assert f"adapt5 needs at least 3 disks, not {len(sizes)}" in shown.problems[0]


def test_larger_disks_are_numbered_behind_the_others_and_twice_as_large() -> None:
    disks = disks_of(30, 60)
    assert larger_bytes(disks) == 120 * MIB
    assert larger_line(disks, is_embedded=True) == "raidlab disks add --kind file --count 2 --size 120M"
    assert [
        spec.name
        for spec in new_specs(["disk07", "disk03"], DiskSpec(name="", kind=DiskKind.FILE, size_bytes=MIB * 10), 2)
    ] == ["disk08", "disk09"]


def test_an_unknown_level_is_answered_with_those_for_unequal_disks_too() -> None:
    assert tuple(AdaptLevel) == ADAPT.levels
    with pytest.raises(SpecError, match="did you mean adapt5") as found:
        parse_level("adaptraid")
    assert "adapt5, shr" in found.value.hint
    with pytest.raises(SpecError, match="level shr is not supported here"):
        parse_level("shr")


def test_a_plan_is_cut_where_it_waits() -> None:
    steps = add(ready_label(), dict(enumerate(EXAMPLE.devices)), LARGE, "/dev/ubd09", {0: "md100", 2: "md102"})
    plan = Plan.of("", steps)
    before, wait, after = plan.until_wait
    assert wait is not None
    assert wait.only_waits
    assert (*before.steps, wait, *after.steps) == plan.steps
    assert [step.argv[:2] for step in before.steps if step.danger == "data"][-1] == ("mdadm", "--manage")
    assert after.until_wait[2].steps == ()
    assert Plan.of("", scrub({0: "md100"}, "stop")).until_wait[1] is None


def test_taking_a_disk_in_endangers_no_other_disk() -> None:
    steps = add(ready_label(), dict(enumerate(EXAMPLE.devices)), LARGE, "/dev/ubd09", {0: "md100"})
    lost = {node for step in steps if step.danger == "data" for node in step.writes_devices}
    assert not lost & set(EXAMPLE.devices)
