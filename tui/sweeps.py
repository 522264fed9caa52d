"""Sweeps as the app's long work: started, ended, and watched where another process has them going.

All work of the plugin that has them (``lab.experiments.extension``) is done on threads.
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
    from tui.frontend import Frontend
    from tui.services import Cancelled, Progress

KEPT_NOTICES = 5


@dataclass(slots=True)
class SweepView:
    """A sweep that this app runs, or ran last."""

    name: str
    progress: SweepProgress | None = None
    notices: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_NOTICES))
    outcome: LabError | bool | None = None
    """None while it runs; True: it came to its end."""
    is_ending: bool = False

    @property
    def is_running(self) -> bool:
        return self.outcome is None

    def hear(self, told: SweepProgress | str) -> None:
        """Progress, or a sentence."""
        if isinstance(told, str):
            self.notices.append(told)
        else:
            self.progress = told


@dataclass(slots=True)
class SweepLook:
    """What is known of a sweep without running it."""

    work: SweepWork | None = None
    """None: it is being looked at."""
    problem: LabError | None = None
    """Why it cannot run as it is."""
    stand: SweepStatus | None = None
    """Of its newest run; None: there is none."""

    @property
    def runs_elsewhere(self) -> bool:
        return self.stand is not None and self.stand.is_running


class Sweeps:
    """Starts a sweep, ends it, and looks at those that there are."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.view: SweepView | None = None
        self.entries: tuple[SweepEntry, ...] = ()
        self._looks: dict[str, SweepLook] = {}
        self._asked: set[str] = set()
        """Names that a thread looks at."""

    def look(self, name: str) -> SweepLook:
        """What is known of it; asked for on a thread if it is not known yet."""
        if name not in self._looks:
            self._looks[name] = SweepLook()
            self.look_again(name)
        return self._looks[name]

    def look_again(self, name: str) -> None:
        """Whatever is known, look now; what was known is shown until then."""
        self._ask(name, partial(_looked, self._frontend, name))

    def watch(self, name: str) -> None:
        """Look how a run of another process stands, or whether one has begun: that is cheap, and done often."""
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
        """Which there are."""

        def listed(entries: tuple[SweepEntry, ...]) -> None:
            self.entries = entries

        self._frontend.beside("sweeps", partial(_listed, self._frontend), on_done=listed, on_error=lambda _: None)

    def start(self, name: str) -> bool:
        """Run it, or go on with it; False if other long work still runs."""
        view = SweepView(name)

        def over(outcome: LabError | bool) -> None:
            view.outcome = outcome
            self._looks.pop(name, None)
            self.look(name)
            self.list_again()

        def done(_: object) -> None:
            over(True)
            self._frontend.say(f"sweep {name}: all cells were tried", title="Measured")

        def work(progress: Progress, cancelled: Cancelled) -> object:
            from lab.experiments.sweeps import SweepListener

            return _desk(self._frontend).run(name, SweepListener(progress, progress, cancelled))

        begun = self._frontend.background.run(f"sweep {name}", work, on_done=done, on_error=over, on_progress=view.hear)
        if begun:
            self.view = view
        return begun

    def cancel(self) -> None:
        """Ask it to end; what was measured is kept."""
        if self.view and self.view.is_running:
            self.view.is_ending = True
            self._frontend.background.cancel()
            self._frontend.show_soon()


def _desk(frontend: Frontend) -> SweepDesk:
    """The plugin's desk, on a thread of its own. Raises LabError without the plugin."""
    from lab.experiments.extension import Sweeping
    from lab.machine import parse_target
    from lab.plugins import extension

    sweeping = extension(Sweeping)
    if sweeping is None:
        raise LabError("this raidlab has no plugin for sweeps", hint="install the whole of it")
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
    look.stand = desk.stand(run_id) if run_id else None
    return look


def _watched(frontend: Frontend, name: str, known: SweepLook) -> SweepLook:
    desk = _desk(frontend)
    run_id = desk.going_run(name)
    if run_id:
        return replace(known, stand=desk.stand(run_id))
    # One that has ended has other cells, and tables.
    return _looked(frontend, name) if known.runs_elsewhere else known
