"""Sweeps as background jobs: they are started and cancelled, and another process's run is monitored.

The plugin for sweeps (``lab.experiments.sweeps``) is called on threads only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.experiments.sweeps import SweepDesk, SweepEntry, SweepProgress, SweepStatus, SweepWork
    from tui.frontend import Cancelled, Frontend, Progress

KEPT_NOTICES = 5


@dataclass(slots=True)
class SweepView:
    """The current or the last sweep of this app."""

    name: str
    progress: SweepProgress | None = None
    notices: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_NOTICES))
    outcome: LabError | bool | None = None
    """None while it runs; True: it finished; a LabError: why it ended."""
    is_ending: bool = False

    @property
    def is_running(self) -> bool:
        return self.outcome is None

    def receive(self, report: SweepProgress | str) -> None:
        if isinstance(report, str):
            self.notices.append(report)
        else:
            self.progress = report


@dataclass(slots=True)
class SweepLook:
    """The state of a sweep, read without running it."""

    work: SweepWork | None = None
    """None: not yet read, or see ``problem``."""
    problem: LabError | None = None
    """Why the sweep cannot run."""
    status: SweepStatus | None = None
    """The status of its newest run; None: it has none."""

    @property
    def runs_elsewhere(self) -> bool:
        return self.status is not None and self.status.is_running


class Sweeps:
    """Starts and cancels sweeps, and reads the state of all sweeps."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.view: SweepView | None = None
        self.entries: tuple[SweepEntry, ...] = ()
        self._looks: dict[str, SweepLook] = {}
        self._asked: set[str] = set()
        """Names of the sweeps that a thread is reading."""

    def look(self, name: str) -> SweepLook:
        """The state of a sweep; if it is not known yet, an empty one, while a thread reads it."""
        if name not in self._looks:
            self._looks[name] = SweepLook()
            self.look_again(name)
        return self._looks[name]

    def look_again(self, name: str) -> None:
        """Read the state again on a thread; the known state remains until then."""
        self._ask(name, partial(_looked, self._frontend, name))

    def watch(self, name: str) -> None:
        """Read the status of another process's run, or whether one has started. It is cheap and called often."""
        known = self.look(name)
        if known.work or known.problem:
            self._ask(name, partial(_watched, self._frontend, name, known))

    def _ask(self, name: str, work: Callable[[], SweepLook]) -> None:
        if name in self._asked:
            return
        self._asked.add(name)

        def seen(look: SweepLook) -> None:
            self._asked.discard(name)
            self._looks[name] = look

        def failed(error: LabError) -> None:
            seen(SweepLook(problem=error))

        self._frontend.beside("sweep", work, on_done=seen, on_error=failed)

    def list_again(self) -> None:
        def listed(entries: tuple[SweepEntry, ...]) -> None:
            self.entries = entries

        self._frontend.beside("sweeps", partial(_listed, self._frontend), on_done=listed, on_error=lambda _: None)

    def start(self, name: str) -> bool:
        """Run or resume a sweep; False if another background job runs."""
        view = SweepView(name)

        def over(outcome: LabError | bool) -> None:
            view.outcome = outcome
            self._looks.pop(name, None)
            self.look(name)
            self.list_again()

        def done(_: object) -> None:
            over(True)
            self._frontend.say(f"sweep {name}: all cells have been measured", title="Done")

        def work(progress: Progress, cancelled: Cancelled) -> object:
            from lab.experiments.sweeps import SweepListener

            return _desk(self._frontend).run(name, SweepListener(progress, progress, cancelled))

        has_started = self._frontend.background.run(
            f"sweep {name}", work, on_done=done, on_error=over, on_progress=view.receive
        )
        if has_started:
            self.view = view
        return has_started

    def cancel(self) -> None:
        """Request that the sweep ends; finished measurements are kept."""
        if self.view and self.view.is_running:
            self.view.is_ending = True
            self._frontend.background.cancel()
            self._frontend.show_soon()


def _desk(frontend: Frontend) -> SweepDesk:
    """The plugin's interface to sweeps; call it on a separate thread. Raises LabError without the plugin."""
    from lab.experiments.sweeps import Sweeping
    from lab.machine import parse_target
    from lab.plugins import extension

    sweeping = extension(Sweeping)
    if sweeping is None:
        raise LabError("the plugin for sweeps is missing", hint="install the complete raidlab package")
    return sweeping.desk(parse_target(frontend.lab.target or "uml:"), frontend.client.host)


def _listed(frontend: Frontend) -> tuple[SweepEntry, ...]:
    return _desk(frontend).entries()


def _looked(frontend: Frontend, name: str) -> SweepLook:
    desk, look = _desk(frontend), SweepLook()
    try:
        look.work = desk.work(name)
    except LabError as error:
        look.problem = error
    run_id = look.work.run_id if look.work else desk.newest_run(name)
    look.status = desk.stand(run_id) if run_id else None
    return look


def _watched(frontend: Frontend, name: str, known: SweepLook) -> SweepLook:
    desk = _desk(frontend)
    run_id = desk.going_run(name)
    if run_id:
        return replace(known, status=desk.stand(run_id))
    # The end of a run changes its cells and tables.
    return _looked(frontend, name) if known.runs_elsewhere else known
