"""The real Packer, libvirt and Vagrant, from a clone in which nothing was built. In order: one machine's life."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.units import KIB
from tests.conftest import built_kernel
from tests.vm.computer import IMAGE, REPOSITORY, Computer
from tests.vm.conftest import VirtualLab
from tests.waiting import wait_until
from tests.window import Window

pytestmark = pytest.mark.vm

# Operating-system commands, control sequences, and the short ones that choose a character set.
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")
DISK_BYTES = 500 * 1024 * 1024
EXPERIMENT = Path(__file__).with_name("small.toml")
DRIVES = Path(__file__).with_name("drives.toml")
MARK = "+changed.here"
RAIDLAB = str(REPOSITORY / ".venv" / "bin" / "raidlab")
SPEED_LIMIT = "/proc/sys/dev/raid/speed_limit_max"
MD_DEFAULT = 200_000


class Terminal(Window):
    """``seen`` is what has been shown since the last keys, without escape sequences."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__(argv, rows=36, environment=environment)
        self._read_from = 0

    @property
    def seen(self) -> str:
        return _ESCAPES.sub(b"", self.output[self._read_from :]).decode("utf-8", "replace")

    def wait_for(self, *words: str, seconds: float = 120) -> None:
        """Until all of these have been shown since the last keys; fails the test with what was shown instead."""
        self.until(lambda: all(word in self.seen for word in words), " and ".join(words), seconds)

    def send(self, keys: str) -> None:
        self._read_from = len(self.output)
        self.type(keys)


def inside(lab: VirtualLab, *argv: str, timeout: float = 300) -> Any:
    """``raidlab --json …`` in the machine."""
    return lab.computer.ssh_json(f"raidlab --quiet --json {' '.join(argv)}", timeout=timeout)


def arrays(lab: VirtualLab) -> dict[str, Any]:
    return {array["name"]: array for array in inside(lab, "array", "show")["arrays"]}


# Before there is a machine


def test_a_class_is_as_many_machines_as_asked_for(computer: Computer) -> None:
    listed = computer.run("vagrant", "status", env={"RAIDLAB_NODES": "3"}).text
    for name in ("raidlab", "raidlab2", "raidlab3"):
        assert f"{name} " in listed
    assert "raidlab2" not in computer.run("vagrant", "status").text


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("RAIDLAB_DISKS", "0", "it must be a whole number from 1 to 16"),
        ("RAIDLAB_DISKS", "abc", "it must be a whole number from 1 to 16"),
        ("RAIDLAB_DISK_SIZE", "500", "it must be a size such as 500M"),
        ("RAIDLAB_DISK_BUS", "ide", "it must be virtio or scsi"),
        ("RAIDLAB_MEMORY", "64M", "from 512M"),
        ("RAIDLAB_CPUS", "two", "from 1 to 64"),
        ("RAIDLAB_NODES", "99", "from 1 to 16"),
        ("RAIDLAB_DRIVER", "xen", "it must be auto, kvm or qemu"),
        ("RAIDLAB_IMAGE", "debian-11", "debian-12-local"),
    ],
)
def test_a_wrong_setting_is_reported_and_nothing_is_started(
    computer: Computer, variable: str, value: str, message: str
) -> None:
    done = computer.run("vagrant", "up", env={variable: value}, check=False)
    assert done.status != 0
    assert f"{variable} is '{value}'" in done.text
    assert message in done.text
    assert "Traceback" not in done.text
    assert ".rb:" not in done.text, "a backtrace is no sentence"
    assert computer.domains() == []
    assert not (computer.clone / "packer" / "output" / IMAGE).exists()


@pytest.mark.slow
def test_a_power_cut_in_a_bake_leaves_nothing_that_passes_for_a_box(computer: Computer) -> None:
    output = computer.clone / "packer" / "output"
    with computer.killed_after("packer/bake.sh", IMAGE):
        # The machine of the bake has begun to write on its disk.
        wait_until(
            lambda: any(b"Linux version" in each.read_bytes() for each in output.glob(".bake-*/console.log")),
            1500,
            lambda: "its kernel has not started",
        )
    assert computer.run("packer/bake.sh", "--status", IMAGE).text == "missing\n"
    # What the next bake has to deal with; the first test after this one checks that it does.
    assert list(output.glob(".bake-*/machine/lab.qcow2"))


# From nothing to a lab


def test_up_from_nothing_bakes_and_ends_with_what_to_type(lab: VirtualLab) -> None:
    assert f"the box of {IMAGE} is not there yet: baking it" in lab.first_up.text
    assert lab.first_up.lines[-1].endswith("the lab is ready; type: vagrant ssh, then: raidlab")
    assert list((lab.computer.clone / "packer" / "output").glob(".bake-*")) == [], "what the power cut left is gone"
    box = lab.computer.clone / "packer" / "output" / IMAGE / f"raidlab-{IMAGE}.box"
    assert box.stat().st_size <= 350 * 10**6


def test_the_doctor_is_content(lab: VirtualLab) -> None:
    output = lab.computer.ssh("raidlab doctor").text
    assert "local: is ready" in output


def test_nine_lab_disks_of_exact_size_and_no_other(lab: VirtualLab) -> None:
    found = inside(lab, "disks")
    assert [(disk["name"], disk["serial"], disk["size_bytes"], disk["kind"]) for disk in found["disks"]] == [
        (f"disk{number:02}", f"RAIDLAB-{number:02}", DISK_BYTES, "virtio") for number in range(1, 10)
    ]
    (system,) = found["refused"]
    assert system["node"] == "/dev/vda"
    assert any("partitions" in reason for reason in system["reasons"])
    refused = lab.computer.ssh("raidlab disks reset /dev/vda", check=False)
    assert refused.status == 2
    for volume in lab.computer.volumes():
        if volume.endswith(".qcow2"):
            used = lab.computer.run("virsh", "vol-info", "--bytes", "--pool", "default", volume).text
            assert int(used.partition("Allocation:")[2].split()[0]) < 4 << 20, f"{volume} is not sparse"


def test_a_student_logs_in_sees_the_commands_and_opens_the_app(lab: VirtualLab) -> None:
    with Terminal(lab.computer.command(["vagrant", "ssh"]), lab.computer.environment) as screen:
        screen.wait_for("raidlab            open the lab", "vagrant@raidlab")
        screen.send("raidlab\r")
        screen.wait_for("Welcome to raidlab", "disk01", "disk09", seconds=300)
        screen.send("\x1b")
        # The screen behind the welcome.
        screen.wait_for("9 of 9 free")
        screen.send("q")
        screen.wait_for("vagrant@raidlab")
        screen.send("exit\r")
        assert screen.end() == 0


def test_the_well_known_key_is_removed_and_passwords_are_refused(lab: VirtualLab) -> None:
    keys = lab.computer.ssh("sudo cat ~vagrant/.ssh/authorized_keys ~root/.ssh/authorized_keys 2>/dev/null; true").text
    assert "insecure" not in keys
    (_,) = [line for line in keys.splitlines() if line.startswith("ssh-")]
    address = lab.computer.ssh("hostname -I").text.split()[0]
    copy = lab.computer.folder / "well-known"
    copy.write_text(well_known_key().read_text())
    copy.chmod(0o600)
    options = ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", str(copy)]
    with_key = lab.computer.run("ssh", *options, f"vagrant@{address}", check=False)
    assert with_key.status == 255
    # The server names what it accepts: only keys.
    assert "Permission denied (publickey)" in with_key.text


def well_known_key() -> Path:
    """The private key that every Vagrant brings, and everybody has."""
    place = subprocess.run(
        ["ruby", "-e", "print Gem::Specification.find_by_name('vagrant').gem_dir"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Path(place.stdout) / "keys" / "vagrant"


def test_nothing_listens_but_sshd(lab: VirtualLab) -> None:
    sockets = lab.computer.ssh("sudo ss -H -lntup").lines
    outside = [line for line in sockets if not any(local in line for local in ("127.0.0.", "[::1]:"))]
    # The client of DHCP has ports for answers (UDP 68, and 546 for IPv6), bound to the interface that it configures.
    others = [
        line for line in outside if "sshd" not in line and not re.search(r"^udp .*:(68|546) .*systemd-network", line)
    ]
    assert others == []
    assert any("sshd" in line for line in outside)


# A lab to work in


def test_raid_1_and_5_keep_the_data_through_failure_and_rebuild_under_load(lab: VirtualLab) -> None:
    lab.computer.run("vagrant", "upload", str(EXPERIMENT), "/tmp/small.toml")
    # At a third of a member per second, a rebuild can be sampled even on fast disks.
    lab.computer.ssh(f"sudo modprobe md_mod && echo {100 * KIB // 3} | sudo tee {SPEED_LIMIT}")
    begin = time.monotonic()
    record = inside(lab, "run", "/tmp/small.toml", timeout=900)
    lab.seconds["experiment on RAID 1 and 5"] = time.monotonic() - begin
    lab.computer.ssh(f"echo {MD_DEFAULT} | sudo tee {SPEED_LIMIT}")
    assert record["status"] == "complete"
    assert {rebuild["array"]: rebuild["data_unchanged"] for rebuild in record["rebuilds"]} == {
        "raid1": True,
        "raid5": True,
    }
    assert {disk["kind"] for disk in record["conditions"]["disks"]} == {"virtio"}


@pytest.mark.slow
def test_a_volume_alone_on_the_disks_is_found_at_a_start(lab: VirtualLab) -> None:
    lab.computer.ssh("raidlab disks reset --all && ! sudo /usr/local/lib/raidlab/has-arrays")
    lab.computer.ssh("raidlab array create --level adapt5 --disks disk07,disk08,disk09 --assume-clean")
    lab.computer.ssh("raidlab array stop adapt0 && sudo systemctl start raidlab-arrays.service")
    (volume,) = inside(lab, "array", "show")["volumes"]
    assert volume["name"] == "adapt0"
    lab.computer.ssh("raidlab array destroy adapt0")


@pytest.mark.slow
def test_what_emulated_drives_show_carries_over_to_the_embedded_kernel(lab: VirtualLab) -> None:
    bundles = []
    # In virtual time it takes seconds instead of minutes.
    embedded = "uml:?time=virtual" if built_kernel("virtual-time") else "uml:"
    for target in ("vagrant:", embedded):
        begin = time.monotonic()
        record = lab.computer.json(RAIDLAB, "--quiet", "--json", "--on", target, "run", str(DRIVES), timeout=1200)
        lab.seconds[f"drives on {target}"] = time.monotonic() - begin
        bundles.append(str(lab.computer.folder / f"{target.partition(':')[0]}.zip"))
        lab.computer.run(RAIDLAB, "export", record["id"], "--to", bundles[-1])
    compared = lab.computer.json(RAIDLAB, "--quiet", "--json", "compare", *bundles)
    conclusions = compared["experiments"]["vm-drives"]["conclusions"]
    # One write is one request of a member, or four: what is slower on the drives is slower on a busy processor too.
    assert {(each["faster"], each["slower"]): each["transfers"] for each in conclusions} == {
        ("raid0", "raid5"): ["carries over"]
    }


@pytest.mark.slow
def test_disks_fail_and_are_replaced_by_hand(lab: VirtualLab) -> None:
    lab.computer.ssh("raidlab disks reset --all")
    lab.computer.ssh("raidlab array create md0 --level 1 --disks disk01,disk02 --wait")
    lab.computer.ssh("raidlab array create md1 --level 5 --disks disk03,disk04,disk05 --wait")
    for name, disk, fresh in (("md0", "disk02", "disk02"), ("md1", "disk04", "disk06")):
        node = f"/dev/{name}"
        fill = f"sudo dd if=/dev/urandom of={node} bs=1M count=64 oflag=direct status=none && sync"
        lab.computer.ssh(fill)
        before = checksum(lab, node)
        lab.computer.ssh(f"raidlab array fail {name} {disk} && raidlab array remove {name} {disk}")
        assert arrays(lab)[name]["degraded_count"] == 1
        assert checksum(lab, node) == before
        lab.computer.ssh(f"raidlab array add {name} {fresh} --wait")
        assert arrays(lab)[name]["degraded_count"] == 0
        assert checksum(lab, node) == before


def checksum(lab: VirtualLab, node: str) -> str:
    return lab.computer.ssh(f"sudo dd if={node} bs=1M count=64 iflag=direct status=none | sha256sum").text.split()[0]


@pytest.mark.slow
def test_spindles_lie_on_virtual_disks(lab: VirtualLab) -> None:
    lab.computer.ssh("raidlab disks add --kind spindle --count 2 --size 200M")
    disks = {disk["name"]: disk for disk in inside(lab, "disks")["disks"]}
    spindles = [disk for disk in disks.values() if disk["kind"] == "spindle"]
    assert [disk["backing"] for disk in spindles] == ["/dev/vdj", "/dev/vdi"]
    names = ",".join(disk["name"] for disk in spindles)
    lab.computer.ssh(f"raidlab array create md7 --level 1 --disks {names} --wait")
    # What is written on the array arrives on the disks beneath.
    lab.computer.ssh("echo a-well-known-word | sudo dd of=/dev/md7 oflag=sync conv=sync,notrunc status=none")
    found = lab.computer.ssh("sudo head -c 64M /dev/vdj | grep -c a-well-known-word")
    assert found.text.split()[0] == "1"
    lab.computer.ssh(f"raidlab array destroy md7 && raidlab disks remove {names.replace(',', ' ')}")
    assert [disk["kind"] for disk in inside(lab, "disks")["disks"]] == ["virtio"] * 9


@pytest.mark.slow
def test_the_client_outside_drives_the_same_lab(lab: VirtualLab) -> None:
    shown = lab.computer.json(RAIDLAB, "--quiet", "--json", "--on", "vagrant:", "array", "show")
    assert {array["name"] for array in shown["arrays"]} == {"md0", "md1"}
    nobody = lab.computer.run(RAIDLAB, "--on", "vagrant:", "disks", cwd=lab.computer.folder, check=False)
    assert nobody.status == 1
    assert f"no Vagrantfile in {lab.computer.folder}" in nobody.text


# A machine that is switched off


@pytest.mark.slow
def test_after_halt_and_up_arrays_run_and_changed_sources_are_reported(lab: VirtualLab) -> None:
    before = {name: checksum(lab, f"/dev/{name}") for name in ("md0", "md1")}
    halted = lab.timed("vagrant halt", "vagrant", "halt")
    assert "copied to" in halted.text
    version = lab.computer.clone / "lab" / "__init__.py"
    version.write_text(re.sub(r'(__version__ = "[^"]+)"', rf'\1{MARK}"', version.read_text()))
    up = lab.timed("vagrant up after a halt", "vagrant", "up")
    assert "older than the sources" in up.text
    assert "'vagrant provision' updates raidlab in it" in up.text
    assert up.lines[-1].endswith("then: raidlab")
    assert {name: array["degraded_count"] for name, array in arrays(lab).items()} == {"md0": 0, "md1": 0}
    assert {name: checksum(lab, f"/dev/{name}") for name in before} == before
    (result,) = inside(lab, "results")
    assert (result["experiment"], result["status"]) == ("vm-small", "complete")


@pytest.mark.slow
def test_provision_updates_raidlab_from_the_working_tree(lab: VirtualLab) -> None:
    assert MARK not in lab.computer.ssh("raidlab --version").text
    lab.timed("vagrant provision", "vagrant", "provision")
    assert MARK in lab.computer.ssh("raidlab --version").text
    assert "older than the sources" not in lab.computer.run("vagrant", "up").text
    # As baked, or the next machine would wait for another bake.
    changed = Path("lab") / "__init__.py"
    (lab.computer.clone / changed).write_text((REPOSITORY / changed).read_text())


@pytest.mark.slow
def test_a_power_cut_in_a_rebuild_is_survived(lab: VirtualLab) -> None:
    before = {name: checksum(lab, f"/dev/{name}") for name in ("md0", "md1")}
    lab.computer.ssh("raidlab array fail md1 disk06 && raidlab array remove md1 disk06")
    # Slow enough to be caught in the middle.
    lab.computer.ssh(f"echo 2000 | sudo tee {SPEED_LIMIT} && raidlab array add md1 disk07")
    assert arrays(lab)["md1"]["degraded_count"] == 1
    (domain,) = lab.computer.domains()
    lab.computer.run("virsh", "destroy", domain)
    lab.computer.run("vagrant", "up", timeout=1200)
    found = arrays(lab)
    assert set(found) == {"md0", "md1"}
    assert found["md0"]["degraded_count"] == 0
    # md goes on with the rebuild when the array is written to next.
    lab.computer.ssh("sudo mdadm --readwrite /dev/md1")
    wait_until(lambda: arrays(lab)["md1"]["degraded_count"] == 0, 1200, lambda: f"not rebuilt: {arrays(lab)}")
    assert {name: checksum(lab, f"/dev/{name}") for name in before} == before


# The end


def test_destroy_leaves_no_disk_and_the_results(lab: VirtualLab) -> None:
    computer = lab.computer
    assert len([name for name in computer.volumes() if name.endswith(".qcow2")]) == 9
    # Settings that differ from those with which it was made.
    lab.timed("vagrant destroy", "vagrant", "destroy", "-f", RAIDLAB_DISKS="2")
    assert computer.domains() == []
    left = computer.volumes()
    assert [name for name in left if "vagrant_box_image" not in name] == []
    results = computer.json(RAIDLAB, "--quiet", "--json", "results")
    (result,) = [each for each in results if each["target"] == "local:"]
    assert (result["experiment"], result["status"]) == ("vm-small", "complete")


@pytest.mark.slow
@pytest.mark.parametrize("is_noted", [pytest.param(False, id="not-noted"), pytest.param(True, id="noted")])
def test_what_a_killed_up_leaves_does_not_stop_the_next_one(lab: VirtualLab, *, is_noted: bool) -> None:
    computer = lab.computer
    computer.run("vagrant", "destroy", "-f")
    base = set(computer.volumes_folder.iterdir())
    # At the moment when disks exist and no machine has them yet.
    with computer.killed_after("vagrant", "up"):
        wait_until(lambda: len(set(computer.volumes_folder.iterdir()) - base) >= 2, 600, lambda: "no disks are made")
    (system,) = [name for name in computer.volumes() if name.endswith("raidlab.img")]
    # The kill may also come a moment later: the machine is defined, without a network interface yet, and Vagrant has
    # noted it or not. If libvirt refuses the definition here, it has one already: it completes earlier requests first.
    machine = system.removesuffix(".img")
    definition = computer.folder / "defined.xml"
    definition.write_text(
        f"<domain type='qemu'><name>{machine}</name><memory>65536</memory>"
        "<os><type arch='x86_64'>hvm</type></os></domain>"
    )
    defined = computer.run("virsh", "define", str(definition), check=False)
    assert machine in computer.run("virsh", "list", "--inactive", "--name").lines, defined.text
    noted = computer.clone / ".vagrant" / "machines" / "raidlab" / "libvirt" / "id"
    noted.unlink(missing_ok=True)
    if is_noted:
        noted.write_text(computer.run("virsh", "domuuid", machine).text.strip())
    up = computer.run("vagrant", "up", timeout=1200, env={"RAIDLAB_DISKS": "1"})
    assert up.lines[-1].endswith("then: raidlab")
    computer.run("vagrant", "destroy", "-f")
    assert [name for name in computer.volumes() if "vagrant_box_image" not in name] == []


@pytest.mark.slow
def test_the_box_alone_is_a_lab_too(lab: VirtualLab) -> None:
    folder = lab.computer.folder / "elsewhere"
    folder.mkdir()
    lab.computer.run("vagrant", "init", "--minimal", f"raidlab/{IMAGE}", cwd=folder)
    lab.computer.run("vagrant", "up", cwd=folder, timeout=1200, env={"RAIDLAB_DISKS": "3", "RAIDLAB_DISK_SIZE": "64M"})
    shown = lab.computer.json("vagrant", "ssh", "-c", "raidlab --quiet --json disks", cwd=folder)
    disks = [(disk["serial"], disk["size_bytes"]) for disk in shown["disks"]]
    assert disks == [(f"RAIDLAB-{number:02}", 64 << 20) for number in (1, 2, 3)]
    lab.computer.run("vagrant", "destroy", "-f", cwd=folder)
    assert [name for name in lab.computer.volumes() if "vagrant_box_image" not in name] == []
