"""The worker that a Slurm job runs; it takes the arguments of ``dask worker``."""

from __future__ import annotations

from lab.sweep.node import drop_dask_variables


def main() -> None:
    """Serve until the scheduler is gone."""
    drop_dask_variables()
    import dask.config

    from lab.sweep.node import NO_PRELOADS

    dask.config.set(NO_PRELOADS)
    from distributed.cli.dask_worker import main as serve

    serve()


if __name__ == "__main__":
    main()
