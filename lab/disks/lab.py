"""A lab: an open machine, its lab disks, and the guard that stands before every step."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from lab.disks.attaching import (
    DRIVE_PLUGIN,
    DRIVE_PLUGIN_EMBEDDED,
    LOOP_FOLDER,
    LOOP_FOLDER_EMBEDDED,
    PACE_PROGRAM,
    RUN_FOLDER,
    Attachment,
    detach_plan,
    driver_plan,
    loop_attachment,
    ram_attachments,
    reset_plan,
    spindle_attachment,
)
from lab.disks.backing import is_unused, needs_backing, take, with_backing
from lab.disks.drive_install import install_drive
from lab.disks.guard import Guard
from lab.disks.inventory import read_devices, resolve_node
from lab.disks.kinds import SERIAL_PREFIX, DiskKind, DiskSpec, LabDisk
from lab.disks.lab_files import LabFolder, lab_folder, read_registry, scratch_folder, ubd_disks, write_registry
from lab.disks.personalities import TRANSPORT_MILLISECONDS, find_personality
from lab.errors import CommandFailed, DeviceRefused, LabError, ModuleMissing, SpecError
from lab.machine import EmbeddedOptions, Host, Machine, Target, TargetKind, open_machine
from lab.machine.embedded import DEFAULT_MEMORY_BYTES
from lab.plans import Plan, Step
from lab.tomlfile import unknown_word
from lab.units import MIB, human_bytes

DRIVE_SERVER_BYTES = 4 * MIB
"""Memory of the machine for each spindle's server, the medium aside."""

_LONG_INPUT_BYTES = 8192


class Lab:
    """Runs plans on a machine, and knows the disks that they may write on."""

    def __init__(self, machine: Machine, host: Host, disks: Iterable[LabDisk]) -> None:
        self.machine = machine
        self.host = host
        self._disks = tuple(disks)
        self.guard = Guard(machine, self._disks)
        self._detach: list[tuple[tuple[LabDisk, ...], Plan]] = []
        self._folder: LabFolder | None = None
        self._never_written: set[str] = set()

    @property
    def disks(self) -> tuple[LabDisk, ...]:
        """All disks of the lab, by name."""
        return self._disks

    def disk(self, word: str) -> LabDisk:
        """A disk by name, serial or node. Raises SpecError with the nearest name."""
        for disk in self._disks:
            if word in (disk.name, disk.serial, disk.node, disk.kernel_name):
                return disk
        raise unknown_word("lab disk", word, [disk.name for disk in self._disks])

    def execute(self, plan: Plan, *, before_step: Callable[[Step], None] | None = None) -> None:
        """Run a plan, each step past the guard. Raises what the first failing step raises."""
        plan.run(self._run_step, before_step=before_step)

    def _run_step(self, step: Step) -> None:
        self.guard.check(step)
        self._install_programs(step)
        self._never_written.difference_update(step.writes_devices)
        try:
            argv, text = packed(step.argv, step.stdin_text)
            self.machine.run(argv, timeout_seconds=step.timeout_seconds, stdin_text=text)
        except CommandFailed as error:
            raise explain(error, self.machine.facts.target) from error

    def _install_programs(self, step: Step) -> None:
        """Put the lab's own program on the machine that a step calls, unless it is there."""
        for plugin in {DRIVE_PLUGIN, DRIVE_PLUGIN_EMBEDDED} & set(step.argv):
            install_drive(self.machine, plugin)
        if PACE_PROGRAM not in step.argv:
            return
        text = Path(__file__).with_name("pace_program.py").read_text(encoding="utf-8")
        if self.machine.read([PACE_PROGRAM])[PACE_PROGRAM] != text:
            self.machine.write(PACE_PROGRAM, text)

    def use(self, disks: Iterable[LabDisk]) -> None:
        """Restrict the lab to these of its disks, perhaps under other names."""
        self._set_disks(disks)

    def attach(self, specs: Sequence[DiskSpec]) -> tuple[LabDisk, ...]:
        """Make further disks. Those attached before a failure are detached again."""
        for spec in specs:
            spec.validate()
        names = {disk.name for disk in self._disks}
        clash = [spec.name for spec in specs if spec.name in names]
        if clash:
            raise SpecError(f"disks named {', '.join(clash)} are there already", hint="choose other names")
        specs = with_backing(self.machine, self._disks, specs)
        before = len(self._detach)
        made: list[LabDisk] = []
        try:
            for kind in dict.fromkeys(spec.kind for spec in specs):
                made += self._attach_kind(kind, [spec for spec in specs if spec.kind is kind])
        except BaseException:
            self._release_since(before)
            raise
        covered = {disk.backing for disk in made if disk.kind is DiskKind.SPINDLE}
        self._set_disks([*(disk for disk in self._disks if disk.node not in covered), *made])
        return tuple(made)

    def _attach_kind(self, kind: DiskKind, specs: list[DiskSpec]) -> list[LabDisk]:
        if kind is DiskKind.PHYSICAL:
            return [self._physical(spec) for spec in specs]
        if kind in (DiskKind.FILE, DiskKind.VIRTIO):
            raise SpecError(
                f"{kind} disks cannot be added to {self.machine.facts.target} while it runs",
                hint="use loop, spindle or ram disks",
            )
        if kind is DiskKind.RAM:
            # A second modprobe would change nothing, and the new disks would be the old ones under other names.
            if any(disk.kind is DiskKind.RAM for disk in self._disks):
                raise SpecError(
                    "there are ram disks already, and more cannot be added", hint="remove them, then add all at once"
                )
            disks, plan = ram_attachments(specs)
            self.execute(plan)
            remove = Plan("Remove ram disks", (Step(("modprobe", "-r", "brd"), "The memory is given back."),))
            self._detach.append((disks, remove))
            return list(disks)
        self.execute(driver_plan(kind))
        made = []
        for spec, number in zip(specs, self._free_numbers(kind), strict=False):
            attachment = self._attachment(spec, number)
            self._attach_whole(attachment)
            made.append(attachment.disk)
        if len(made) < len(specs):
            raise LabError(f"no free {kind} device for {len(specs) - len(made)} disks", hint="detach some first")
        return made

    def _attach_whole(self, attachment: Attachment) -> None:
        """All steps of an attachment, or none: what was done before a failure is undone."""
        done: list[Step] = []
        try:
            for step in attachment.attach.steps:
                self._run_step(step)
                done.append(step)
        except BaseException:
            for step in reversed(done):
                if step.undo:
                    self.machine.run(step.undo, check=False)
            raise
        self._detach.append(((attachment.disk,), attachment.detach))

    def _attachment(self, spec: DiskSpec, number: int) -> Attachment:
        if spec.kind is DiskKind.SPINDLE:
            transport = 0.0 if self.machine.facts.is_virtual_time else TRANSPORT_MILLISECONDS
            plugin = DRIVE_PLUGIN_EMBEDDED if self.machine.facts.is_embedded else DRIVE_PLUGIN
            return spindle_attachment(spec, number, drive_plugin=plugin, transport_milliseconds=transport)
        # The embedded kernel's only writable file system is in memory, which knows no direct I/O.
        is_embedded = self.machine.facts.is_embedded
        folder = LOOP_FOLDER_EMBEDDED if is_embedded else LOOP_FOLDER
        return loop_attachment(spec, number, folder=folder, direct=not is_embedded)

    def _free_numbers(self, kind: DiskKind) -> list[int]:
        prefix = "loop" if kind is DiskKind.LOOP else "nbd"
        names = self.machine.list_dirs(["/sys/block"])["/sys/block"]
        numbers = sorted(
            int(name[len(prefix) :]) for name in names if name[len(prefix) :].isdigit() and name.startswith(prefix)
        )
        sizes = self.machine.read([f"/sys/block/{prefix}{number}/size" for number in numbers])
        return [number for number in numbers if (sizes[f"/sys/block/{prefix}{number}/size"] or "0").strip() == "0"]

    def _physical(self, spec: DiskSpec) -> LabDisk:
        node = resolve_node(self.machine, spec.backing)
        device = read_devices(self.machine).get(node.removeprefix("/dev/"))
        if device is None:
            raise DeviceRefused(f"{spec.backing} is no whole disk", hint="name the disk, not a partition of it")
        disk = LabDisk(
            name=spec.name,
            kind=spec.kind,
            node=node,
            size_bytes=device.size_bytes,
            serial=device.serial,
            backing=spec.backing,
        )
        probe = Guard(self.machine, [disk])
        probe.check(Step(("true",), "Ask the guard.", writes_devices=(node,)))
        probe.check_blank([node])
        return disk

    def detach(self, disks: Sequence[LabDisk]) -> None:
        """Take disks away. Raises DeviceRefused for one that is in use, SpecError for some of several ram disks."""
        left = {disk.name for disk in self._disks if disk.kind is DiskKind.RAM} - {disk.name for disk in disks}
        if left and any(disk.kind is DiskKind.RAM for disk in disks):
            raise SpecError("ram disks go all at once", hint=f"remove {', '.join(sorted(left))} as well")
        self.check_blank([disk.node for disk in disks if disk.kind is not DiskKind.PHYSICAL])
        wanted = {disk.name for disk in disks}
        for index, (attached, plan) in reversed(list(enumerate(self._detach))):
            if wanted & {disk.name for disk in attached}:
                self.execute(plan)
                del self._detach[index]
                wanted -= {disk.name for disk in attached}
        # What is left was attached by an earlier command.
        for disk in disks:
            if disk.name in wanted:
                self.execute(detach_plan(disk))
        wanted = {disk.name for disk in disks}
        bared = {disk.backing for disk in disks if disk.kind is DiskKind.SPINDLE}
        again = [disk for disk in virtio_disks(self.machine) if disk.node in bared] if bared - {"memory"} else []
        self._set_disks([*(disk for disk in self._disks if disk.name not in wanted), *again])

    def check_unused(self, disks: Sequence[LabDisk]) -> None:
        """Raises DeviceRefused for a disk that an array or a mount uses."""
        devices = read_devices(self.machine, [disk.kernel_name for disk in disks])
        for disk in disks:
            device = devices.get(disk.kernel_name)
            if device and (device.holders or device.mounted_on):
                used = ", ".join((*device.holders, *device.mounted_on))
                raise DeviceRefused(
                    f"{disk.name} ({disk.node}) is in use by {used}", hint="stop the array or unmount it first"
                )

    def reset(self, disks: Sequence[LabDisk]) -> None:
        """Make disks blank. Raises DeviceRefused for a disk that an array or a mount uses."""
        self.check_unused(disks)
        for disk in disks:
            self.execute(reset_plan(disk))

    def keep_files_in(self, folder: LabFolder) -> None:
        """Tell where the images of file disks are."""
        self._folder = folder
        blank = {spec.name for spec in folder.specs if spec.kind is DiskKind.FILE and folder.is_never_written(spec)}
        self._never_written = {disk.node for disk in self._disks if disk.name in blank}

    def can_hold_data(self, node: str) -> bool:
        """False for a disk that was never written on since it was made: then there is nothing to look for."""
        return node not in self._never_written

    def expect_data(self) -> None:
        """Any disk may hold data from now on: someone worked on the machine past this lab."""
        self._never_written.clear()

    def check_blank(self, nodes: Iterable[str]) -> None:
        """As Guard.check_blank; disks that were never written on need no look."""
        looked_at = [node for node in nodes if self.can_hold_data(node)]
        if looked_at:
            self.guard.check_blank(looked_at)

    @property
    def folder(self) -> LabFolder | None:
        """The folder with the images of file disks; None where the machine keeps its disks itself."""
        return self._folder

    def drop_host_cache(self, disks: Iterable[LabDisk]) -> bool:
        """Make this computer forget its cached copy of these disks' images; False where there are none here."""
        return self._folder.drop_host_cache({disk.name for disk in disks}) if self._folder else False

    def start_writing_out(self, disks: Iterable[LabDisk]) -> None:
        """Have what was written to these disks' images go to the computer's own disk while other things happen."""
        if self._folder:
            self._folder.start_writing_out({disk.name for disk in disks})

    def release(self) -> None:
        """Detach what this lab attached, newest first."""
        self._release_since(0)

    def _release_since(self, index: int) -> None:
        while len(self._detach) > index:
            _, plan = self._detach.pop()
            for step in plan.steps:
                self.machine.run(step.argv, check=False)

    def _set_disks(self, disks: Iterable[LabDisk]) -> None:
        self._disks = tuple(sorted(disks, key=lambda disk: disk.name))
        self.guard.set_disks(self._disks)


def packed(argv: tuple[str, ...], stdin_text: str) -> tuple[tuple[str, ...], str]:
    """A command and its input, compressed where that saves time: an embedded kernel's serial line is slow."""
    if len(stdin_text) < _LONG_INPUT_BYTES:
        return argv, stdin_text
    # The exit status is that of the last in the line: the command itself.
    text = base64.b64encode(gzip.compress(stdin_text.encode(), mtime=0)).decode()
    return ("sh", "-c", 'base64 -d | gzip -dc | "$@"', "unpack", *argv), text


def explain(error: CommandFailed, target: str) -> LabError:
    """A failed command as the error that it really is."""
    said = error.stderr_tail
    if "Module" in said and "not found" in said:
        module = said.partition("Module ")[2].split()[0]
        return ModuleMissing(
            f"the kernel of {target} has no driver '{module}'",
            hint="install the distribution's extra kernel modules there (Ubuntu: linux-modules-extra-$(uname -r))",
        )
    if "No space left on device" in said:
        return LabError(f"{target} is full: {error.message}", hint="free room there, then try again")
    return error


@contextmanager
def open_lab(
    target: Target,
    host: Host,
    *,
    wanted: Sequence[DiskSpec] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
    on_machine: Callable[[Machine], None] = lambda _: None,
) -> Iterator[Lab]:
    """Open the machine with its lab disks, and close both whatever happens.

    Without ``wanted`` this is the lab that lasts: the named lab of the embedded kernel (``uml:?name=…``, nine file
    disks when new), or the disks that were attached on the machine. With ``wanted`` the lab has exactly these disks,
    blank, and they are gone when it closes; ``file`` then means the machine's plain disks: virtio where it has them,
    otherwise loop.
    """
    if target.kind is TargetKind.UML:
        opened = _open_embedded(target, host, wanted, on_notice, on_machine)
    else:
        opened = _open_attached(target, host, wanted, on_notice, on_machine)
    with opened as lab:
        yield lab


@contextmanager
def _open_embedded(
    target: Target,
    host: Host,
    wanted: Sequence[DiskSpec] | None,
    on_notice: Callable[[str], None],
    on_machine: Callable[[Machine], None],
) -> Iterator[Lab]:
    for notice in host.state.sweep():
        on_notice(notice)
    folder = (
        lab_folder(host.state, target.options.get("name", "default"))
        if wanted is None
        else scratch_folder(host.state, wanted)
    )
    with folder:
        files = [spec for spec in folder.specs if spec.kind is DiskKind.FILE]
        others = [spec for spec in folder.specs if spec.kind is not DiskKind.FILE]
        folder.make_files(files)
        memory = DEFAULT_MEMORY_BYTES + sum(spec.size_bytes for spec in others if not spec.backing)
        memory += sum(_server_bytes(spec) for spec in others if spec.kind is DiskKind.SPINDLE)
        options = EmbeddedOptions(disks=ubd_disks(folder, files), memory_bytes=memory, kept_locks=(folder.lock_fd,))
        with open_machine(target, host, embedded=options, on_notice=on_notice) as machine:
            on_machine(machine)
            lab = Lab(machine, host, folder.lab_disks(files))
            lab.keep_files_in(folder)
            lab.attach(others)
            try:
                yield lab
            finally:
                _settle(lab)


def _server_bytes(spec: DiskSpec) -> int:
    mechanics = find_personality(spec.personality).mechanics
    return DRIVE_SERVER_BYTES + (mechanics.write_cache_bytes if mechanics else 0)


def _settle(lab: Lab) -> None:
    """Unmount and stop what still runs, so that the next start finds clean arrays. Does nothing on a lost machine."""
    try:
        devices = read_devices(lab.machine)
        for device in devices.values():
            for place in device.mounted_on:
                if place.startswith("/run/raidlab/mnt/"):
                    lab.machine.run(("umount", place), check=False)
        # Mapped devices lie on arrays, and others under them: each time those go that nothing uses.
        has_mapped = any(name.startswith("dm-") for name in devices)
        if has_mapped:
            lab.machine.run(("dmsetup", "remove_all"), check=False, timeout_seconds=30)
        if any(name.startswith("md") for name in devices):
            lab.machine.run(("mdadm", "--stop", "--scan"), check=False, timeout_seconds=30)
        if has_mapped:
            lab.machine.run(("dmsetup", "remove_all"), check=False, timeout_seconds=30)
    except LabError:
        return


@contextmanager
def _open_attached(
    target: Target,
    host: Host,
    wanted: Sequence[DiskSpec] | None,
    on_notice: Callable[[str], None],
    on_machine: Callable[[Machine], None],
) -> Iterator[Lab]:
    with (
        LabFolder.locked(host.state, str(target)),
        open_machine(target, host, on_notice=on_notice) as machine,
    ):
        on_machine(machine)
        # Not there before the lab's first use since the machine started; sockets of spindles go there.
        machine.run(("mkdir", "-p", RUN_FOLDER))
        attached = read_registry(machine)
        covered = {disk.backing for disk in attached if disk.kind is DiskKind.SPINDLE}
        lab = Lab(machine, host, (*(disk for disk in virtio_disks(machine) if disk.node not in covered), *attached))
        if wanted is None:
            yield lab
            write_registry(machine, [disk for disk in lab.disks if disk.kind is not DiskKind.VIRTIO])
            return
        try:
            _choose_plain_disks(lab, wanted)
            yield lab
        finally:
            # Blank as they were taken: an array left on them would start with the machine.
            with suppress(LabError):
                lab.reset([disk for disk in lab.disks if disk.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL)])
            lab.release()


def _choose_plain_disks(lab: Lab, wanted: Sequence[DiskSpec]) -> None:
    """Make the lab have exactly the wanted disks, on the machine's own extra disks as far as they go."""
    devices = read_devices(lab.machine)
    free = [disk for disk in lab.disks if disk.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL)]
    free = [disk for disk in free if is_unused(disk, devices)]
    can_lie_below = any(disk.kind is DiskKind.VIRTIO for disk in free)
    chosen: list[LabDisk] = []
    missing: list[DiskSpec] = []
    below: list[LabDisk] = []
    for spec in wanted:
        if can_lie_below and needs_backing(spec):
            under = take(free, spec)
            below.append(replace(under, name=f"below-{spec.name}"))
            missing.append(replace(spec, backing=under.node))
            continue
        suited = next((disk for disk in free if disk.size_bytes >= spec.size_bytes), None)
        if spec.kind is not DiskKind.FILE or suited is None:
            kind = DiskKind.LOOP if spec.kind is DiskKind.FILE else spec.kind
            missing.append(replace(spec, kind=kind))
        else:
            free.remove(suited)
            chosen.append(replace(suited, name=spec.name))
    lab.use([*chosen, *below])
    lab.reset([*chosen, *below])
    lab.attach(missing)


def virtio_disks(machine: Machine) -> tuple[LabDisk, ...]:
    """The extra disks of a virtual machine: whole disks with a serial RAIDLAB-NN, named disk01 onwards by it."""
    found = [device for device in read_devices(machine).values() if device.serial.startswith(SERIAL_PREFIX)]
    return tuple(
        LabDisk(
            name=f"disk{device.serial.removeprefix(SERIAL_PREFIX)}",
            kind=DiskKind.VIRTIO,
            node=device.node,
            size_bytes=device.size_bytes,
            serial=device.serial,
        )
        for device in sorted(found, key=lambda device: device.serial)
    )


def describe(disk: LabDisk) -> str:
    """One line for people: ``disk01 /dev/ubda 500 MiB file``."""
    kind = f"{disk.kind} {disk.personality}".strip()
    return f"{disk.name} {disk.node} {human_bytes(disk.size_bytes)} {kind}"
