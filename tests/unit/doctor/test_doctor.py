"""The doctor's reports on computers and machines on which parts are missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
    report_schema,
    version_in,
)
from lab.errors import ExitCode
from lab.host.clock import HostClock
from lab.host.files import HostFiles
from lab.host.processes import Completed, Processes
from lab.machine import Host
from lab.machine.state_folder import StateFolder
from tests.unit.fakes import FACTS, FakeMachine, Scripted, as_machine

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "doctor.schema.json"
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


class FakeProcesses(Processes):
    """Installed programs; ``answers``: start of the command line -> status and output."""

    def __init__(self, programs: Sequence[str], answers: Mapping[str, tuple[int, str]]) -> None:
        self.programs = programs
        self.answers = answers

    def find(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def run(
        self, argv: Sequence[str], *, timeout_seconds: float = 30.0, extra_env: Mapping[str, str] | None = None
    ) -> Completed:
        line = " ".join(argv)
        status, output = next((answer for start, answer in self.answers.items() if line.startswith(start)), (0, "1.0"))
        return Completed(status, output, output if status else "")


@pytest.fixture(autouse=True)
def no_built_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def x86_64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the processor's architecture, and accept any busybox in /usr/bin as static."""
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
    python_version: tuple[int, ...] = (3, 11, 2),
) -> DoctorReport:
    root = tmp_path / "computer"
    for name, text in {**COMPUTER, **(files or {})}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    processes = FakeProcesses(programs, answers or {})
    folder = StateFolder(state or tmp_path / "state", processes, HostClock())
    host = Host(processes, HostFiles(root), HostClock(), folder)
    return check_computer(host, target=target, is_root=is_root, python_version=python_version)


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


@pytest.mark.parametrize(
    ("programs", "message", "name", "fix"),
    [
        (["ssh"], "", "program-vagrant", "make vm"),
        (["ssh", "vagrant"], "", "libvirt", "make vm"),
        (["ssh", "vagrant", "virsh"], "error: authentication unavailable", "libvirt", "usermod -aG libvirt"),
        (["ssh", "vagrant", "virsh"], "error: Failed to connect socket: No such file", "libvirt", "start"),
    ],
)
def test_what_keeps_the_virtual_machine_from_starting_is_named(
    tmp_path: Path, programs: list[str], message: str, name: str, fix: str
) -> None:
    report = examine(tmp_path, target="vagrant:raidlab2", programs=programs, answers={"/usr/bin/virsh": (1, message)})
    assert report.target == "vagrant:"
    assert named(report, name).outcome is Outcome.MISSING
    assert fix in named(report, name).fix
    # A running machine needs only ssh, not libvirt, which is checked only with Vagrant.
    assert report.is_ready == ("vagrant" in programs) == ("libvirt" in [check.name for check in report.checks])


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


def test_a_missing_convenience_does_not_block(tmp_path: Path) -> None:
    report = examine(tmp_path, programs=[name for name in ALL_PROGRAMS if name != "mkfs.xfs"])
    assert report.is_ready
    assert named(report, "program-mkfs.xfs").useful_for == ("workloads on XFS",)


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


def test_an_old_python_and_a_kernel_that_does_not_start_block(tmp_path: Path) -> None:
    answers = {"/usr/bin/linux.uml --version": (127, "")}
    report = examine(tmp_path, python_version=(3, 10, 1), answers=answers)
    assert [check.name for check in report.missing if check.blocks("uml:")] == ["python", "embedded-kernel"]
    assert "does not start" in named(report, "embedded-kernel").detail


@pytest.mark.parametrize(
    ("cpuinfo", "has_device", "outcome", "words"),
    [
        ("flags\t\t: fpu vmx sse\n", True, Outcome.OK, "full speed"),
        ("flags\t\t: fpu svm\n", False, Outcome.MISSING, "there is no /dev/kvm"),
        ("flags\t\t: fpu sse vmx_like\n", True, Outcome.LIMITED, "guests would hang with it"),
        ("", False, Outcome.LIMITED, "emulated"),
    ],
)
def test_kvm_is_decided_by_the_processors_flags(
    tmp_path: Path, cpuinfo: str, has_device: bool, outcome: Outcome, words: str
) -> None:
    files = {"proc/cpuinfo": cpuinfo, **({"dev/kvm": ""} if has_device else {})}
    report = examine(tmp_path, files=files)
    assert named(report, "kvm").outcome is outcome
    assert words in named(report, "kvm").detail
    assert bool(named(report, "kvm").fix) == (outcome is not Outcome.OK)
    assert report.is_ready


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
            "the embedded kernel exists for x86-64 only",
            "choose another machine: --on qemu:",
        )
    assert "user-mode-linux" not in report.install_command
    assert named(report, "kvm").outcome is (Outcome.OK if has_device else Outcome.LIMITED)
    assert "vmx" not in named(report, "kvm").detail


CONFINE = "/usr/bin/python3 -IS"


@pytest.mark.parametrize(
    ("lacking", "setting", "words", "fix"),
    [
        ({}, "", "read-only: mount namespace, Landlock, filter", ""),
        ({"landlock": "Off", "seccomp": "Off"}, "", "no Landlock: Off", ""),
        ({"namespace": "Denied"}, "", "no mount namespace: Denied", ""),
        (
            {"namespace": "Denied", "landlock": "Off"},
            *("apparmor_restrict_unprivileged_userns=1", "can write what this user can", "sysctl -w kernel.apparmor"),
        ),
        (
            {"namespace": "Denied", "seccomp": "Off"},
            *("unprivileged_userns_clone=0", "no filter of system calls: Off", "-w kernel.unprivileged_userns_clone=1"),
        ),
        ({"namespace": "Denied", "landlock": "Off"}, "", "no Landlock: Off", "Landlock"),
        (None, "", "not known: 1.0", "once more"),
    ],
)
def test_confinement_of_the_embedded_kernel_is_reported(
    tmp_path: Path, lacking: dict[str, str] | None, setting: str, words: str, fix: str
) -> None:
    """``lacking``: layer -> why it is not available. Without a ``fix`` the check is OK."""
    output = json.dumps({"namespace": "", "landlock": "", "seccomp": "", **(lacking or {})})
    name, _, value = setting.partition("=")
    report = examine(
        tmp_path,
        files={f"proc/sys/kernel/{name}": f"{value}\n"} if setting else {},
        answers={} if lacking is None else {CONFINE: (0, output)},
    )
    check = named(report, "confinement")
    assert check.outcome is (Outcome.LIMITED if fix else Outcome.OK)
    assert words in check.detail
    assert fix in check.fix
    assert bool(check.fix) is bool(fix)
    assert report.is_ready


def test_a_processor_with_amx_wants_the_lab_set_up_for_it(tmp_path: Path) -> None:
    report = examine(tmp_path, files={"proc/cpuinfo": "flags\t\t: fpu amx_tile\n"})
    check = named(report, "embedded-kernel")
    assert (check.outcome, check.fix) == (Outcome.MISSING, "provision/host/setup.sh lab")
    assert "AMX" in check.detail


def test_a_state_folder_that_cannot_be_written_blocks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report = examine(tmp_path, state=tmp_path / "file" / "state")
    check = named(report, "state-folder")
    assert not report.is_ready
    assert "cannot be written" in check.detail
    assert "RAIDLAB_STATE=FOLDER" in check.fix


def test_md_as_a_module_or_missing_is_reported(tmp_path: Path) -> None:
    assert "as a module" in named(examine(tmp_path, target="local:"), "md-driver").detail
    report = examine(tmp_path, target="local:", answers={"/usr/bin/modinfo -n md_mod": (1, "")})
    assert not report.is_ready
    assert report.ready_targets() == ("uml:", "qemu:", "ssh:", "vagrant:")
    assert "--on uml:" in named(report, "md-driver").fix


@pytest.mark.parametrize(
    ("programs", "is_root", "status", "words"),
    [
        (ALL_PROGRAMS, True, 1, "this is root"),
        (ALL_PROGRAMS, False, 0, "without a password"),
        (ALL_PROGRAMS, False, 1, "asks for a password"),
        (["fio"], False, 0, "sudo is not installed"),
    ],
)
def test_root_is_needed_for_local_only(
    tmp_path: Path, programs: Sequence[str], is_root: bool, status: int, words: str
) -> None:
    answers = {"/usr/bin/sudo -n true": (status, "")}
    check = named(examine(tmp_path, programs=programs, is_root=is_root, answers=answers), "privilege")
    assert words in check.detail
    assert check.required_for == ("local:",)
    assert (check.outcome is Outcome.OK) == (is_root or (status == 0 and "sudo" in programs))


def test_the_published_schema_is_the_reports_own(tmp_path: Path) -> None:
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert published == report_schema()
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


ALL_FOUND = "".join(f"/usr/sbin/{program.name}\n" for program in TABLES.programs)
LEVELS = "module raid0\nmodule raid1\nmodule raid10\nmodule raid456\n"
GREETINGS = "mdadm - v4.2 - 2021-12-30 - Debian 4.2-5\nfio-3.33\n"


def test_a_machine_with_levels_and_programs_is_ready() -> None:
    report = examine_machine(ALL_FOUND + LEVELS + GREETINGS, ("brd",))
    assert report.is_ready
    assert report.name == "ssh:lab1"
    assert report.target == "ssh:"
    assert named(report, "program-mdadm").detail == "4.2 (/usr/sbin/mdadm)"
    assert named(report, "program-fio").detail == "3.33 (/usr/sbin/fio)"
    assert named(report, "module-brd").outcome is Outcome.OK
    assert named(report, "module-nbd").outcome is Outcome.MISSING
    jsonschema.validate(json.loads(msgspec.json.encode(report)), report_schema())


def test_a_machine_without_a_level_or_a_program_is_not_ready() -> None:
    without_fio = ALL_FOUND.replace("/usr/sbin/fio\n", "-\n")
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


def test_what_md_can_is_unknown_where_no_function_can_be_seen() -> None:
    report = examine_machine(ALL_FOUND + LEVELS + "function md_run\n")
    assert named(report, "md-ppl").outcome is Outcome.LIMITED
    assert "unknown" in named(report, "md-ppl").detail
    assert named(report, "md-llbitmap").outcome is Outcome.MISSING


@pytest.mark.parametrize(
    ("release", "files", "outcome"),
    [
        ("6.12.101", "atomic 0\n", Outcome.MISSING),
        ("6.13.0", "atomic 0\natomic 4096\n", Outcome.OK),
        ("7.2.7", "", Outcome.MISSING),
    ],
)
def test_atomic_writes_take_a_block_layer_and_an_md_that_know_them(release: str, files: str, outcome: Outcome) -> None:
    found = named(examine_machine(ALL_FOUND + LEVELS + files, release=release), "md-atomic-writes")
    assert found.outcome is outcome
    assert ("1 of 2 can" in found.detail) == (outcome is Outcome.OK)


def test_linear_is_found_under_either_name() -> None:
    report = examine_machine(ALL_FOUND + LEVELS + "module md_linear\n")
    assert named(report, "module-linear").outcome is Outcome.OK


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
