"""Host names for ssh that all lead to this computer: an ordinary user runs an sshd on loopback for each."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.keeper import SEARCH_PATH, Keeper, free_ports
from tests.waiting import PATIENCE_SECONDS, wait_until

NODES = ("node1", "node2")
SSHD = shutil.which("sshd", path=SEARCH_PATH)

# StrictModes requires that only the owner can write to the folders above the keys, but everybody can write to /tmp.
# MaxStartups exceeds the default of ten unauthenticated connections, since a sweep starts all of its workers at once.
SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/{name}.host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
StreamLocalBindUnlink yes
MaxStartups 100
MaxSessions 100
SetEnv RIG_NODE={name}
"""
CLIENT = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
"""


@dataclass(frozen=True, slots=True)
class SshRig:
    """Running servers: ``ssh -F config NAME`` reaches each, and the variable RIG_NODE holds its name there."""

    keeper: Keeper
    user: str
    ports: dict[str, int]
    pids: dict[str, int]

    @property
    def folder(self) -> Path:
        return self.keeper.folder

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    def command(self, name: str, *argv: str) -> list[str]:
        return ["ssh", "-F", str(self.config), name, *argv]


def keygen(path: Path) -> None:
    """Create a key without a passphrase, and its public key in the same folder."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=PATIENCE_SECONDS
    )


@contextmanager
def ssh_rig(*nodes: str) -> Iterator[SshRig]:
    """Servers that accept connections, by default node1 and node2. When the block ends, nothing of them is left."""
    names = nodes or NODES
    if os.geteuid() == 0:
        # sshd as root confines its unprivileged process to this folder, which the distribution creates at boot.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    user = pwd.getpwuid(os.getuid()).pw_name
    with Keeper("ssh") as keeper:
        folder = keeper.folder
        rig = SshRig(keeper, user, dict(zip(names, free_ports(len(names)), strict=True)), {})
        keygen(folder / "user_key")
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        for name, port in rig.ports.items():
            words = {"name": name, "port": port, "folder": folder, "user": user}
            keygen(folder / f"{name}.host_key")
            _append(folder / "known_hosts", f"[127.0.0.1]:{port} {(folder / f'{name}.host_key.pub').read_text()}")
            _append(rig.config, CLIENT.format(**words))
            (folder / f"{name}.sshd_config").write_text(SERVER.format(**words))
            argv = [str(SSHD), "-D", "-e", "-f", str(folder / f"{name}.sshd_config")]
            rig.pids[name] = keeper.start(argv, f"{name}.log", os.environ)
        for name in names:
            _wait_for_server(rig, name)
        yield rig


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _wait_for_server(rig: SshRig, name: str) -> None:
    def answers() -> bool:
        with suppress(subprocess.TimeoutExpired):
            asked = subprocess.run(rig.command(name, "true"), capture_output=True, timeout=20, check=False)
            return asked.returncode == 0
        return False

    wait_until(answers, PATIENCE_SECONDS, lambda: f"{name} cannot be reached: {rig.keeper.log(f'{name}.log')}")
