"""What the keys of the Lab screen do. Each asks the core for a plan; nothing here knows RAID."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.adapt.summary import VolumeArray
from tui.actions import joining_disk, selected_disk, selected_member, target_array
from tui.choice import Choice
from tui.drafts import FIRST_MEMBERS
from tui.volume_views import adding_note, failing_note

if TYPE_CHECKING:
    from lab.plans import Plan
    from lab.session.session import LabSession
    from tui.desk import Desk

_KIB_PER_MIB = 1024
_SPEEDS_MIB = (1, 4, 16, 64)
USUAL_LOADS = ("rand-mix-4k", "rand-read-4k", "rand-write-4k", "seq-read-1m", "seq-write-1m")


class LabActions:
    """Mixed into the Lab screen, and used by the text mode."""

    desk: Desk

    def _pick(self, title: str, choices: list[Choice], then: Callable[[str], None], intro: str = "") -> None:
        self.desk.pick(title, choices, then, intro=intro)

    def action_build(self) -> None:
        """The first array in one key; later the whole choice."""
        if not self.desk.lab.arrays and len(self.desk.lab.free_disks) >= FIRST_MEMBERS:
            self.desk.operations.ask(first_array, note=FIRST_ARRAY_NOTE)
        else:
            self.desk.choose_freely()

    def action_fail(self) -> None:
        found, disk = selected_member(self.desk.lab), selected_disk(self.desk.lab)
        if found is None or disk is None:
            return
        name = found[0].name

        def make(session: LabSession) -> Plan:
            from lab.session import plans

            return plans.fail(session, name, disk.name, breaks_array=True)

        self.desk.operations.ask(make, note=self._failing_note(name, disk.name))

    def _failing_note(self, name: str, disk: str) -> str:
        from lab.session.checks import breaks

        status = self.desk.lab.array(name)
        node = next((each.node for each in self.desk.lab.disks if each.name == disk), "")
        if isinstance(status, VolumeArray):
            return failing_note(status, disk, node)
        if status and breaks(status, status.member(node)):
            return f"{name} cannot do without {disk}: after this its data are lost."
        return f"{name} survives this: it goes on degraded, and answers from the other members."

    def action_load(self) -> None:
        """Choose a workload; it runs until it is stopped."""
        status = target_array(self.desk.lab)
        if status is None:
            return
        name = status.name

        def then(workload: str) -> None:
            self.desk.loads.start(name, workload)

        self._pick(
            f"Load on {name}",
            workload_choices(),
            then,
            "It runs until you stop it. Data on a bare array are overwritten.",
        )

    def action_stop_load(self) -> None:
        self.desk.loads.stop()

    def action_mark(self) -> None:
        status = target_array(self.desk.lab)
        if status:
            self.desk.marks.write(status.name)

    def action_verify(self) -> None:
        status = target_array(self.desk.lab)
        if status:
            self.desk.marks.verify(status.name)

    def action_pull(self) -> None:
        disk = selected_disk(self.desk.lab)
        if disk is None:
            return
        found = selected_member(self.desk.lab)
        note = self._failing_note(found[0].name, disk.name) if found else "No array has it: it only vanishes."

        def make(session: LabSession) -> Plan:
            from lab.session import breaking

            return breaking.pull(session, disk.name, breaks_array=True)

        self.desk.operations.ask(make, note=note)

    def action_plug_in(self) -> None:
        disk = selected_disk(self.desk.lab)
        if disk is None:
            return

        def make(session: LabSession) -> Plan:
            from lab.session import breaking

            return breaking.plug_in(session, disk.name)

        self.desk.operations.ask(make, note=f"{disk.name} comes back as it was; md does not take it in by itself.")

    def action_corrupt(self) -> None:
        found, disk = selected_member(self.desk.lab), selected_disk(self.desk.lab)
        if found is None or disk is None:
            return
        name = found[0].name

        def make(session: LabSession) -> Plan:
            from lab.session import breaking

            return breaking.corrupt(session, name, disk.name)

        self.desk.operations.ask(
            make, note="md will not notice. A scrub (s) finds it where there is redundancy; verify (v) tells you."
        )

    def action_slow(self) -> None:
        disk = selected_disk(self.desk.lab)
        if disk is None:
            return
        from lab.disks.personalities import all_personalities

        choices = [Choice(name, name, personality.title) for name, personality in all_personalities().items()]

        def then(personality: str) -> None:
            def make(session: LabSession) -> Plan:
                from lab.session import breaking

                return breaking.slow(session, disk.name, personality)

            self.desk.operations.make_and_run(make)

        self._pick(
            f"Pace of {disk.name}", choices, then, "How fast shall it answer from now on? Never faster than it is."
        )

    def action_remove(self) -> None:
        self._on_member("remove", "The disk leaves the array and is free for other things.")

    def action_re_add(self) -> None:
        self._on_member("re_add", "Only what changed while it was away is copied: the bitmap tells which regions.")

    def _on_member(self, operation: str, note: str) -> None:
        status, disk = target_array(self.desk.lab), selected_disk(self.desk.lab)
        if status is None or disk is None:
            return
        name = status.name

        def make(session: LabSession) -> Plan:
            from lab.session import plans

            plan: Plan = getattr(plans, operation)(session, name, disk.name)
            return plan

        self.desk.operations.ask(make, note=note)

    def action_add(self) -> None:
        status, disk = target_array(self.desk.lab), joining_disk(self.desk.lab)
        if status is None or disk is None:
            return
        name = status.name

        def make(session: LabSession) -> Plan:
            from lab.session import plans

            return plans.add(session, name, disk.name)

        note = f"md rebuilds {name} on it at once." if status.is_degraded else f"{name} is whole: it waits as a spare."
        if isinstance(status, VolumeArray):
            note = adding_note(status)
        self.desk.operations.ask(make, note=note)

    def action_replace(self) -> None:
        found, disk, new = selected_member(self.desk.lab), selected_disk(self.desk.lab), joining_disk(self.desk.lab)
        if found is None or disk is None or new is None:
            return
        name = found[0].name

        def make(session: LabSession) -> Plan:
            from lab.session import plans

            return plans.replace(session, name, disk.name, new.name)

        self.desk.operations.ask(
            make, note=f"{disk.name} is copied to {new.name}; {name} keeps its redundancy throughout."
        )

    def action_scrub(self) -> None:
        status = target_array(self.desk.lab)
        if status is None:
            return
        name = status.name
        choices = [
            Choice("check", "Check", "Read everything and count where copies or parity differ", "c"),
            Choice("repair", "Repair", "Make parity or copies agree again; which side was right md cannot know", "r"),
            Choice("stop", "Stop", "End a check or repair that runs", "s"),
        ]

        def then(action: str) -> None:
            if action == "stop":
                self.desk.operations.leave(name)

            def make(session: LabSession) -> Plan:
                from lab.session import plans

                return plans.scrub(session, name, action)

            self.desk.operations.make_and_run(make)

        self._pick(f"Scrub {name}", choices, then)

    def action_throttle(self) -> None:
        status = target_array(self.desk.lab)
        if status is None:
            return
        name = status.name
        choices = [
            Choice(str(speed), f"{speed} MiB/s", "at most, for each member", str(number))
            for number, speed in enumerate(_SPEEDS_MIB, start=1)
        ]
        choices.append(
            Choice("0", "No limit of its own", "md's defaults: the load comes first, but 1 MB/s is kept", "0")
        )
        intro = f"How fast may {name} be rebuilt or checked? The load gets what the sync leaves."

        def then(speed: str) -> None:
            kib = int(speed) * _KIB_PER_MIB or None

            def make(session: LabSession) -> Plan:
                from lab.session import plans

                return plans.speed(session, name, minimum_kib_per_second=kib, maximum_kib_per_second=kib)

            self.desk.operations.make_and_run(make)

        self._pick(f"Throttle {name}", choices, then, intro)

    def action_stop(self) -> None:
        self._on_array("stop", "The data stay on the disks; Enter on the array starts it again.")

    def action_destroy(self) -> None:
        self._on_array("destroy", "The array's data cannot be brought back after this. Its disks become free.")

    def start_array(self, name: str) -> None:
        """Start one that does not run."""
        self._start(name)

    def _on_array(self, operation: str, note: str) -> None:
        status = target_array(self.desk.lab)
        if status is None:
            return
        name = status.name

        def make(session: LabSession) -> Plan:
            from lab.session import plans

            plan: Plan = getattr(plans, operation)(session, name)
            return plan

        self.desk.operations.ask(make, note=note)

    def _start(self, name: str) -> None:
        def make(session: LabSession) -> Plan:
            from lab.session import plans

            return plans.assemble(session, name)

        self.desk.operations.ask(make)


FIRST_ARRAY_NOTE = (
    "Four disks: three hold data, one disk's worth holds parity, spread over all four. Any one disk may die "
    "and nothing is lost. The other disks stay free, to replace the one that you will break."
)


def first_array(session: LabSession) -> Plan:
    """A RAID 5 on the first free disks of one size, with a bitmap that suits small disks."""
    from lab.arrays.spec import ArraySpec, Bitmap
    from lab.session import checks, plans
    from lab.units import KIB

    free = checks.free_disks(session)
    members = tuple(disk.node for disk in free[:FIRST_MEMBERS])
    name = checks.free_name(checks.array_names(session))
    spec = ArraySpec(
        level="raid5",
        members=members,
        name=name,
        chunk_bytes=64 * KIB,
        bitmap=Bitmap.INTERNAL,
        bitmap_chunk_bytes=256 * KIB,
    )
    return plans.create(session, spec)


def workload_choices() -> list[Choice]:
    """The catalogue, the usual ones first."""
    from lab.workloads.catalogue import all_workloads

    found = all_workloads()
    first = [name for name in USUAL_LOADS if name in found]
    names = [*first, *(name for name in sorted(found) if name not in first)]
    return [
        Choice(name, name, found[name].title, str(number) if number <= len(first) else "")
        for number, name in enumerate(names, start=1)
    ]
