"""A computer for tests: libvirt, network and processes of its own, in namespaces that vanish as a whole."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGE = "debian-12-local"
_SCRIPT = Path(__file__).with_name("private_libvirt.sh")
_START_SECONDS = 60
# Not 10.0.2.0, which QEMU's own user network has.
_NETWORK = "10.77.0.0/24"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended; ``text`` is all it printed."""

    status: int
    text: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.replace("\r", "\n").splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class Computer:
    """Runs commands inside. ``clone`` is a copy of the working tree in which nothing has been built yet."""

    init_pid: int
    folder: Path
    clone: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        timeout: float = 300,
        check: bool = True,
        cwd: Path | None = None,
    ) -> Done:
        """Run a command in the clone. Fails the test with what it printed if its status is not 0 and ``check``."""
        done = self._finish(argv, env=env, timeout=timeout, cwd=cwd, stderr=subprocess.STDOUT)
        assert done.returncode == 0 or not check, f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}"
        return Done(done.returncode, done.stdout)

    def json(self, *argv: str, timeout: float = 300, cwd: Path | None = None) -> Any:
        """The JSON document that a command prints on standard output; its notices go to standard error."""
        done = self._finish(argv, timeout=timeout, cwd=cwd, stderr=subprocess.PIPE)
        said = f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(said) from None

    def _finish(
        self,
        argv: Sequence[str],
        *,
        stderr: int,
        env: Mapping[str, str] | None = None,
        timeout: float,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        if argv[:1] == ("vagrant",) and argv[1:2] != ("ssh-config",):
            # It may give the machine another address or key.
            (self.folder / "ssh-config").unlink(missing_ok=True)
        return subprocess.run(
            self.command(argv, cwd=cwd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            env={**self.environment, **(env or {})},
            timeout=timeout,
            check=False,
        )

    def command(self, argv: Sequence[str], *, cwd: Path | None = None) -> list[str]:
        enter = ["nsenter", "--target", str(self.init_pid), "--net", "--mount", "--pid"]
        return [*enter, f"--wdns={cwd or self.clone}", "--", *argv]

    @contextmanager
    def killed_after(self, *argv: str) -> Iterator[None]:
        """A command that runs beside the block, and is killed at its end with everything that it started."""
        process = subprocess.Popen(
            self.command(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def ssh(self, line: str, *, check: bool = True) -> Done:
        """Run a shell line in the virtual machine as ``vagrant ssh -c`` does, without waiting for Vagrant to start."""
        return self.run(*self._ssh(), line, check=check)

    def ssh_json(self, line: str, *, timeout: float = 300) -> Any:
        return self.json(*self._ssh(), line, timeout=timeout)

    def _ssh(self) -> tuple[str, ...]:
        known = self.folder / "ssh-config"
        if not known.exists():
            known.write_text(self.run("vagrant", "ssh-config", "raidlab").text)
        return ("ssh", "-F", str(known), "raidlab")

    @property
    def volumes_folder(self) -> Path:
        return self.folder / "libvirt" / "var" / "lib" / "libvirt" / "images"

    def volumes(self) -> list[str]:
        if "default" not in self.run("virsh", "pool-list", "--name").text.split():
            return []
        # Refused while a volume is being copied; the list is good enough then.
        self.run("virsh", "pool-refresh", "default", check=False)
        listed = self.run("virsh", "vol-list", "default").lines
        return [line.split()[0] for line in listed[2:]]

    def domains(self) -> list[str]:
        return self.run("virsh", "list", "--name").text.split()


@contextmanager
def private_computer() -> Iterator[Computer]:
    """Start one, with a way out for package installations and with nothing of the user's; end it with all in it."""
    with ExitStack() as stack:
        # Not below /tmp, which may be small or in memory: a box, its copy and the disks take some gigabytes.
        folder = stack.enter_context(_folder(Path("/var/tmp")))
        folder.chmod(0o755)
        clone = folder / "raidlab"
        copy_working_tree(clone)
        init = stack.enter_context(_namespaces(folder))
        stack.enter_context(_way_out(init))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAIDLAB_", "VAGRANT_"))}
        environment |= {
            "RAIDLAB_IMAGE": IMAGE,
            "RAIDLAB_STATE": str(folder / "state"),
            "VAGRANT_HOME": str(folder / "vagrant"),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "VAGRANT_NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        yield Computer(init, folder, clone, environment)


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    """A folder of our own; folders of earlier tests that were killed, whose locks are free, are removed."""
    prefix = "raidlab-vm-"
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError), (left / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name, (Path(name) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def copy_working_tree(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = REPOSITORY / name
        if name and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


@contextmanager
def _namespaces(folder: Path) -> Iterator[int]:
    argv = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", str(_SCRIPT)]
    log = folder / "libvirt.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*argv, str(folder / "libvirt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said == b"ready\n", f"libvirt did not start: {log.read_text()}"
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def _way_out(init: int) -> Iterator[None]:
    """User-mode networking, for the package installations of a bake; nothing outside can connect to the inside."""
    ready_read, ready_write = os.pipe()
    argv = ["slirp4netns", "--configure", "--mtu=65520", f"--cidr={_NETWORK}", "--disable-host-loopback"]
    process = subprocess.Popen(
        [*argv, f"--ready-fd={ready_write}", str(init), "tap0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(ready_write,),
    )
    os.close(ready_write)
    try:
        with os.fdopen(ready_read, "rb") as ready:
            assert ready.read(1) == b"1", "slirp4netns did not start"
        yield
    finally:
        process.terminate()
        process.wait(timeout=_START_SECONDS)
