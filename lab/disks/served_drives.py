"""The lab's own drives on a stock kernel. A program on the machine serves them through the kernel's nbd driver.

The program makes its control devices through the cuse driver. It accepts the same commands as the embedded kernel's
driver, and records requests in the same form (provision/kernel/served). It is compiled on this computer, because the
machine in QEMU runs this computer's programs.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from lab.errors import LabError, ToolMissing
from lab.gates.decoding import MOST_DISKS
from lab.gates.files import require_trusted
from lab.host.files import make_folder, replace_file
from lab.machine import Host, Machine
from lab.machine.kernel_image import kernel_cache

_ROOT = Path(__file__).resolve().parents[2]
_KERNEL = _ROOT / "provision" / "kernel"
_SOURCES = (
    _KERNEL / "served" / "lab_drives.c",
    *(_KERNEL / "driver" / name for name in ("lab_drive_user.c", "lab_record_user.c", "lab_drive.h", "lab_record.h")),
    *(_ROOT / "lab" / "disks" / "drive" / name for name in ("mechanics.h", "parameters.h")),
)
_COMPILE_SECONDS = 120.0


def built_server(host: Host) -> Path:
    """Compile the program unless it exists and is up to date, and return its path. Raises ToolMissing or LabError."""
    if missing := [path for path in _SOURCES if not path.is_file()]:
        raise ToolMissing(
            f"the source of the recorded drives, {missing[0]}, is missing",
            hint="run raidlab from its complete source tree",
        )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:16]
    folder = kernel_cache() / "served"
    program = folder / f"lab_drives-{digest}"
    if program.is_file():
        require_trusted(program, "the program of the recorded drives")
        return program
    compiler = next((found for name in ("gcc", "cc", "clang") if (found := host.processes.find(name))), None)
    if compiler is None:
        raise ToolMissing("recorded drives need a C compiler, but none is installed", hint="apt install gcc libc6-dev")
    make_folder(folder)
    includes = [f"-I{path}" for path in dict.fromkeys(each.parent for each in _SOURCES if each.suffix == ".h")]
    with tempfile.TemporaryDirectory() as unfinished:
        argv = [compiler, "-O2", "-D_GNU_SOURCE", *includes, "-o", f"{unfinished}/{program.name}"]
        sources = [str(each) for each in _SOURCES if each.suffix == ".c"]
        done = host.processes.run([*argv, *sources, "-lm"], timeout_seconds=_COMPILE_SECONDS)
        if done.status:
            raise LabError(
                f"the recorded drives cannot be compiled: {done.stderr.strip()[-300:]}",
                hint="apt install gcc libc6-dev linux-libc-dev",
            )
        replace_file(program, (Path(unfinished) / program.name).read_bytes(), is_durable=False, mode=0o755)
    return program


def start_server(machine: Machine, program: Path) -> None:
    """Start the program, which the machine must be able to read. Raises LabError if the kernel lacks a driver."""
    machine.run(("modprobe", "cuse"))
    machine.run(("modprobe", "nbd", f"nbds_max={MOST_DISKS}"))
    machine.run((str(program),))
