"""A box with nothing of the lab in it: the base disk as it is, an account with Vagrant's key, and the network."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

PARTITION_OFFSET_BYTES = 1048576
_SUDO = "vagrant ALL=(ALL) NOPASSWD: ALL\n"
_NETWORK = "[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\n[DHCPv4]\nClientIdentifier=mac\n"


def make_plain_box(base: Path, public_key: Path, box: Path) -> None:
    """Write the box. Needs root, for the mount; the base disk itself stays as it is."""
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
    """What Vagrant asks of any box. Without cloud-init, whose search for its data would hold the plain box up."""
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
    """What a program printed; raises CalledProcessError for a status that is not 0."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
