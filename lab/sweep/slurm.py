"""Workers as jobs of Slurm, written and submitted by dask-jobqueue."""

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
"""How long a worker waits for a scheduler that is gone."""
_LOOK_SECONDS = 10.0


class SlurmJob:
    """One worker."""

    def __init__(self, name: str, job: Any, host: Host) -> None:
        self.name = name
        self._job, self._host, self._clock = job, host, host.clock
        self._looked = self._clock.monotonic_seconds()

    def end_of(self) -> str | None:
        """Why it is over; None while the job waits or runs."""
        now = self._clock.monotonic_seconds()
        if now < self._looked + _LOOK_SECONDS:
            return None
        self._looked = now
        found = self._host.processes.run(("squeue", "--noheader", "--format=%T", f"--jobs={self._job.job_id}"))
        is_over = (found.status == 0 and not found.stdout.strip()) or "Invalid job id" in found.stderr
        return f"{self.name} (job {self._job.job_id}) is over" if is_over else None

    def tell_to_end(self) -> None:
        """A job is ended by ``close`` alone."""

    def close(self) -> None:
        """Cancel the job."""
        asyncio.run(self._job.close())


class SlurmWorkers:
    """Submits jobs for one scheduler."""

    def __init__(self, table: SlurmTable, address: str, keys: tuple[Path, Path], folder: Path, host: Host) -> None:
        if not host.processes.find("sbatch"):
            raise RequirementMissing(
                "Slurm's programs are not installed here", hint="work on a computer of the cluster"
            )
        # Loaded on the main thread, and our handlers back in place: it takes SIGINT and SIGTERM for itself.
        with signals.kept():
            from dask_jobqueue.slurm import SLURMJob
        self._make_job: Any = SLURMJob
        self._table, self._address, self._folder, self._host = table, address, folder, host
        self._certificate, self._key = map(str, keys)

    def submit(self, name: str) -> SlurmJob:
        """One more. Raises LabError with Slurm's words if it refuses."""
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
            # Words of a shell's line, before "-m" and the command.
            python=shlex.join(isolated_python(python=table.python)),
            worker_command="lab.sweep.slurm_worker",
            local_directory=str(self._folder),
            log_directory=str(self._folder),
            # A job that Slurm starts again would be a second worker of this name; another one is submitted instead.
            job_extra_directives=["--no-requeue", *table.directives],
            worker_extra_args=["--no-nanny", "--no-dashboard", "--worker-class", "lab.sweep.quiet.QuietWorker"],
        )
        import dask.config

        try:
            # The job's script is written where nobody else can put another in its place.
            with dask.config.set({"temporary-directory": str(self._folder)}):
                asyncio.run(job.start())
        except (RuntimeError, ValueError, OSError) as error:
            said = str(error).strip().splitlines()[-1]
            raise LabError(f"Slurm takes no job: {said}", hint="check [cluster.slurm] in the sweep's file") from None
        return SlurmJob(name, job, self._host)
