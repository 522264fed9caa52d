"""The parts that sweeps and clusters add to raidlab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cli.context import Cluster, CollectionReport, Command
from lab.experiments.sweeps import SweepDesk, Sweeping
from lab.plugins import Plugin

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.cli.context import Loaded
    from lab.host.pool import ClusterCalls
    from lab.machine import Host, Target


def _sweep() -> Loaded:
    from lab.sweep.command import sweep

    return sweep


def _calls_on(cluster: str, host: Host, on_notice: Callable[[str], None]) -> AbstractContextManager[ClusterCalls]:
    from lab.sweep.spread import calls_on

    return calls_on(cluster, host, on_notice)


def _report(names: Sequence[str], kind: str, output: Path | None, title: str, host: Host, is_alone: bool) -> str | None:
    from lab.sweep.report import report_sweep

    return report_sweep(names, kind, output, title, host, is_alone=is_alone)


def _desk(target: Target, host: Host) -> SweepDesk:
    from lab.sweep.service import LocalDesk

    return LocalDesk(target, host)


PLUGIN = Plugin(
    (
        Command("sweep", _sweep, "Run an experiment over many combinations, on any cluster."),
        Cluster(_calls_on),
        CollectionReport(_report),
        Sweeping(_desk),
    ),
    folder=Path(__file__).parent,
)
