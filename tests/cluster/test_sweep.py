"""Sweeps on a real Slurm and over ssh: they have the same results as on one computer, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.slurm_rig import NODES, PARTITION, SlurmRig
from tests.cluster.ssh_rig import SshRig
from tests.kernel.kill import processes_of
from tests.kernel.sweeps import Sweeps, digests, sweeps_in
from tests.waiting import listening

pytestmark = [pytest.mark.cluster, pytest.mark.virtual_time, pytest.mark.timeout(600)]
CELLS = 8


def on_slurm(folder: Path, rig: SlurmRig) -> Sweeps:
    """Sweeps with ``--cluster slurm``, which submits two jobs."""
    table = f'[cluster.slurm]\npartition = "{PARTITION}"\nhost = "127.0.0.1"\nwalltime = "00:20:00"\nmemory = "1G"\n'
    return sweeps_in(folder, more={name: rig.environment[name] for name in ("SLURM_CONF", "PATH")}, table=table)


def over_ssh(folder: Path, rig: SshRig, *, state: Path | None = None) -> Sweeps:
    """Sweeps with ``--cluster ssh:node1,node2``: a worker on each. ``state``: their folder, by default the client's."""
    there = state or folder / "state"
    table = f'[cluster.ssh]\nconfig = "{rig.config}"\nworkers = 1\nstate = "{there}"\n'
    return sweeps_in(folder, table=table)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of all cells, measured by one worker on this computer."""
    found = sweeps_in(tmp_path_factory.mktemp("alone")).run("--cluster", "local:1")
    assert found["measured"] == CELLS
    return digests(found)


def test_jobs_of_slurm_measure_the_same_and_leave_no_jobs_behind(
    alone: dict[str, str], slurm: SlurmRig, tmp_path: Path
) -> None:
    sweeps = on_slurm(tmp_path, slurm)
    found = sweeps.run("--cluster", "slurm")
    assert digests(found) == alone
    assert found["measured"] == CELLS
    jobs = slurm.run("squeue", "--noheader", "--states=PENDING,RUNNING,SUSPENDED")
    assert not jobs.strip()


def test_on_slurm_a_sweep_resumes_after_its_client_is_killed(
    alone: dict[str, str], slurm: SlurmRig, tmp_path: Path
) -> None:
    sweeps = on_slurm(tmp_path, slurm)
    process = sweeps.start("--cluster", "slurm")
    sweeps.until(lambda: len(sweeps.files()) >= 2, process)
    sweeps.kill("client", process)
    process.communicate(timeout=120)
    # Jobs whose scheduler is gone end by themselves, but the test does not wait for that.
    slurm.run("scancel", "--partition", PARTITION)
    sweeps.until_ended()
    sweeps.resumes_after_kill(("--cluster", "slurm"), alone, sweeps.files())


def test_a_node_that_is_lost_with_its_job_costs_no_cell(alone: dict[str, str], slurm: SlurmRig, tmp_path: Path) -> None:
    sweeps = on_slurm(tmp_path, slurm)
    process = sweeps.start("--cluster", "slurm")
    sweeps.until(lambda: sweeps.files(), process)
    slurm.lose_node("node2")
    try:
        _, output = process.communicate(timeout=300)
        assert process.returncode == 0, output
    finally:
        slurm.start_node("node2")
        slurm.wait_for_nodes()
    assert digests(sweeps.run("--resume")) == alone


def test_a_job_that_is_cancelled_before_it_starts_is_submitted_again(
    alone: dict[str, str], slurm: SlurmRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask does not notice the loss of a worker that was never connected."""
    blockers = [slurm.submit("sleep 600", "--exclusive", f"--nodelist={node}") for node in NODES]
    for blocker in blockers:
        slurm.wait_until_it_runs(blocker)
    sweeps = on_slurm(tmp_path, slurm)
    process = sweeps.start("--cluster", "slurm")
    pending = ("squeue", "--noheader", "--states=PENDING", "--format=%i")
    sweeps.until(lambda: len(slurm.run(*pending).split()) == 2, process)
    first = slurm.run(*pending).split()[0]
    slurm.run("scancel", first, str(blockers[0]))
    sweeps.until(
        lambda: set(slurm.run(*pending).split()) - {first} and len(slurm.run("squeue", "-h").splitlines()) == 3, process
    )
    slurm.run("scancel", str(blockers[1]))
    _, output = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "has ended; it will be started again" in output
    assert digests(sweeps.run("--resume")) == alone


def test_over_ssh_nothing_listens_on_the_network(servers: SshRig, tmp_path: Path) -> None:
    sweeps = over_ssh(tmp_path, servers)
    process = sweeps.start("--cluster", "ssh:node1,node2")
    sweeps.until(sweeps.files, process)
    assert set(listening(processes_of(sweeps.state)).values()) == {"0100007F"}
    _, output = process.communicate(timeout=120)
    assert process.returncode == 0, output


def test_over_ssh_it_is_the_same_and_cells_come_from_another_computers_folder(
    alone: dict[str, str], servers: SshRig, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o700)
    sweeps = over_ssh(tmp_path, servers, state=there)
    found = sweeps.run("--cluster", "ssh:node1,node2")
    assert digests(found) == alone
    kept = {path.stem for path in (there / "sweeps/cells").glob("*/*.cell")}
    assert kept == set(alone) == set(sweeps.files())
    # Cells that are deleted here still exist on the servers, and are fetched without a new measurement.
    for path in (sweeps.state / "sweeps/cells").glob("*/*.cell"):
        path.unlink()
    again = sweeps.run("--cluster", "ssh:node1,node2", "--resume")
    assert (again["measured"], digests(again)) == (0, alone)


def test_over_ssh_a_killed_worker_is_replaced_and_a_killed_client_resumes(
    alone: dict[str, str], servers: SshRig, tmp_path: Path
) -> None:
    sweeps = over_ssh(tmp_path, servers)
    process = sweeps.start("--cluster", "ssh:node1,node2")
    sweeps.until(lambda: sweeps.files() and "node1-0" in sweeps.progress().get("processes", {}), process)
    sweeps.kill("node1-0", process)
    sweeps.until(lambda: len(sweeps.files()) >= 4, process)
    sweeps.kill("client", process)
    process.communicate(timeout=120)
    sweeps.until_ended()
    sweeps.resumes_after_kill(("--cluster", "ssh:node1,node2"), alone, sweeps.files())


def test_a_host_that_cannot_be_reached_is_named(servers: SshRig, tmp_path: Path) -> None:
    sweeps = over_ssh(tmp_path, servers)
    process = sweeps.start("--cluster", "ssh:node1,node9")
    _, output = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "node9 cannot be reached" in output
    assert not sweeps.left()
