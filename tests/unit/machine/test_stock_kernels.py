"""Distribution kernels: finding them, their modules, the initramfs, and QEMU's command line."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import LabError, ToolMissing
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine import stock_kernels
from lab.machine.qemu import can_start
from lab.machine.stock_kernels import (
    MOST_FAST_IMAGES,
    fast_image,
    find_stock_kernel,
    make_initramfs,
    needed_modules,
    release_in,
)


def make_kernel(root: Path, release: str, modules: dict[str, list[str]], packing: str = "") -> Path:
    """Create a fetched kernel; ``modules``: path -> its dependencies."""
    folder = root / release / "lib/modules" / release
    for path in modules:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        packs: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.compress, ".gz": gzip.compress, "": bytes}
        (folder / path).write_bytes(packs[packing](f"module {path}".encode()))
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{path}: {' '.join(needs)}\n" for path, needs in modules.items())
    (folder / "modules.dep").write_text(lines)
    (root / release / "vmlinuz").write_bytes(b"kernel")
    return folder


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of fetched kernels; this computer's own are not found."""
    monkeypatch.setattr(stock_kernels, "kernel_cache", lambda: tmp_path)
    monkeypatch.setattr(stock_kernels, "_installed", lambda _files: iter(()))
    (tmp_path / "stock").mkdir()
    return tmp_path / "stock"


def test_a_release_is_named_by_its_beginning_up_to_the_end_of_a_number(stock: Path) -> None:
    with pytest.raises(ToolMissing, match=r"\n.*raidlab kernels get"):
        find_stock_kernel()
    for release in ("6.1.0-9", "6.1.0-56", "6.12.9+deb12", "6.12.117+deb12", "7.2.13+deb14"):
        make_kernel(stock, f"{release}-amd64", {})
    assert find_stock_kernel("6.1").release == "6.1.0-56-amd64"
    assert find_stock_kernel("6.12").release == "6.12.117+deb12-amd64"
    assert find_stock_kernel("6.1.0-9-amd64").release == "6.1.0-9-amd64"
    assert find_stock_kernel().release == "7.2.13+deb14-amd64"
    with pytest.raises(ToolMissing, match=r"there is no kernel 5\.10 .*\n  next: raidlab kernels get 5\.10$"):
        find_stock_kernel("5.10")
    with pytest.raises(ToolMissing, match=r"\n  next: raidlab kernels list --all$"):
        find_stock_kernel("8")


def test_an_image_is_found_by_its_path_with_its_modules(stock: Path) -> None:
    make_kernel(stock, "6.12.1-test", {})
    image = stock / "6.12.1-test/vmlinuz"
    # The header of the boot protocol holds the offset of the release string, relative to 0x200.
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x100).to_bytes(2, "little")
    head[0x300:0x320] = b"6.12.1-test (maker@host) #1\0".ljust(0x20)
    image.write_bytes(head)
    assert find_stock_kernel(str(image)).modules == stock / "6.12.1-test/lib/modules/6.12.1-test"
    image.write_bytes(b"no kernel")
    with pytest.raises(ToolMissing, match="drivers"):
        find_stock_kernel(str(image))
    with pytest.raises(ToolMissing, match="cannot be read"):
        find_stock_kernel(str(stock / "nothing/vmlinuz"))


@pytest.mark.parametrize("head", [b"", b"HdrS", bytes(0x20E) + b"\xff\xff", bytes(0x202) + b"HdrS"])
def test_a_file_that_is_not_a_kernel_has_no_release(head: bytes) -> None:
    assert release_in(head) == ""


def test_modules_come_after_what_they_need_each_once(tmp_path: Path) -> None:
    folder = make_kernel(
        tmp_path,
        "6.1",
        {
            "k/9p.ko.xz": ["k/netfs.ko.xz", "k/9pnet.ko.xz"],
            "k/netfs.ko.xz": [],
            "k/9pnet.ko.xz": [],
            "k/9pnet-virtio.ko.xz": ["k/9pnet.ko.xz"],
        },
        ".xz",
    )
    (folder / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    found = [path.name for path in needed_modules(folder, ("virtio_pci", "9pnet_virtio", "9p"))]
    assert found == ["9pnet.ko.xz", "9pnet-virtio.ko.xz", "netfs.ko.xz", "9p.ko.xz"]
    with pytest.raises(LabError, match="lacks virtio_blk"):
        needed_modules(folder, ("virtio_blk",))
    assert needed_modules(folder, ("virtio_blk", "9pnet"), is_complete=False) == [folder / "k/9pnet.ko.xz"]


@pytest.mark.parametrize("packing", ["", ".xz", ".gz"])
def test_the_initramfs_holds_unpacked_modules_and_is_made_once(stock: Path, packing: str, tmp_path: Path) -> None:
    names = stock_kernels.ROOT_MODULES
    # Most of md's modules are missing or built in.
    tree: dict[str, list[str]] = {f"k/{name}.ko{packing}": [] for name in names}
    tree |= {f"k/md-mod.ko{packing}": [], f"k/raid1.ko{packing}": [f"k/md-mod.ko{packing}", f"k/9p.ko{packing}"]}
    make_kernel(stock, "6.1", tree, packing)
    kernel = find_stock_kernel("6.1")
    made = make_initramfs(kernel, Processes())
    listed = subprocess.run(
        ["busybox", "cpio", "-t"], input=gzip.decompress(made.read_bytes()), capture_output=True, check=True
    )
    found = listed.stdout.decode().split()
    assert {f"modules/{number:02d}-{name}.ko" for number, name in enumerate(names)} < set(found)
    assert [name for name in found if name.startswith("levels/")] == ["levels/00-md-mod.ko", "levels/01-raid1.ko"]
    assert b"module k/9p.ko" in gzip.decompress(made.read_bytes())
    first = made.stat()
    assert make_initramfs(kernel, Processes()).stat().st_ino == first.st_ino


def elf_with_notes(*notes: tuple[bytes, int]) -> bytes:
    """A 64-bit ELF file with notes (name, type), laid out by elf(5)."""
    body = b"".join(
        struct.pack("<III", len(name), 5, kind) + name.ljust(-(-len(name) // 4) * 4, b"\0") + b"value\0\0\0"
        for name, kind in notes
    )
    header = b"\x7fELF\x02\x01".ljust(0x20, b"\0") + struct.pack("<QQIHHHHHH", 0x40, 0, 0, 0x40, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0, 0, 0)
    return header + load + struct.pack("<IIQQQQQQ", 4, 4, 0x40 + 2 * 56, 0, 0, len(body), len(body), 4) + body


def packed_kernel(payload: bytes) -> bytes:
    """An x86 kernel image with this payload, laid out by Documentation/arch/x86/boot.rst."""
    image = bytearray(5 * 512)
    image[0x1F1] = 4
    image[0x202:0x208] = b"HdrS" + (0x20F).to_bytes(2, "little")
    image[0x248:0x250] = struct.pack("<II", 0x80, len(payload))
    return bytes(image) + bytes(0x80) + payload + b"other parts of the image"


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


PVH = elf_with_notes((b"GNU\0", 3), (b"Linux\0", 257), (b"Xen\0", 18))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd])
def test_a_kernel_is_decompressed_once(stock: Path, pack: Callable[[bytes], bytes]) -> None:
    image = stock / "vmlinuz"
    # The kernel's build appends the size to what xz and zstd write.
    size = b"" if pack is gzip.compress else bytes(4)
    image.write_bytes(packed_kernel(pack(PVH) + size))
    fast = fast_image(image, Processes())
    assert fast.read_bytes() == PVH
    assert fast_image(image, Processes()).stat().st_ino == fast.stat().st_ino
    other = elf_with_notes((b"Xen\0", 18))
    image.write_bytes(packed_kernel(pack(other) + size))
    assert fast_image(image, Processes()).read_bytes() == other


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"kernel", id="no image"),
        pytest.param(packed_kernel(b"an unknown compression"), id="unknown"),
        pytest.param(packed_kernel(lzma.compress(PVH)[:-8] + bytes(4)), id="xz cut short"),
        pytest.param(packed_kernel(zstd(PVH)[:-3] + bytes(4)), id="zstd cut short"),
        pytest.param(packed_kernel(gzip.compress(PVH)[:-9]), id="gzip cut short"),
        pytest.param(packed_kernel(gzip.compress(b"\x7fELF\x02\x01")), id="ELF cut short"),
        pytest.param(packed_kernel(gzip.compress(elf_with_notes())), id="no notes"),
        pytest.param(packed_kernel(gzip.compress(elf_with_notes((b"GNU\0", 18)))), id="not Xen's"),
        pytest.param(packed_kernel(gzip.compress(elf_with_notes((b"Xen\0", 6)))), id="not the entry"),
    ],
)
def test_a_kernel_that_cannot_be_started_uncompressed_is_used_as_it_is(stock: Path, content: bytes) -> None:
    image = stock / "vmlinuz"
    image.write_bytes(content)
    assert fast_image(image, Processes()) == image


def test_only_the_newest_uncompressed_kernels_are_stored(stock: Path) -> None:
    made = []
    for number in range(MOST_FAST_IMAGES + 2):
        (stock / f"vmlinuz-{number}").write_bytes(packed_kernel(gzip.compress(PVH)))
        made.append(fast_image(stock / f"vmlinuz-{number}", Processes()))
        os.utime(made[-1], ns=(number, number))
    assert [path.exists() for path in made] == [False] * 2 + [True] * MOST_FAST_IMAGES


def test_qemu_can_start_with_a_kernel_busybox_and_qemu(stock: Path, tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    assert not can_start(Processes(), files)
    make_kernel(stock, "6.1", {})
    assert can_start(Processes(), files)
