"""Distribution kernels for ``qemu:``, either installed on this computer or fetched by ``raidlab kernels get``.

A kernel reaches this computer's files through a small initramfs that contains busybox, the modules for 9p over virtio,
and md's modules. All other modules are loaded from this computer's files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, ToolMissing
from lab.gates.files import require_trusted
from lab.host.files import HostFiles, create_file, replace_file
from lab.host.processes import Processes
from lab.machine.kernel_image import kernel_cache
from lab.machine.package_sources import Apt, Packaged, find_version, put_in_place, version_key

ROOT_MODULES = ("virtio_pci", "virtio_console", "virtio_blk", "9pnet_virtio", "9p")
"""Modules that must be loaded before this computer's files can be reached."""
LEVEL_MODULES = ("md_mod", "crc32c_intel", "crc32c_generic", "raid456", "raid1", "raid10", "raid0")
"""Modules that are loaded while the machine starts, unless the kernel lacks them or has them built in.

Otherwise an emulated processor would take two seconds to unpack and link raid456 when the first array is created.
raid456 depends on libcrc32c. Until Linux 6.13, one of the two crc32c modules must be loaded before libcrc32c.
"""
LOGS_TAG = "logs"
"""The 9p mount tag of the folder for logs (GUEST_FOLDER in lab/machine/embedded.py)."""
INIT_VARIABLE = "RAIDLAB_INIT"
"""The kernel parameter, which becomes an environment variable of the first process, with the program that takes over
once the files can be read.
"""
_INIT = Path(__file__).with_name("stock_init.sh")
MOST_FAST_IMAGES = 6
"""Maximum number of uncompressed kernels in the cache. Each takes about 60 MB."""
PT_NOTE, XEN_PHYS32_ENTRY = 4, 18
NOTE_HEADER = struct.Struct("<III")
_GET = "raidlab kernels get 6.12"
# These drivers are for hardware that no QEMU machine has.
_UNUSED = ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging", "drivers/infiniband")
# Kernels with other endings may lack drivers (-azure) or have larger pages (-arm64-16k).
_ORDINARY = re.compile("-(amd64|arm64|generic)$")


@dataclass(frozen=True, slots=True)
class StockKernel:
    """A distribution's kernel. ``modules`` is its ``lib/modules/RELEASE`` folder."""

    release: str
    image: Path
    modules: Path


def stock_folder() -> Path:
    """Return the folder for fetched kernels and initramfs files."""
    return kernel_cache() / "stock"


def stock_kernels(files: HostFiles | None = None) -> list[StockKernel]:
    """Return all kernels that can be started here, newest first."""
    found = {kernel.release: kernel for kernel in (*_fetched(), *_installed(files or HostFiles()))}
    return sorted(found.values(), key=lambda kernel: version_key(kernel.release), reverse=True)


def find_stock_kernel(chosen: str = "") -> StockKernel:
    """Return the kernel that a target specifies by the path of its image or by the beginning of its release (7.2).

    If nothing is specified, return the running kernel if it can be read, or else the newest kernel. Raises ToolMissing,
    whose hint is the command that fetches a kernel, and NotTrusted if another user may have written the kernel.
    """
    kernel = _of_image(Path(chosen)) if "/" in chosen else _of_release(chosen)
    require_trusted(kernel.image, "the kernel")
    require_trusted(
        kernel.modules, "the kernel's folder of drivers", has_tree=kernel.modules.is_relative_to(stock_folder())
    )
    return kernel


def _of_release(chosen: str) -> StockKernel:
    kernels = stock_kernels()
    if not chosen:
        running = [kernel for kernel in kernels if kernel.release == os.uname().release]
        if found := [*running, *kernels]:
            return found[0]
        raise ToolMissing(
            "no kernel on this computer can be read", hint=f"run '{_GET}', or choose another machine with --on"
        )
    releases = {kernel.release: kernel for kernel in kernels}
    return find_version(releases, chosen, "kernel", "raidlab kernels", least=r"\d+\.\d")


def _of_image(image: Path) -> StockKernel:
    image = image.absolute()
    try:
        with image.open("rb") as file:
            release = release_in(file.read(1 << 16))
    except OSError as error:
        raise ToolMissing(
            f"the kernel {image} cannot be read: {error.strerror}", hint="choose a kernel: raidlab kernels list"
        ) from None
    release = release or image.name.removeprefix("vmlinuz-")
    places = [
        image.parent,
        *(root / "lib/modules" / release for root in (image.parent, image.parent.parent, Path("/"))),
    ]
    for place in places:
        if (place / "modules.dep").is_file():
            return StockKernel(release, image, place)
    raise ToolMissing(
        f"the drivers of the kernel {image} are missing: lib/modules/{release}",
        hint=f"put them beside the kernel (depmod -b FOLDER {release}), or choose a kernel: raidlab kernels list",
    )


def release_in(head: bytes) -> str:
    """Return the release in an x86 kernel's header (arch/x86/boot.rst, field kernel_version), or "" if it has none."""
    if head[0x202:0x206] != b"HdrS":
        return ""
    at = int.from_bytes(head[0x20E:0x210], "little") + 0x200
    return head[at : head.find(b"\0", at)].decode("ascii", "replace").partition(" ")[0] if at > 0x200 else ""


def _installed(files: HostFiles) -> Iterator[StockKernel]:
    """Yield those of this computer's kernels that this user may read. On Ubuntu, only root may read kernels."""
    for image in (*files.path("/boot").glob("vmlinuz-*"), *files.path("/usr/lib/modules").glob("*/vmlinuz")):
        release = image.parent.name if image.name == "vmlinuz" else image.name.removeprefix("vmlinuz-")
        modules = files.path("/lib/modules") / release
        if os.access(image, os.R_OK) and (modules / "modules.dep").is_file():
            yield StockKernel(release, image, modules)


def _fetched() -> Iterator[StockKernel]:
    for folder in stock_folder().glob("*/vmlinuz"):
        release = folder.parent.name
        modules = folder.parent / "lib/modules" / release
        if (modules / "modules.dep").is_file():
            yield StockKernel(release, folder, modules)


def packaged_kernels() -> Packaged:
    """Return the kernels that can be fetched from this computer's package sources."""
    return Packaged("a kernel", "raidlab kernels", stock_folder(), _releases, _install)


def _releases(apt: Apt) -> list[str]:
    found = apt.run("apt-cache", "search", "--names-only", "^linux-image-[0-9]").stdout
    names = re.findall(r"^linux-image-(\d[\w.+~-]*)", found, re.MULTILINE)
    has_numbers = (name for name in names if re.match(r"\d+\.\d+\.\d", name))
    return [name for name in has_numbers if _ORDINARY.search(name) and not re.search("-(rt|cloud)-", name)]


def _install(apt: Apt, release: str, folder: Path) -> None:
    tree, ready = folder / "tree", folder / "ready"
    # Some distributions package a kernel's modules separately.
    image_packages = apt.with_needs(
        f"linux-image-{release}", fits=lambda name: name.startswith("linux-") and name.endswith(f"-{release}")
    )
    apt.unpack(image_packages, tree)
    unpacked = next(
        path for path in (tree / "lib/modules" / release, tree / "usr/lib/modules" / release) if path.is_dir()
    )
    image = next(path for path in (tree / f"boot/vmlinuz-{release}", unpacked / "vmlinuz") if path.is_file())
    modules = ready / "lib/modules" / release
    modules.parent.mkdir(parents=True)
    image.rename(ready / "vmlinuz")
    unpacked.rename(modules)
    for unused in _UNUSED:
        shutil.rmtree(modules / "kernel" / unused, ignore_errors=True)
    apt.do("depmod", "-b", str(ready), release, hint="apt install kmod")
    put_in_place(ready, stock_folder() / release)


def make_initramfs(kernel: StockKernel, processes: Processes) -> Path:
    """Return the kernel's initramfs, which is made only once. Raises LabError, or ToolMissing if busybox is missing."""
    busybox = static_busybox(processes)
    modules = needed_modules(kernel.modules, ROOT_MODULES)
    levels = [path for path in needed_modules(kernel.modules, LEVEL_MODULES, is_complete=False) if path not in modules]
    init = _INIT.read_text("utf-8")
    marks = [(str(path), (status := path.stat()).st_size, status.st_mtime_ns) for path in (busybox, *modules, *levels)]
    name = f"{kernel.release}-{hashlib.sha256(repr((init, marks)).encode()).hexdigest()[:16]}.cpio.gz"
    folder = stock_folder() / "initramfs"
    if (made := folder / name).is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(made, initramfs(busybox, modules, processes, init=init, levels=levels), is_durable=False)
    return made


def initramfs(
    busybox: Path, modules: Iterable[Path], processes: Processes, *, init: str = "", levels: Iterable[Path] = ()
) -> bytes:
    """Return a compressed cpio archive with busybox, these modules in the order of loading, and init if it is given.

    Raises ToolMissing if zstd is missing, and LabError if a module is damaged. Source:
    Documentation/driver-api/early-userspace/buffer-format.rst.
    """
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "modules", "levels", "root", "dev")]
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes()))
    entries += [("init", stat.S_IFREG | 0o755, init.encode())] if init else []
    for folder, paths in (("modules", modules), ("levels", levels)):
        for number, path in enumerate(paths):
            try:
                module = decompressed(path.read_bytes(), processes)
            except (ValueError, OSError, EOFError) as error:
                raise LabError(f"{path} cannot be unpacked: {error}", hint="install the kernel again") from None
            entries.append((f"{folder}/{number:02d}-{path.name.split('.')[0]}.ko", stat.S_IFREG | 0o644, module))
    return gzip.compress(cpio(entries), compresslevel=1, mtime=0)


def needed_modules(folder: Path, names: tuple[str, ...], *, is_complete: bool = True) -> list[Path]:
    """Return the files of these modules and of the modules that they need, in the order of loading (modules.dep(5)).

    Built-in modules are left out. With ``is_complete``, raises LabError if a module is neither available nor built in.
    """
    needs: dict[str, tuple[str, list[str]]] = {}
    for line in (folder / "modules.dep").read_text(encoding="ascii", errors="replace").splitlines():
        path, _, rest = line.partition(":")
        needs[_module_name(path)] = (path, rest.split())
    builtin = folder / "modules.builtin"
    lines = builtin.read_text("ascii", "replace").splitlines() if builtin.is_file() else []
    built_in = set(map(_module_name, lines))
    found: dict[str, None] = {}
    for name in names:
        if name in needs:
            path, below = needs[name]
            found.update(dict.fromkeys([*reversed(below), path]))
        elif is_complete and name not in built_in:
            raise LabError(
                f"the kernel's folder of drivers {folder} lacks {name}",
                hint="choose a kernel with virtio, and 9p or squashfs: raidlab kernels list",
            )
    return [folder / path for path in found]


def _module_name(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0].replace("-", "_")


def decompressed(data: bytes, processes: Processes) -> bytes:
    """Decompress xz, gzip or zstd. Return other data unchanged. Raises ToolMissing, ValueError, OSError or EOFError."""
    if data.startswith(b"\xfd7zXZ\0"):
        try:
            return lzma.decompress(data)
        except lzma.LZMAError as error:
            raise ValueError(str(error)) from None
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if not data.startswith(b"\x28\xb5\x2f\xfd"):
        return data
    with tempfile.TemporaryDirectory() as folder:
        packed, plain = Path(folder) / "packed", Path(folder) / "plain"
        create_file(packed, data, is_durable=False)
        done = processes.run(["zstd", "-dqo", str(plain), str(packed)])
        if done.status == 127:
            raise ToolMissing("this kernel is compressed with zstd, which is not installed", hint="apt install zstd")
        if done.status:
            raise ValueError(done.stderr.strip())
        return plain.read_bytes()


def fast_image(image: Path, processes: Processes) -> Path:
    """Return the kernel as an uncompressed ELF file, which QEMU starts fastest. The file is made only once.

    An emulated processor takes one to five seconds to decompress a kernel. Returns ``image`` itself if it is not an x86
    image, if it lacks the PVH entry with which QEMU starts an ELF file, or if zstd or space for the file is missing.
    """
    try:
        status = image.stat()
        mark = hashlib.sha256(repr((str(image), status.st_size, status.st_mtime_ns)).encode()).hexdigest()[:16]
        folder = stock_folder() / "images"
        if (made := folder / f"{mark}.vmlinux").is_file():
            return made
        kernel = decompressed(payload_in(image.read_bytes()), processes)
        if not has_pvh_entry(kernel):
            return image
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(made, kernel, is_durable=False)
    except (OSError, EOFError, ValueError, struct.error, LabError):
        return image
    for older in sorted(folder.glob("*.vmlinux"), key=lambda path: path.stat().st_mtime)[:-MOST_FAST_IMAGES]:
        # The file can be removed, because it is made again when it is needed, and running machines have it in memory.
        older.unlink(missing_ok=True)
    return made


def payload_in(image: bytes) -> bytes:
    """Return the compressed kernel in an x86 image. Raises ValueError if there is none.

    Source: Documentation/arch/x86/boot.rst, fields setup_sects, payload_offset and payload_length. The payload ends
    with the uncompressed size (four bytes), which is part of the compressed format only for gzip.
    """
    if image[0x202:0x206] != b"HdrS" or int.from_bytes(image[0x206:0x208], "little") < 0x208:
        raise ValueError("not an x86 kernel image with a payload")
    offset, length = (int.from_bytes(image[at : at + 4], "little") for at in (0x248, 0x24C))
    start = ((image[0x1F1] or 4) + 1) * 512 + offset
    payload = image[start : start + length]
    return payload if payload.startswith(b"\x1f\x8b") else payload[:-4]


def has_pvh_entry(kernel: bytes) -> bool:
    """Whether a 64-bit ELF file (elf(5)) has QEMU's entry for ``-kernel``, Xen's note 18 (xen/interface/elfnote.h)."""
    if not kernel.startswith(b"\x7fELF\x02\x01"):
        return False
    (first,), (size, count) = struct.unpack_from("<Q", kernel, 0x20), struct.unpack_from("<HH", kernel, 0x36)
    for number in range(count):
        kind, _flags, offset, _virtual, _physical, length = struct.unpack_from("<IIQQQQ", kernel, first + number * size)
        while kind == PT_NOTE and length >= NOTE_HEADER.size:
            name_length, value_length, note = NOTE_HEADER.unpack_from(kernel, offset)
            if note == XEN_PHYS32_ENTRY and kernel[offset + 12 : offset + 15] == b"Xen":
                return True
            step = NOTE_HEADER.size + -(-name_length // 4) * 4 + -(-value_length // 4) * 4
            offset, length = offset + step, length - step
    return False


def static_busybox(processes: Processes) -> Path:
    """Return the path of busybox. Raises ToolMissing unless it is installed as a static program."""
    for candidate in (processes.find("busybox"), "/usr/lib/initramfs-tools/bin/busybox"):
        if is_static_program(candidate):
            return Path(str(candidate))
    raise ToolMissing("no statically linked busybox is installed", hint="apt install busybox-static")


def is_static_program(path: str | None) -> bool:
    """Whether a file is a program without an interpreter (elf(5), PT_INTERP).

    An interpreter's path would be in the first page.
    """
    try:
        return bool(path) and b"/ld-" not in Path(str(path)).read_bytes()[:4096]
    except OSError:
        return False


def cpio(entries: list[tuple[str, int, bytes]]) -> bytes:
    """Return a cpio archive of the entries (name, mode, content) in the format "newc"."""
    archive = io.BytesIO()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        archive.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0")
        archive.write(bytes(-archive.tell() % 4))
        archive.write(content)
        archive.write(bytes(-archive.tell() % 4))
    return archive.getvalue()
