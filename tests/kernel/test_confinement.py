"""The computer's files as seen from the embedded kernel: root there tries all it can, and nothing outside changes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.machine import EmbeddedOptions, TargetKind, open_machine
from lab.machine.api import Machine
from tests.kernel.place import disk_name, host_at, kernel_target, record_of
from tests.kernel.test_machine import sparse_disks

pytestmark = pytest.mark.kernel

# $V: a folder of the computer, by its own path; $H: the same folder through a mount of the intruder; $W: a folder
# that the kernel can write; $L: a folder in the machine's memory. Each way uses its own file in $V.
WAYS = {
    "remount": "echo in >> $V/remount",
    "bind mount": "mkdir $L/bind; mount --bind $V $L/bind; mount -o remount,bind,rw $L/bind; echo in >> $L/bind/bind",
    "own hostfs mount": "echo in >> $H/hostfs",
    "create": "echo in > $H/created",
    "unlink": "rm -f $H/unlink",
    "rename": "mv $H/rename $H/renamed",
    "make folder": "mkdir $H/new-folder",
    "remove folder": "rmdir $H/empty",
    "truncate": "truncate -s 0 $H/truncate",
    "mode": "chmod 777 $H/mode",
    "times": "touch -d @1 $H/times",
    "fifo": "mkfifo $H/fifo",
    "device": "mknod $H/device b 98 0",
    "symbolic link": "ln -s $V/symlink $W/symlink; echo in >> $W/symlink",
    "hard link": "mkdir $L/all; mount -t hostfs none $L/all; ln $L/all$V/hardlink $L/all$W/hardlink;"
    " echo in >> $W/hardlink",
    "loop disk": "dev=$(losetup --show -f $H/loop); dd if=/dev/zero of=$dev bs=4k count=1 conv=fsync; losetup -d $dev",
    "device mapper": "dev=$(losetup --show -f $H/mapped); echo 0 8 linear $dev 0 | dmsetup create mapped;"
    " dd if=/dev/zero of=/dev/dm-0 bs=4k count=1 conv=fsync; dmsetup remove mapped; losetup -d $dev",
    "array": "dev=$(losetup --show -f $H/member); mdadm --create /dev/md77 --run --force -l 1 -n 2 $dev missing;"
    " mdadm --stop /dev/md77; losetup -d $dev",
    "core file": "echo $H/core > /proc/sys/kernel/core_pattern; sh -c 'ulimit -c unlimited; kill -SEGV $$'",
    "another lab": "dd if=/dev/zero of=$H/labs/other/disks/disk01.img bs=4096 count=1 conv=notrunc,fsync",
    "results": "echo in >> $H/results/1/record.json",
    "ssh keys": "echo in >> $H/.ssh/authorized_keys",
    # It names the processes that are killed at the end.
    "own record": "echo in >> $W/../kernel.json",
}
# Only root may create a device node on the computer.
ROOTS_WAYS = {"device"}
# Newer mount programs would pass hostfs's folder in a way that mount(2) does not need (mount(8)).
NAMES = "export LIBMOUNT_FORCE_MOUNT2=always; V={victim} H=/run/intruder W={folder}/uml L=/run; "
PREPARE = (
    "modprobe -a loop dm_mod raid1; umount -l /tmp; for place in / $V ${W%/uml}; do mount -o remount,rw $place; done;"
    " mkdir -p $H; mount -t hostfs -o $V none $H;"
    " ulimit -c unlimited"
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    for path in (folder, folder / "empty", folder / ".ssh", folder / "labs/other/disks", folder / "results/1"):
        path.mkdir(parents=True)
    names = ("remount", "bind", "hostfs", "unlink", "rename", "truncate", "mode", "times", "symlink", "hardlink")
    for name in (*names, ".ssh/authorized_keys", "results/1/record.json"):
        (folder / name).write_text("untouched")
        (folder / name).chmod(0o644)
    for name in ("loop", "mapped", "member", "labs/other/disks/disk01.img"):
        (folder / name).write_bytes(b"\1" * (4 << 20))
    return folder


def picture(victim: Path) -> dict[Path, tuple[int, ...]]:
    """Metadata of each file that the kernel was not given; a write changes the file's time."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in (*victim.rglob("*"), *victim.parent.glob("state/machines/*/*")):
        status = path.lstat()
        if path.name not in ("uml", "console.log"):
            found[path] = (status.st_mode, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


@contextmanager
def intruder(victim: Path, layers: tuple[str, ...] | None) -> Iterator[tuple[Machine, str, Path]]:
    """A machine prepared by its root user, the start of each script, and the state folder."""
    state = victim.parent / "state"
    # The folder is shown to the machine, since this test is about writing.
    options = EmbeddedOptions(disks=sparse_disks(victim.parent, 1), layers=layers, shown=(victim,))
    with open_machine(kernel_target(), host_at(state), embedded=options) as machine:
        (folder,) = (state / "machines").glob("[0-9]*")
        names = NAMES.format(victim=victim, folder=folder)
        machine.run(["sh", "-c", names + PREPARE], check=False)
        yield machine, names, state


@pytest.mark.uml
def test_unconfined_all_of_it_can_be_done(victim: Path) -> None:
    with intruder(victim, ()) as (machine, names, state):
        assert record_of(state)["confined_by"] == []
        for way, script in WAYS.items():
            if way in ROOTS_WAYS and os.geteuid() != 0:
                continue
            before = picture(victim)
            output = machine.run(["sh", "-c", names + script], check=False)
            assert picture(victim) != before, (way, output.stderr)


def test_a_lab_in_shared_memory_has_its_own_and_no_more(victim: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        disks = sparse_disks(Path(shared), 1)
        neighbour = Path(shared) / "neighbour"
        neighbour.write_text("untouched")
        options = EmbeddedOptions(disks=disks)
        with open_machine(kernel_target(), host_at(Path(shared) / "state"), embedded=options) as machine:
            script = (
                f"umount -l /dev/shm /dev; mount -o remount,rw /; dd if=/dev/zero of={neighbour} conv=notrunc count=1"
            )
            output = machine.run(["sh", "-c", script], check=False)
            assert "Read-only file system" in output.stderr
            memory = list(Path("/dev/shm").glob(f"raidlab-{os.getpid()}-*"))
            # QEMU does not keep the guest's memory in a file.
            assert len(memory) == (kernel_target().kind is TargetKind.UML)
            assert all((path.stat().st_mode & 0o777, list(path.iterdir())) == (0o700, []) for path in memory)
        assert neighbour.read_text() == "untouched"
        assert not any(path.exists() for path in memory)


@pytest.mark.uml
def test_its_memory_lies_in_the_state_folder_where_shared_memory_has_no_room(
    victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.machine.state_folder.memory_folder", lambda _: Path("/proc/none/memory"))
    with intruder(victim, None) as (machine, _, state):
        assert machine.run(["true"]).status == 0
        (folder,) = (state / "machines").glob("[0-9]*")
        maps = Path(f"/proc/{record_of(state)['kernel_group']}/maps").read_text()
        assert f"{folder}/memory/" in maps
        # Another user cannot reach the management console in it either.
        assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("layers", [None, ("namespace",), ("landlock", "seccomp")])
def test_confined_none_of_it_has_an_effect(victim: Path, layers: tuple[str, ...] | None) -> None:
    with intruder(victim, layers) as (machine, names, state):
        before = picture(victim)
        # QEMU filters its own system calls.
        own = {"seccomp"} if kernel_target().kind is TargetKind.QEMU else set()
        expected = [layer for layer in layers or ("namespace", "landlock", "seccomp") if layer not in own]
        assert record_of(state)["confined_by"] == expected
        for way, script in WAYS.items():
            machine.run(["sh", "-c", names + script], check=False)
            assert picture(victim) == before, way
        # The kernel can write what it was given, even during an attack.
        machine.run(["dd", "if=/dev/urandom", f"of=/dev/{disk_name(0)}", "bs=1M", "count=2", "conv=fsync"])
    image = victim.parent / "disk0"
    assert image.read_bytes()[: 2 << 20] != bytes(2 << 20)


SECRET = "BEGIN-OPENSSH-PRIVATE-KEY"
# Each prints the secret if it can read it; $S is its path.
READS = {
    "by its path": "cat $S",
    "own hostfs mount": "mkdir -p /run/all; mount -t hostfs none /run/all; cat /run/all$S",
    "hostfs of its folder": "mkdir -p /run/part; mount -t hostfs -o ${S%/*} none /run/part; cat /run/part/${S##*/}",
    "loop disk": "modprobe loop; dev=$(losetup --show -rf /run/all$S); head -c 64 $dev; losetup -d $dev",
    "search": "grep -rs --include=${S##*/} BEGIN-OPENSSH /home /root /tmp /mnt /opt /srv /run/all/home /run/all/tmp",
    "name of an array": "modprobe loop; truncate -s 20M /run/member; dev=$(losetup --show -f /run/member);"
    ' mdadm --create /dev/md77 --run --force -l 1 -n 2 $dev missing --name="$(cat $S /run/all$S)";'
    " mdadm --examine $dev | grep -i name; mdadm --stop /dev/md77; losetup -d $dev",
    "other processes": "cat /run/all/proc/[0-9]*/environ /run/all/proc/[0-9]*/cmdline | tr '\\0' '\\n'",
}


@pytest.mark.parametrize("layers", [None, ("namespace",), ("landlock", "seccomp")])
def test_confined_no_file_of_the_user_is_read(tmp_path: Path, layers: tuple[str, ...] | None) -> None:
    secret = tmp_path / "a home/.ssh/id_rsa"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    options = EmbeddedOptions(layers=layers)
    witness = ["sleep", f"{60 + os.getpid()}"]
    with (
        subprocess.Popen(witness, env={**os.environ, "LEAK": SECRET}) as process,
        open_machine(kernel_target(), host_at(tmp_path / "state"), embedded=options) as machine,
    ):
        try:
            for way, script in READS.items():
                output = machine.run(
                    ["sh", "-c", f"export LIBMOUNT_FORCE_MOUNT2=always S='{secret}'; {script}"], check=False
                )
                assert SECRET not in output.stdout + output.stderr, way
                assert witness[1] not in output.stdout, way
            # The places where people look first exist and are empty.
            assert machine.run(["ls", "-A", "/mnt", "/media", "/srv", "/opt", "/root"]).stdout.split() == [
                *("/media:", "/mnt:", "/opt:", "/root:", "/srv:")
            ]
            assert machine.run(["sh", "-c", "echo x > ~/note && cat ~/note"]).stdout == "x\n"
        finally:
            process.kill()


def test_shared_folders_are_readable_and_nothing_else(tmp_path: Path) -> None:
    script, other = tmp_path / "shown/job.sh", tmp_path / "other.sh"
    script.parent.mkdir()
    for path in (script, other):
        path.write_text("echo from outside")
    target = kernel_target(f"show={script.parent}")
    with open_machine(target, host_at(tmp_path / "state")) as machine:
        assert machine.run(["sh", str(script)]).stdout == "from outside\n"
        assert machine.run(["sh", "-c", f"echo x >> {script}"], check=False).status != 0
        assert machine.run(["test", "-e", str(other)], check=False).status == 1
    assert script.read_text() == "echo from outside"
