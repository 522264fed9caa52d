"""Workers that are jobs of Slurm, submitted through dask-jobqueue."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Any

from lab.errors import LabError, RequirementMissing
from lab.host import signals
from lab.host.processes import isolated_python
from lab.machine import Host
from lab.sweep.cluster import SlurmTable

DEATH_SECONDS = 60
"""Time for which a worker waits for a scheduler that is gone."""
_LOOK_SECONDS = 10.0


class SlurmJob:
    """A worker that is a job of Slurm."""

    def __init__(self, name: str, job: Any, host: Host) -> None:
        self.name = name
        self._job, self._host, self._clock = job, host, host.clock
        self._looked = self._clock.monotonic_seconds()

    def end_of(self) -> str | None:
        """A message that the job has ended; None while it is queued or running."""
        now = self._clock.monotonic_seconds()
        if now < self._looked + _LOOK_SECONDS:
            return None
        self._looked = now
        found = self._host.processes.run(("squeue", "--noheader", "--format=%T", f"--jobs={self._job.job_id}"))
        is_over = (found.status == 0 and not found.stdout.strip()) or "Invalid job id" in found.stderr
        return f"{self.name} (job {self._job.job_id}) is over" if is_over else None

    def tell_to_end(self) -> None:
        """Do nothing; ``close`` cancels the job."""

    def close(self) -> None:
        """Cancel the job."""
        asyncio.run(self._job.close())


class SlurmWorkers:
    """Submits the workers of one scheduler."""

    def __init__(self, table: SlurmTable, address: str, keys: tuple[Path, Path], folder: Path, host: Host) -> None:
        if not host.processes.find("sbatch"):
            raise RequirementMissing(
                "Slurm's programs are not installed here", hint="work on a computer of the cluster"
            )
        # dask_jobqueue installs handlers for SIGINT and SIGTERM on import. Import it here, on the main thread, and
        # restore ours.
        with signals.kept():
            from dask_jobqueue.slurm import SLURMJob
        self._make_job: Any = SLURMJob
        self._table, self._address, self._folder, self._host = table, address, folder, host
        self._certificate, self._key = map(str, keys)

    def submit(self, name: str) -> SlurmJob:
        """Submit one job. Raises LabError with Slurm's message if it is rejected."""
        from distributed import Security

        table = self._table
        pems = {"tls_worker_cert": self._certificate, "tls_worker_key": self._key}
        make_security: Any = Security
        security = make_security(tls_ca_file=self._certificate, require_encryption=True, **pems)
        job = self._make_job(
            scheduler=self._address,
            name=name,
            job_name=f"raidlab-{name}",
            queue=table.partition or None,
            account=table.account or None,
            walltime=table.walltime,
            cores=1,
            processes=1,
            memory=f"{table.memory}iB",
            security=security,
            protocol="tls://",
            death_timeout=DEATH_SECONDS,
            # Shell words that precede "-m" and the command.
            python=shlex.join(isolated_python(python=table.python)),
            worker_command="lab.sweep.slurm_worker",
            local_directory=str(self._folder),
            log_directory=str(self._folder),
            # A requeued job would be a second worker of this name; ``Pool`` submits a new job instead.
            job_extra_directives=["--no-requeue", *table.directives],
            worker_extra_args=["--no-nanny", "--no-dashboard", "--worker-class", "lab.sweep.quiet.QuietWorker"],
        )
        import dask.config

        try:
            # In the sweep's folder, no other user can replace the job script.
            with dask.config.set({"temporary-directory": str(self._folder)}):
                asyncio.run(job.start())
        except (RuntimeError, ValueError, OSError) as error:
            said = str(error).strip().splitlines()[-1]
            raise LabError(f"Slurm takes no job: {said}", hint="check [cluster.slurm] in the sweep's file") from None
        return SlurmJob(name, job, self._host)
