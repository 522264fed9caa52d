"""Guests: which files root on a machine can read, and how its kernel ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from lab.drills.schema import catalogue
from lab.host.files import HostFiles
from lab.machine.stand_still import group_members
from tests.hardening.workbench import Bench, Done, expect
from tests.kernel.place import record_of

pytestmark = pytest.mark.wide

_SECRET = "SECRET-KEY-OF-THE-USER"
_MINUTES = 150.0


@pytest.mark.kernel
def test_a_drill_from_outside_reads_no_file_of_the_user_and_is_announced(bench: Bench) -> None:
    key = bench.file("id_rsa", _SECRET)
    drill = Path(catalogue()["01-dropped-members"]).read_text(encoding="utf-8")
    name = f'--name="$(cat {key} | cut -c1-31)"'
    head, body = drill.replace('id = "01-dropped-members"', 'id = "99-friend"', 1).split("[[setup]]", 1)
    friend = bench.file("99-friend.toml", f"{head}[[setup]]{body.replace('--name=data', name)}")
    expect(name in Path(friend).read_text(encoding="utf-8"), "the drill does not ask for the key")
    verified = bench.run("drill", "verify", friend).worked()
    expect("does not come with raidlab" in verified.out and str(key) in verified.out, str(verified))
    started = bench.run("drill", "start", friend, on_machine=True, seconds=_MINUTES)
    expect("does not come with raidlab" in started.err, str(started))
    script = (
        f"mkdir /run/all; mount -t hostfs none /run/all; cat {key} /run/all{key}; mdadm --examine /dev/ubd?; ls /mnt"
    )
    seen = bench.run("exec", "--", script, on_machine=True)
    expect("No such file" in seen.out or "denied" in seen.out, f"the key was not looked for: {seen}")
    for done in (started, seen):
        expect(_SECRET not in done.said, str(done))
    for path in bench.state.rglob("*"):
        if path.is_file() and path.suffix != ".img":
            expect(_SECRET.encode() not in path.read_bytes(), f"{path} holds it")


@pytest.mark.kernel
def test_a_full_disk_of_the_computer_stops_the_machine_before_md_loses_a_member(bench: Bench) -> None:
    create = ("array", "create", "--level", "5", "--disks", "3", "--assume-clean")
    bench.run(*create, on_machine=True, seconds=_MINUTES).worked()
    room = os.statvfs(bench.state)
    # To the lab, little usable room looks the same as a full file system.
    spare = room.f_bavail * room.f_frsize - (80 << 20)
    full = {"RAIDLAB_KEEP_FREE": str(spare)}
    fill = "dd if=/dev/urandom of=/dev/md0 bs=1M count=900 oflag=direct"
    done = bench.run("exec", "--", fill, environment=full, on_machine=True, seconds=_MINUTES)
    expect(done.status == 4 and "no space for the lab's disks on this computer" in done.err, str(done))
    expect("free some space on this computer's disk" in done.err and "assemble NAME --force" in done.err, str(done))
    # Reading still works; with enough room everything works again.
    for environment in (full, {}):
        seen = bench.run("exec", "--", "cat /proc/mdstat", environment=environment, on_machine=True, seconds=_MINUTES)
        expect("[3/3] [UUU]" in seen.out, str(seen))


@pytest.mark.kernel
def test_a_machine_that_is_stopped_with_all_of_its_processes_goes_on_or_says_so(bench: Bench) -> None:
    line = "for i in $(seq 300); do for j in 1 2 3 4 5 6 7 8 9; do :; done; cat /proc/mdstat; done; echo at the end"
    process = bench.start("exec", "--", line)
    assert process.stdout
    process.stdout.readline()
    record = record_of(bench.state)
    stopped = [process.pid, record["supervisor"], *group_members(HostFiles(), record["kernel_group"])]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        # Longer than the client waits for a hung kernel.
        time.sleep(12 if number == signal.SIGSTOP else 0)
    out, err = process.communicate(timeout=_MINUTES)
    done = Done(("exec",), process.returncode, out.decode(), err.decode())
    is_over = done.status == 0 and "at the end" in done.out
    is_told = done.status == 4 and "SIGSTOP" in done.err and "  next: " in done.err
    expect(is_over or is_told, str(done))
    bench.run("array", "show", on_machine=True).is_answer()
