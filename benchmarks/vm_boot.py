"""Time from `vagrant up` of the baked box until `raidlab doctor` answers, compared in pairs with a plain box.

The plain box has the same base disk. Everything runs in separate namespaces (tests/vm/computer.py). If the box is
missing or out of date, it is baked first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.report import asked_one, finish_pairs
from tests.conftest import CURE, missing_for
from tests.vm.computer import IMAGE, REPOSITORY, Computer, private_computer

BOUND = 1.2
OUTPUT = REPOSITORY / "packer" / "output"
PARTITION_OFFSET_BYTES = 1048576
_SUDO = "vagrant ALL=(ALL) NOPASSWD: ALL\n"
_NETWORK = "[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\n[DHCPv4]\nClientIdentifier=mac\n"
# This is the lab's machine without its disks.
PLAIN = """
load File.expand_path("lab_vm.rb", ENV.fetch("LAB_VM"))
Vagrant.configure("2") do |config|
  wanted = RaidlabVM.settings
  config.vm.box = "plain"
  config.vm.synced_folder ".", "/vagrant", disabled: true
  config.vm.provider(:libvirt) { |libvirt| RaidlabVM.configure_libvirt(libvirt, wanted.merge(disks: 0)) }
end
"""


def make_plain_box(base: Path, public_key: Path, box: Path) -> None:
    """Make a box with only the base disk, an account with Vagrant's key, and the network. The mount needs root."""
    with tempfile.TemporaryDirectory(dir=box.parent) as name:
        folder = Path(name)
        raw, mount = folder / "disk.raw", folder / "mount"
        mount.mkdir()
        run("qemu-img", "convert", "-O", "raw", str(base), str(raw))
        run("mount", "-o", f"loop,offset={PARTITION_OFFSET_BYTES}", str(raw), str(mount))
        try:
            prepare(mount, public_key)
        finally:
            run("umount", str(mount))
        run("qemu-img", "convert", "-c", "-O", "qcow2", str(raw), str(folder / "box.img"))
        size = json.loads(run("qemu-img", "info", "--output=json", str(raw)))["virtual-size"] >> 30
        (folder / "metadata.json").write_text(
            json.dumps({"provider": "libvirt", "format": "qcow2", "virtual_size": size}), encoding="ascii"
        )
        run("tar", "-C", str(folder), "-cf", str(box), "metadata.json", "box.img")


def prepare(root: Path, public_key: Path) -> None:
    """Prepare what Vagrant requires of any box. Disable cloud-init, because its search for data delays a plain box."""
    run("chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", "vagrant")
    keys = root / "home" / "vagrant" / ".ssh"
    keys.mkdir(mode=0o700)
    (keys / "authorized_keys").write_text(public_key.read_text(encoding="ascii"), encoding="ascii")
    run("chroot", str(root), "sh", "-c", "chown -R vagrant:vagrant ~vagrant/.ssh")
    (root / "etc/sudoers.d/vagrant").write_text(_SUDO, encoding="ascii")
    (root / "etc/cloud/cloud-init.disabled").touch()
    (root / "etc/systemd/network").mkdir(parents=True, exist_ok=True)
    (root / "etc/systemd/network/10-plain.network").write_text(_NETWORK, encoding="ascii")
    run("chroot", str(root), "systemctl", "enable", "--quiet", "systemd-networkd")


def run(*argv: str) -> str:
    """Return what a program printed. Raises CalledProcessError if its status is not 0."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout


def ready_seconds(computer: Computer, folder: Path, question: str) -> float:
    """Return the time from `vagrant up` until the machine has answered. The machine is destroyed afterwards."""
    begin = time.monotonic()
    computer.run("vagrant", "up", cwd=folder, timeout=900)
    computer.run("vagrant", "ssh", "-c", question, cwd=folder)
    seconds = time.monotonic() - begin
    computer.run("vagrant", "destroy", "-f", cwd=folder)
    return seconds


def add_boxes(computer: Computer) -> Path:
    """Add the baked box and the plain one on this computer. Return the plain box's folder."""
    shutil.copytree(OUTPUT / IMAGE, computer.clone / "packer" / "output" / IMAGE)
    (base,) = (OUTPUT / ".base").glob("debian-12-*.qcow2")
    plain = computer.folder / "plain"
    plain.mkdir()
    make_plain_box(base, REPOSITORY / "provision" / "guest" / "files" / "vagrant.pub", computer.folder / "plain.box")
    (plain / "Vagrantfile").write_text(PLAIN, encoding="ascii")
    computer.run("vagrant", "box", "add", "--name", "plain", str(computer.folder / "plain.box"), cwd=computer.folder)
    return plain


def measure(pairs: int) -> list[tuple[float, float]]:
    with private_computer() as computer:
        computer.environment["LAB_VM"] = str(computer.clone / "provision" / "vagrant")
        plain = add_boxes(computer)
        # The first of each is not counted, because it copies its box into libvirt's storage.
        ready_seconds(computer, computer.clone, "raidlab doctor")
        ready_seconds(computer, plain, "true")
        return [
            (ready_seconds(computer, computer.clone, "raidlab doctor"), ready_seconds(computer, plain, "true"))
            for _ in range(pairs)
        ]


def main() -> None:
    wanted = asked_one("pairs", 3, smoke=1)
    missing = missing_for("vm")
    if missing or os.geteuid() != 0:
        cause = f"needs {', '.join(missing)}; next: {CURE['vm']}" if missing else "needs root"
        json.dump({"benchmark": "vm_boot", "left_out": cause}, sys.stdout, indent=2)
        print()
        return
    subprocess.run([REPOSITORY / "packer" / "bake.sh", IMAGE], check=True, stdout=sys.stderr)
    manifest = json.loads((OUTPUT / IMAGE / "manifest.json").read_text(encoding="utf-8"))
    finish_pairs(
        "vagrant up until raidlab doctor answers ÷ the same for a plain box with the same base disk",
        measure(wanted),
        "<=",
        BOUND,
        ("lab_seconds", "plain_seconds"),
        bake_seconds=manifest["bake_seconds"],
        box_mebibytes=round((OUTPUT / IMAGE / f"raidlab-{IMAGE}.box").stat().st_size / 2**20),
    )


if __name__ == "__main__":
    main()
