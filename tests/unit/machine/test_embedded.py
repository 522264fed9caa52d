from __future__ import annotations

import shutil
import socket
from functools import partial
from pathlib import Path

import pytest

from lab.errors import LabError, SpecError, ToolMissing
from lab.host.clock import HostClock
from lab.host.files import HostFiles
from lab.machine.embedded import (
    EmbeddedOptions,
    UbdDisk,
    cause_of_loss,
    kernel_arguments,
    most_requests,
    start_embedded,
)
from lab.machine.kernel_image import KernelImage, built_part, find_kernel, wide_registers
from lab.machine.opening import embedded_options
from lab.machine.state_folder import StateFolder
from lab.machine.target import parse_target
from tests.unit.fakes import Installed

PACKAGED = KernelImage(Path("/usr/bin/linux.uml"), None)


@pytest.fixture(autouse=True)
def no_built_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_state_folder_that_the_kernels_devices_would_hide_is_not_hidden(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/shm")
    for folder, is_hidden in ((Path("/dev/shm/1"), True), (link / "1", True), (Path("/development/1"), False)):
        line = kernel_arguments(EmbeddedOptions(), PACKAGED, folder, (5, 8), 3)
        assert ("devtmpfs.mount=0" in line) == is_hidden


def test_many_disks_share_what_the_drivers_socket_holds() -> None:
    def request_counts(disks: int) -> list[str]:
        options = EmbeddedOptions(disks=tuple(UbdDisk(Path(f"/d/{number}"), "S") for number in range(disks)))
        line = kernel_arguments(options, PACKAGED, Path("/state/1"), (5, 8), 3)
        assert {"ro", "rootfstype=hostfs"} <= set(line)
        return [word.removeprefix("RAIDLAB_UBD_REQUESTS=") for word in line if "REQUESTS" in word]

    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.setblocking(False)
        (each,) = request_counts(16)
        # The socket holds the requests of sixteen disks, and those of one more.
        assert [sender.send(bytes(8)) for _ in range(int(each) * 17)] == [8] * int(each) * 17
    assert int(each) >= 4
    assert most_requests(1) > most_requests(2) > most_requests(16)
    assert request_counts(0) == []


def test_a_command_line_that_the_kernel_would_cut_is_refused() -> None:
    disks = tuple(UbdDisk(Path("/d" * 120) / str(number), f"S{number}") for number in range(16))
    with pytest.raises(SpecError, match=r"longer than 4096.*\n.*RAIDLAB_STATE"):
        kernel_arguments(EmbeddedOptions(disks=disks), PACKAGED, Path("/state/1"), (5, 8), 3)


def test_the_targets_options_go_first() -> None:
    options = embedded_options(parse_target("uml:?mem=1G&time=virtual&kernel=/k"), EmbeddedOptions())
    assert (options.memory_bytes, options.virtual_time, options.kernel_path) == (1 << 30, True, "/k")
    with pytest.raises(SpecError, match="mem 'lots' is not a size"):
        embedded_options(parse_target("uml:?mem=lots"), EmbeddedOptions())
    for too_little in ("uml:?mem=95M", "qemu:?memory=127M"):
        with pytest.raises(SpecError, match="too little for its kernel"):
            embedded_options(parse_target(too_little), EmbeddedOptions())


def test_kernels_are_found_packaged_or_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    processes, files = Installed(linux_uml="/usr/bin/linux.uml"), HostFiles(tmp_path)
    assert find_kernel(processes, files) == PACKAGED
    with pytest.raises(ToolMissing, match="\n  next: make uml-kernel"):
        find_kernel(processes, files, virtual_time=True)
    built = tmp_path / "cache" / "raidlab" / "kernels" / "virtual-time"
    (built / "modules").mkdir(parents=True)
    shutil.copy("/bin/true", built / "linux")
    for name in ("release", "quick_clock.so"):
        with pytest.raises(ToolMissing, match="not built for virtual time"):
            find_kernel(processes, files, virtual_time=True)
        (built / name).touch()
    assert find_kernel(processes, files, virtual_time=True) == KernelImage(built / "linux", built / "modules")
    assert find_kernel(processes, files, chosen=str(built / "linux")).modules == built / "modules"
    # It also works in real time.
    assert find_kernel(Installed(), files).path == built / "linux"
    with pytest.raises(ToolMissing, match="cannot be executed"):
        find_kernel(processes, files, chosen="/nowhere")
    with pytest.raises(ToolMissing, match="cannot be executed"):
        find_kernel(processes, files, chosen=str(tmp_path))
    with pytest.raises(ToolMissing, match="not built for virtual time"):
        find_kernel(processes, files, chosen="/bin/true", virtual_time=True)


def test_a_truncated_kernel_is_refused(tmp_path: Path) -> None:
    """A file that was truncated by a full disk or an interruption is still executable."""
    whole = Path("/bin/true").read_bytes()
    kernel = tmp_path / "linux"
    for content in (b"", whole[:50], whole[:-1], b"\n" * 100):
        kernel.write_bytes(content)
        kernel.chmod(0o755)
        with pytest.raises(ToolMissing, match=r"or is truncated\n  next: install it again$"):
            find_kernel(Installed(), HostFiles(tmp_path), chosen=str(kernel))
    built = tmp_path / "cache" / "raidlab" / "kernels" / "virtual-time"
    built.mkdir(parents=True)
    shutil.copy(kernel, built / "linux")
    with pytest.raises(ToolMissing, match=f"\n  next: remove {built}, then make uml-kernel$"):
        find_kernel(Installed(), HostFiles(tmp_path), virtual_time=True)


def test_an_unpacked_package_brings_its_drivers(tmp_path: Path) -> None:
    kernel, releases = tmp_path / "usr/bin/linux.uml", tmp_path / "usr/lib/uml/modules"
    kernel.parent.mkdir(parents=True)
    shutil.copy("/bin/true", kernel)
    (releases / "7.2.7").mkdir(parents=True)
    find = partial(find_kernel, Installed(), HostFiles(tmp_path), chosen=str(kernel))
    assert find() == KernelImage(kernel, releases / "7.2.7")
    (releases / "6.12.101").mkdir()
    with pytest.raises(ToolMissing, match="contains drivers for 2 kernels"):
        find()


def test_a_processor_with_more_registers_needs_the_library_that_writes_them_all(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    cpuinfo, files = tmp_path / "proc" / "cpuinfo", HostFiles(tmp_path)
    for flags in ("", "flags\t\t: fpu avx512f\n", "flags\t\t: fpu avx512f amx_tiles\n"):
        cpuinfo.write_text(flags)
        assert wide_registers(files) is None
    cpuinfo.write_text("flags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8\n")
    with pytest.raises(ToolMissing, match=r"AMX.*\n  next: run provision/host/setup.sh lab"):
        wide_registers(files)
    library = tmp_path / "cache" / "raidlab" / "kernels" / "wide_registers.so"
    library.parent.mkdir(parents=True)
    library.touch()
    assert wide_registers(files) == library


def test_the_hint_fits_the_distribution(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    hints = {
        "ID=debian\n": "apt install user-mode-linux",
        "ID=ubuntu\nID_LIKE=debian\n": "make uml-kernel",
    }
    for os_release, hint in hints.items():
        (tmp_path / "etc" / "os-release").write_text(os_release)
        with pytest.raises(ToolMissing, match=f"\n  next: {hint}"):
            find_kernel(Installed(), HostFiles(tmp_path))


@pytest.mark.parametrize(
    ("status", "console", "message", "hint"),
    [
        (134, "ok\n[ 1.2] Oops: 3\n[ 1.3] Kernel panic - not syncing: md\n", "crashed: [ 1.3] Kernel panic", "report"),
        (134, "Kernel panic - not syncing: VFS: Unable to mount root fs\n", "crashed: Kernel panic", "CONFIG_HOSTFS"),
        (134, "Kernel panic - not syncing: Out of memory: \n", "crashed: Kernel panic", "uml:?mem=1G"),
        (
            134,
            "userspace - child stopped with signal 19\nKernel panic - not syncing: Attempted to kill init!\n",
            "was stopped together with its programs by something else (SIGSTOP)",
            "Ctrl-Z",
        ),
        (
            134,
            "wait_stub_done : failed to wait for SIGTRAP, pid = 673, status = 0x127f\nKernel panic - oops\n",
            "(SIGSTOP), and could not continue",
            "run the command again",
        ),
        (247, "", "the embedded kernel was killed", "run out of memory"),
        (-9, "", "because its supervisor was killed", "as after a power failure"),
        (249, "", "ran out of space for its memory", "/dev/shm"),
        (None, "", "no longer answers", "as after a power failure"),
        (
            1,
            "starting\n\nCannot open disk\n",
            "exited with status 1; its last message was: Cannot open disk",
            "report it",
        ),
        (0, "[ 1.0] int3: 0000 [#1] SMP\n", "crashed: [ 1.0] int3: 0000", "emulates several processors incorrectly"),
        (1, "/k/linux: /lib/libc.so.6: version `GLIBC_2.38' not found\n", "GLIBC_2.38' not found", "uml:?kernel=PATH"),
        (127, "/k/linux: Exec format error\n", "Exec format error", "uml:?kernel=PATH"),
        (127, "", "exited with status 127", "libraries exist"),
        (1, "qemu: -accel kvm: failed to initialize kvm: Permission denied\n", "failed to initialize kvm", "accel=kvm"),
        (1, "qemu: cannot set up guest memory 'pc.ram'\n", "cannot set up guest memory", "memory=512M"),
        (1, "check_ptrace : expected SIGSTOP, got status = 9\n", "check_ptrace", "allow it"),
    ],
)
def test_a_loss_is_reported_with_the_kernels_message_and_a_fitting_hint(
    status: int | None, console: str, message: str, hint: str
) -> None:
    result, next_action = cause_of_loss(status, console)
    assert message in result
    assert hint in next_action


def test_a_loss_is_reported_without_a_console_and_without_escape_sequences() -> None:
    assert cause_of_loss(3, "")[0] == "the embedded kernel exited with status 3"
    assert cause_of_loss(1, "\x1b[2Jgone\n")[0].isprintable()


@pytest.mark.parametrize(
    ("options", "folder", "error", "message"),
    [
        (EmbeddedOptions(disks=(UbdDisk(Path("/d"), "s"),) * 17), "state", SpecError, "supports at most 16"),
        (EmbeddedOptions(memory_bytes=1 << 60), "state", LabError, "not enough space for"),
        (EmbeddedOptions(), "a state", SpecError, "cannot use the path"),
        (EmbeddedOptions(disks=(UbdDisk(Path("/d,1"), "s"),)), "state", SpecError, "cannot use the path"),
        (EmbeddedOptions(), "state", OSError, "no more processes"),
    ],
)
def test_a_start_that_fails_half_way_leaves_nothing(
    tmp_path: Path, options: EmbeddedOptions, folder: str, error: type[Exception], message: str
) -> None:
    processes = Installed(linux_uml="/usr/bin/linux.uml", python3="/usr/bin/python3")
    state = StateFolder(tmp_path / folder, processes, HostClock())
    before = open_descriptors()
    with pytest.raises(error, match=message) as refused:
        start_embedded(options, state, processes, HostFiles(tmp_path))
    if isinstance(refused.value, LabError):
        assert refused.value.hint
    assert open_descriptors() == before
    assert [path for path in (tmp_path / folder).glob("machines/*") if path.is_dir()] == []


def test_a_kernel_installed_for_all_users_is_found_after_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("lab.machine.kernel_image.__file__", str(tmp_path / "opt" / "lab" / "machine" / "x.py"))
    own, shared = tmp_path / "cache/raidlab/kernels/virtual-time", tmp_path / "opt/kernels/virtual-time"
    assert built_part("virtual-time") == own
    shared.mkdir(parents=True)
    assert built_part("virtual-time") == shared
    own.mkdir(parents=True)
    assert built_part("virtual-time") == own
