"""Tests that the clusters for other tests are real clusters, use only loopback, and leave nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cluster.keeper import Keeper, children_of, descendants_of
from tests.cluster.slurm_rig import SlurmRig, slurm_rig
from tests.cluster.ssh_rig import SshRig, ssh_rig
from tests.waiting import PATIENCE_SECONDS, listening, wait_until

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).resolve().parents[2]
Rig = SlurmRig | SshRig
RIGS = pytest.mark.parametrize("open_rig", [slurm_rig, ssh_rig])
# A process that would outlive its job and its connection: it has a session of its own and nobody waits for it.
STRAY = "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!"


def alive(pids: Iterable[int]) -> list[str]:
    """The command lines of the processes that run; a zombie no longer runs."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if state not in "ZX":
            found.append(f"{pid} {words}")
    return found


def leave_a_stray(rig: Rig, folder: Path) -> int:
    """Start a process that its job or connection does not wait for. Return its process id."""
    if isinstance(rig, SshRig):
        return int(subprocess.check_output(rig.command("node2", STRAY), timeout=PATIENCE_SECONDS))
    marker = folder / "stray"
    rig.submit(f"{STRAY} >{marker}.new; mv {marker}.new {marker}; sleep 600")
    wait_until(marker.exists, PATIENCE_SECONDS, rig.tails)
    return int(marker.read_text())


@RIGS
def test_all_of_it_listens_on_loopback_and_nothing_is_left(
    open_rig: Callable[[], AbstractContextManager[Rig]], tmp_path: Path
) -> None:
    with open_rig() as rig:
        stray = leave_a_stray(rig, tmp_path)
        pids = descendants_of(rig.keeper.pid) | {rig.keeper.pid}
        assert stray in pids
        assert set(listening(pids).values()) == {"0100007F"}
        daemons = children_of(rig.keeper.pid)
    assert len(daemons) >= 2
    assert alive(pids) == []
    assert not rig.folder.exists()


HOLDER = """
import json, sys, time
from pathlib import Path
from tests.cluster.keeper import descendants_of
from tests.cluster.test_rigs import leave_a_stray, slurm_rig, ssh_rig
with globals()[sys.argv[1]]() as rig:
    leave_a_stray(rig, Path(sys.argv[2]))
    pids = [rig.keeper.pid, *descendants_of(rig.keeper.pid)]
    print(json.dumps([str(rig.folder), pids]), flush=True)
    time.sleep(600)
"""


@RIGS
def test_a_rig_goes_with_a_test_that_is_killed(
    open_rig: Callable[[], AbstractContextManager[Rig]], tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", HOLDER, open_rig.__name__, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment, text=True) as holder:
        assert holder.stdout is not None
        try:
            folder, pids = json.loads(holder.stdout.readline())
            assert len(alive(pids)) >= 4
        finally:
            holder.kill()
    wait_until(lambda: not alive(pids), PATIENCE_SECONDS, lambda: f"still there: {alive(pids)}")
    assert not Path(folder).exists()


def test_daemons_go_with_a_keeper_that_is_killed() -> None:
    keeper = Keeper("test")
    try:
        pid = keeper.start(["sleep", "600"], "sleep.log", os.environ)
        # Immediately, since a daemon must follow the keeper from its first moment.
        os.kill(keeper.pid, signal.SIGKILL)
        wait_until(lambda: not alive([pid]), PATIENCE_SECONDS, lambda: f"still there: {alive([pid])}")
        with pytest.raises(AssertionError, match="ended with -9"):
            keeper.__exit__()
    finally:
        shutil.rmtree(keeper.folder)
