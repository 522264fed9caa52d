"""Loads: one workload on one array, or on a free disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lab.actions.action import Action, Argument, Choice, Fills
from lab.gates.decoding import Name, Seconds, parse_bytes

if TYPE_CHECKING:
    from lab.actions.action import Selection
    from lab.session.session import LabSession
    from lab.workloads.workload import Workload

USUAL_LOADS = ("rand-mix-4k", "rand-read-4k", "rand-write-4k", "seq-read-1m", "seq-write-1m")


class Load(Action, frozen=True, kw_only=True, tag="load"):
    """Run one workload on an array and print its figures; live values on standard error."""

    words, key, label, in_footer = "load", "w", "Load", True
    # A lesson may come from an unknown author, and a workload may be any file.
    in_lessons = False
    tooltip = "Put a workload on the array: reads and writes until you stop it"
    title, picks = "Load on {array}", "workload"
    intro = (
        "It runs until you stop it. It overwrites whatever is on an array without a file system, "
        "except your known data."
    )
    workload: Annotated[
        str,
        Argument("A workload, or the path of a .toml file: see 'raidlab workloads'.", is_placed=True, is_needed=True),
    ]
    array: Annotated[
        Name,
        Argument(
            "A running array, or a free disk: a bare one is overwritten.",
            is_placed=True,
            is_needed=True,
            fills=Fills.ARRAY,
        ),
    ] = "md0"
    runtime: Annotated[Seconds, Argument("Seconds to measure; Ctrl-C ends it before.")] = 10.0
    size: Annotated[str, Argument("What it works on, over all jobs, such as 64M.")] = ""

    @classmethod
    def obstacle(cls, it: Selection) -> str:
        return super().obstacle(it) or it.lack_of_array or ("a load runs already" if it.has_load else "")

    @classmethod
    def choices(cls) -> list[Choice]:
        """The catalogue; common workloads first, with keys."""
        return [
            Choice(each.id, each.id, each.title, str(number) if each.id in USUAL_LOADS else "")
            for number, each in enumerate(workloads(), start=1)
        ]

    def __post_init__(self) -> None:
        self.working_set_bytes  # noqa: B018 - raises for what is no size

    @property
    def working_set_bytes(self) -> int | None:
        return parse_bytes(self.size, what="size") if self.size else None

    @property
    def work(self) -> Workload:
        """Raises SpecError with the nearest name for an unknown one."""
        from lab.workloads.workload import find_workload

        return find_workload(self.workload)

    def perform(self, session: LabSession) -> object:
        from lab.session.load import Load as RunningLoad

        load = RunningLoad(
            session,
            self.array,
            self.work,
            runtime_seconds=self.runtime,
            working_set_bytes=self.working_set_bytes,
            on_end=lambda _: None,
        )
        load.start()
        return load.wait()


class StopLoad(Action, frozen=True, kw_only=True, tag="load.stop"):
    """End the workload that runs; its figures are shown."""

    words, key, label, in_footer, alias = "load", "w", "Stop load", True, "stop-load"
    tooltip = "End the workload that runs; its figures are shown"
    has_command = in_lessons = False

    @classmethod
    def obstacle(cls, it: Selection) -> str:
        return super().obstacle(it) or ("" if it.has_load else "no load runs")

    def perform(self, session: LabSession) -> object:
        """No effect here: the app stops the load that it has started."""
        return None


def workloads() -> list[Workload]:
    """The catalogue: common workloads first, then by name."""
    from lab.workloads.workload import all_workloads

    found = all_workloads()
    first = [name for name in USUAL_LOADS if name in found]
    return [found[name] for name in (*first, *(name for name in sorted(found) if name not in first))]
