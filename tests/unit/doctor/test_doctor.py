"""The doctor's reports on computers and machines on which something is missing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jsonschema
import msgspec
import pytest

from lab.doctor import (
    TABLES,
    Check,
    DoctorReport,
    Outcome,
    check_computer,
    check_machine,
    machine_kinds,
    version_in,
)
from lab.errors import ExitCode
from lab.host.clock import HostClock
from lab.host.files import HostFiles
from lab.host.processes import Completed
from lab.machine import Host
from lab.machine.state_folder import StateFolder
from tests.unit.fakes import FACTS, FakeMachine, Scripted, as_machine

REPOSITORY = Path(__file__).resolve().parents[3]
SCHEMA = REPOSITORY / "docs/doctor.schema.json"
SCRIPT = REPOSITORY / "lab/doctor.sh"
ALL_PROGRAMS = [program.name for program in TABLES.programs] + [
    *("linux.uml", "qemu-system-x86_64", "busybox", "ssh", "sudo", "modinfo", "vagrant", "virsh")
]
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n'
COMPUTER = {
    "etc/os-release": DEBIAN,
    "dev/shm/.keep": "",
    "boot/vmlinuz-6.1.0-56-amd64": "",
    "lib/modules/6.1.0-56-amd64/modules.dep": "",
}


def processes_with(programs: Sequence[str], answers: Mapping[str, tuple[int, str]]) -> Mock:
    """Installed programs. ``answers``: start of the command line -> status and output."""

    def run(argv: Sequence[str], **_: object) -> Completed:
        line = " ".join(argv)
        status, output = next((answer for start, answer in answers.items() if line.startswith(start)), (0, "1.0"))
        return Completed(status, output, output if status else "")

    return Mock(find=lambda program: f"/usr/bin/{program}" if program in programs else None, run=run)


@pytest.fixture(autouse=True)
def no_built_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def x86_64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the processor's architecture, and treat any busybox in /usr/bin as static."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(
        "lab.machine.stock_kernels.is_static_program", lambda path: bool(path) and str(path).startswith("/usr/bin/")
    )


def examine(
    tmp_path: Path,
    *,
    target: str = "uml:",
    programs: Sequence[str] = tuple(ALL_PROGRAMS),
    answers: Mapping[str, tuple[int, str]] | None = None,
    files: Mapping[str, str] | None = None,
    state: Path | None = None,
    is_root: bool = False,
) -> DoctorReport:
    root = tmp_path / "computer"
    for name, text in {**COMPUTER, **(files or {})}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    processes = processes_with(programs, answers or {})
    folder = StateFolder(state or tmp_path / "state", processes, HostClock())
    host = Host(processes, HostFiles(root), HostClock(), folder)
    return check_computer(host, target=target, is_root=is_root)


def named(report: DoctorReport, name: str) -> Check:
    (check,) = [check for check in report.checks if check.name == name]
    return check


def test_a_computer_with_everything_is_ready(tmp_path: Path) -> None:
    report = examine(tmp_path, files={"proc/mdstat": "Personalities : [raid1] [raid6]\nunused devices: <none>\n"})
    assert report.is_ready
    assert report.exit_code is ExitCode.DONE
    assert report.install_command == ""
    assert report.ready_targets() == ("uml:", "qemu:", "local:", "ssh:", "vagrant:")
    assert [check.name for check in report.missing] == ["virtual-time", "root-image"]
    assert "[raid1] [raid6]" in named(report, "md-driver").detail


def test_all_that_is_missing_is_named_at_once_with_one_cure(tmp_path: Path) -> None:
    report = examine(tmp_path, programs=["fio", "sudo"])
    assert not report.is_ready
    assert report.exit_code is ExitCode.MISSING
    assert report.ready_targets() == ()
    assert report.install_command == (
        "sudo apt install mdadm kmod nbdkit nbd-client tcc e2fsprogs xfsprogs parted util-linux dmsetup mount"
        " user-mode-linux qemu-system-x86 busybox-static openssh-client"
    )
    assert all(check.fix for check in report.missing)
    assert [check.name for check in report.missing][:3] == ["program-mdadm", "program-modprobe", "embedded-kernel"]
    assert named(report, "program-mdadm").fix == "sudo apt install mdadm"
    assert examine(tmp_path, programs=["fio"], is_root=True).install_command.startswith("apt install mdadm ")


@pytest.mark.parametrize(
    ("os_release", "command"),
    [
        ("ID=fedora\n", "sudo dnf install nbd"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "sudo apt install nbd-client"),
        ("ID=slackware\n", "install with your distribution's tools: nbd-client"),
        ("", "install with your distribution's tools: nbd-client"),
    ],
)
def test_packages_bear_the_distributions_names(tmp_path: Path, os_release: str, command: str) -> None:
    programs = [name for name in ALL_PROGRAMS if name != "nbd-client"]
    assert examine(tmp_path, programs=programs, files={"etc/os-release": os_release}).install_command == command


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("fio-3.33", "3.33"),
        ("nbdkit 1.32.5 (nbdkit-1.32.5-1)", "1.32.5"),
        ("mke2fs 1.47.0 (5-Feb-2023)", "1.47.0"),
        ("kmod version 30\n+ZSTD", "30"),
        ("what?", ""),
    ],
)
def test_versions_are_found_in_greetings(text: str, version: str) -> None:
    assert version_in(text) == version


def test_an_old_python_and_a_kernel_that_does_not_start_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.doctor.OLDEST_PYTHON", (4, 0))
    report = examine(tmp_path, answers={"/usr/bin/linux.uml --version": (127, "")})
    assert [check.name for check in report.missing if check.blocks("uml:")] == ["python", "embedded-kernel"]
    assert "does not start" in named(report, "embedded-kernel").detail


@pytest.mark.parametrize("has_device", [False, True])
def test_arm64_has_no_embedded_kernel_and_no_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_device: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    files = {"proc/cpuinfo": "Features\t: fp asimd\n", **({"dev/kvm": ""} if has_device else {})}
    report = examine(tmp_path, programs=["fio"], files=files)
    for name in ("embedded-kernel", "virtual-time"):
        check = named(report, name)
        assert (check.detail, check.fix) == (
            "the embedded kernel exists only for x86-64",
            "choose another machine: --on qemu:",
        )
    assert "user-mode-linux" not in report.install_command
    assert named(report, "kvm").outcome is (Outcome.OK if has_device else Outcome.LIMITED)
    assert "vmx" not in named(report, "kvm").detail


VIRSH = "/usr/bin/virsh"
SUDO = "/usr/bin/sudo -n true"


def flags(words: str) -> dict[str, str]:
    return {"proc/cpuinfo": f"flags\t\t: fpu {words}\n"}


def lacking(**layers: str) -> dict[str, tuple[int, str]]:
    """Output of the program that tries the layers of the confinement, with reasons for missing layers."""
    reasons = {"namespace": "", "landlock": "", "seccomp": "", **layers}
    return {"/usr/bin/python3 -IS": (0, json.dumps(reasons))}


UNWRITABLE = Path("/proc/raidlab")
WITHOUT_SUDO = [name for name in ALL_PROGRAMS if name != "sudo"]
NO_MD = {"/usr/bin/modinfo -n md_mod": (1, "")}
NO_NAMESPACE = lacking(namespace="Denied", landlock="Off")


@pytest.mark.parametrize(
    ("name", "given", "outcome", "words", "fix"),
    [
        ("program-vagrant", {"programs": ["ssh"]}, Outcome.MISSING, "is not installed", "make vm"),
        ("libvirt", {"programs": ["ssh", "vagrant"]}, Outcome.MISSING, "is not installed", "make vm"),
        ("libvirt", {"answers": {VIRSH: (1, "authentication unavailable")}}, Outcome.MISSING, "", "usermod -aG"),
        ("libvirt", {"answers": {VIRSH: (1, "error: Failed to connect")}}, Outcome.MISSING, "Failed", "start"),
        ("program-mkfs.xfs", {"programs": ["fio"]}, Outcome.MISSING, "is not installed", "sudo apt install xfsprogs"),
        ("kvm", {"files": {**flags("vmx"), "dev/kvm": ""}}, Outcome.OK, "full speed", ""),
        ("kvm", {"files": flags("svm")}, Outcome.MISSING, "there is no /dev/kvm", "modprobe"),
        ("kvm", {"files": {**flags("vmx_like"), "dev/kvm": ""}}, Outcome.LIMITED, "guests would hang with it", "uml:"),
        ("kvm", {}, Outcome.LIMITED, "emulated", "uml:"),
        ("confinement", {"answers": lacking()}, Outcome.OK, "read-only: mount namespace, Landlock, filter", ""),
        ("confinement", {"answers": lacking(landlock="Off", seccomp="Off")}, Outcome.OK, "no Landlock: Off", ""),
        ("confinement", {"answers": lacking(namespace="Denied")}, Outcome.OK, "no mount namespace: Denied", ""),
        (
            "confinement",
            {"answers": NO_NAMESPACE, "files": {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}},
            *(Outcome.LIMITED, "can write everything that this user can", "sysctl -w kernel.apparmor"),
        ),
        (
            "confinement",
            {"answers": NO_NAMESPACE, "files": {"proc/sys/kernel/unprivileged_userns_clone": "0\n"}},
            *(Outcome.LIMITED, "no Landlock: Off", "-w kernel.unprivileged_userns_clone=1"),
        ),
        (
            "confinement",
            {
                "answers": lacking(namespace="Denied", seccomp="Off"),
                "files": {"proc/sys/kernel/unprivileged_userns_clone": "0\n"},
            },
            *(Outcome.LIMITED, "no filter of system calls: Off", "-w kernel.unprivileged_userns_clone=1"),
        ),
        ("confinement", {"answers": NO_NAMESPACE}, Outcome.LIMITED, "no Landlock: Off", "Landlock"),
        ("confinement", {}, Outcome.LIMITED, "unknown: 1.0", "once more"),
        ("embedded-kernel", {"files": flags("amx_tile")}, Outcome.MISSING, "AMX", "provision/host/setup.sh lab"),
        ("state-folder", {"state": UNWRITABLE}, Outcome.MISSING, "cannot be written", "RAIDLAB_STATE=FOLDER"),
        ("md-driver", {}, Outcome.OK, "as a module", ""),
        ("md-driver", {"answers": NO_MD}, Outcome.MISSING, "has no md driver", "--on uml:"),
        ("privilege", {"is_root": True, "answers": {SUDO: (1, "")}}, Outcome.OK, "raidlab runs as root", ""),
        ("privilege", {}, Outcome.OK, "without a password", ""),
        ("privilege", {"answers": {SUDO: (1, "")}}, Outcome.MISSING, "asks for a password", "sudo -v"),
        ("privilege", {"programs": ["fio"]}, Outcome.MISSING, "sudo is not installed", "apt install sudo"),
    ],
)
def test_a_check_says_what_is_there_and_what_to_do(
    tmp_path: Path, name: str, given: dict[str, Any], outcome: Outcome, words: str, fix: str
) -> None:
    check = named(examine(tmp_path, **given), name)
    assert check.outcome is outcome
    assert words in check.detail
    assert fix in check.fix
    assert bool(check.fix) is bool(fix)


@pytest.mark.parametrize(
    ("target", "given", "is_ready"),
    [
        ("vagrant:raidlab2", {"programs": ["ssh"]}, False),
        # With a running machine, only ssh is needed.
        ("vagrant:raidlab2", {"programs": ["ssh", "vagrant"]}, True),
        ("uml:", {"programs": [name for name in ALL_PROGRAMS if name not in ("mkfs.xfs", "sudo")]}, True),
        ("qemu:", {"programs": WITHOUT_SUDO}, True),
        ("ssh:lab1", {"programs": WITHOUT_SUDO}, True),
        ("local:", {"programs": WITHOUT_SUDO}, False),
        ("uml:", {"answers": NO_MD}, True),
        ("qemu:", {"answers": NO_MD}, True),
        ("local:", {"answers": NO_MD}, False),
        # /dev/kvm does not exist.
        ("uml:", {"files": flags("svm")}, True),
        ("uml:", {"state": UNWRITABLE}, False),
        ("uml:", {"answers": NO_NAMESPACE}, True),
    ],
)
def test_only_what_a_target_requires_blocks_it(
    tmp_path: Path, target: str, given: dict[str, Any], is_ready: bool
) -> None:
    assert examine(tmp_path, target=target, **given).is_ready is is_ready


def test_the_published_schema_is_the_reports_own(tmp_path: Path) -> None:
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "raidlab doctor --json"}
    # Encoded, since defaults of fields are lists in a file, not tuples.
    assert published == json.loads(msgspec.json.encode({**head, **msgspec.json.schema(DoctorReport)}))
    jsonschema.Draft202012Validator.check_schema(published)
    for report in (examine(tmp_path), examine(tmp_path, programs=[])):
        jsonschema.validate(json.loads(msgspec.json.encode(report)), published)


# --- an open machine


def examine_machine(said: str, loaded: tuple[str, ...] = (), release: str = "6.1.0-18") -> DoctorReport:
    machine = FakeMachine(
        files={"/etc/os-release": DEBIAN},
        dirs={"/sys/module": loaded},
        answers={("sh",): Scripted(said)},
        facts=replace(FACTS, target="ssh:lab1", kernel_release=release),
    )
    return check_machine(as_machine(machine))


ALL_FOUND = "".join(f"program {program.name} /usr/sbin/{program.name}\n" for program in TABLES.programs)
LEVELS = "module raid0\nmodule raid1\nmodule raid10\nmodule raid456\n"
GREETINGS = "version mdadm mdadm - v4.2 - 2021-12-30 - Debian 4.2-5\nversion fio fio-3.33\n"


def test_a_machine_with_levels_and_programs_is_ready() -> None:
    report = examine_machine(ALL_FOUND + LEVELS + GREETINGS, ("brd",))
    assert report.is_ready
    assert report.name == "ssh:lab1"
    assert report.target == "ssh:"
    assert named(report, "program-mdadm").detail == "4.2 (/usr/sbin/mdadm)"
    assert named(report, "program-fio").detail == "3.33 (/usr/sbin/fio)"
    assert named(report, "module-brd").outcome is Outcome.OK
    assert named(report, "module-nbd").outcome is Outcome.MISSING
    jsonschema.validate(json.loads(msgspec.json.encode(report)), json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_versions_are_in_the_programs_own_lines_only(tmp_path: Path) -> None:
    for name, line in (("mdadm", "mdadm - v4.2 - 2021-12-30"), ("fio", "fio: version `GLIBC_2.38' not found")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho 'warning: 1.2' >&2\ncat <<'end' >&2\n{line}\nend\n")
        (tmp_path / name).chmod(0o755)
    argv = ["sh", str(SCRIPT), "fio no-program", "", "", "no_function"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    output = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=True).stdout
    assert [line for line in output.splitlines() if not line.startswith("atomic")] == [
        f"program fio {tmp_path}/fio",
        "program no-program ",
        "version mdadm mdadm - v4.2 - 2021-12-30",
    ]


def test_a_machine_without_a_level_or_a_program_is_not_ready() -> None:
    without_fio = ALL_FOUND.replace("program fio /usr/sbin/fio\n", "")
    report = examine_machine(without_fio + "module raid0\n", ("raid1", "raid10"))
    assert report.exit_code is ExitCode.MISSING
    assert [check.name for check in report.missing if check.blocks("ssh:")] == ["module-raid456", "program-fio"]
    assert report.install_command == "apt install fio"


def test_what_md_can_is_known_by_its_functions() -> None:
    seen = "function md_run\nfunction raid5_run\nfunction ppl_init_log\natomic 0\n"
    report = examine_machine(ALL_FOUND + LEVELS + seen)
    features = ("ppl", "journal", "llbitmap", "atomic-writes")
    outcomes = [named(report, f"md-{name}").outcome for name in features]
    assert outcomes == [Outcome.OK, Outcome.MISSING, Outcome.MISSING, Outcome.MISSING]
    assert "CONFIG_MD_LLBITMAP" in named(report, "md-llbitmap").fix
    assert report.is_ready


@pytest.mark.parametrize(
    ("said", "release", "name", "outcome", "words"),
    [
        ("function md_run\n", "6.1.0-18", "md-ppl", Outcome.LIMITED, "unknown"),
        ("function md_run\n", "6.1.0-18", "md-llbitmap", Outcome.MISSING, "does not support this"),
        ("atomic 0\n", "6.12.101", "md-atomic-writes", Outcome.MISSING, "does not support this"),
        ("atomic 0\natomic 4096\n", "6.13.0", "md-atomic-writes", Outcome.OK, "1 of the machine's 2 disks do"),
        ("", "7.2.7", "md-atomic-writes", Outcome.MISSING, "does not support this"),
        ("module md_linear\n", "6.1.0-18", "module-linear", Outcome.OK, ""),
    ],
)
def test_what_a_kernel_can_is_seen_in_its_functions_its_modules_and_its_version(
    said: str, release: str, name: str, outcome: Outcome, words: str
) -> None:
    found = named(examine_machine(ALL_FOUND + LEVELS + said, release=release), name)
    assert found.outcome is outcome
    assert words in found.detail


def test_each_kind_of_machine_is_listed_with_what_it_can_show(tmp_path: Path) -> None:
    ready = {kind.target: is_ready for kind, is_ready in machine_kinds(examine(tmp_path))}
    assert ready == {
        "uml:": True,
        "uml:?time=virtual": False,
        "qemu:": True,
        "qemu:?root=IMAGE": False,
        "local:": True,
        "ssh:": True,
        "vagrant:": True,
    }
    assert not any(is_ready for _, is_ready in machine_kinds(examine(tmp_path, programs=["fio"])))


def test_a_root_image_needs_qemu_and_no_program_of_the_lab(tmp_path: Path) -> None:
    folder = tmp_path / "cache/raidlab/kernels/root-arm64"
    folder.mkdir(parents=True)
    for name in ("vmlinuz", "initramfs.gz", "root.squashfs"):
        (folder / name).touch()
    (folder / "image.json").write_text('{"architecture": "aarch64", "release": "6.1.0-56-arm64", "system": "Debian"}')
    target = "qemu:?root=arm64"
    report = examine(tmp_path, target=target, programs=["qemu-system-aarch64"])
    assert (report.target, report.is_ready) == ("qemu:?root=IMAGE", True)
    assert "arm64 (6.1.0-56-arm64)" in named(report, "root-image").detail
    assert report.ready_targets() == ("qemu:?root=IMAGE",)
    without = examine(tmp_path, target=target, programs=[name for name in ALL_PROGRAMS if "aarch64" not in name])
    assert not without.is_ready
    assert named(without, "root-image").fix == "make root-image"
