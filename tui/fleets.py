"""What fleets lose, reckoned on threads while somebody turns knobs, by the plugin that simulates them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from lab.errors import LabError
from tui.fleet import ChosenRebuild, FleetChoice

if TYPE_CHECKING:
    from lab.results.store import ResultStore
    from lab.theory.losses import LossFigures
    from tui.frontend import Frontend

KEPT_FIGURES = 1000


class Fleets:
    """Reckons what choices lose, one at a time; what was asked for last comes first."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.rates: tuple[ChosenRebuild, ...] | None = None
        """Measured rebuilds; None: nobody has looked for them yet."""
        self._known: dict[FleetChoice, LossFigures | LabError] = {}
        self._wanted: tuple[FleetChoice, ...] = ()
        self._is_busy = False

    def want(self, choices: Iterable[FleetChoice]) -> None:
        """Reckon these in this order, and nothing else that was wanted before."""
        self._wanted = tuple(choices)
        self._go_on()

    def figures(self, choice: FleetChoice) -> LossFigures | LabError | None:
        """What a choice loses, or why that cannot be said; None: not known yet."""
        return self._known.get(choice)

    def look_for_rates(self) -> None:
        """Rebuilds of stored results, once."""
        if self.rates is None:
            self.rates = ()
            store = _result_store(self._frontend)
            self._frontend.beside(
                "rebuilds", partial(_measured, store), on_done=self._keep_rates, on_error=lambda _: None
            )

    def _keep_rates(self, rates: tuple[ChosenRebuild, ...]) -> None:
        self.rates = rates

    def _go_on(self) -> None:
        choice = next((each for each in self._wanted if each not in self._known), None)
        if choice is None or self._is_busy:
            return
        self._is_busy = True
        keep = partial(self._keep, choice)
        self._frontend.beside("fleet", partial(_reckoned, choice), on_done=keep, on_error=keep)

    def _keep(self, choice: FleetChoice, found: LossFigures | LabError) -> None:
        self._is_busy = False
        self._known[choice] = found
        while len(self._known) > KEPT_FIGURES:
            del self._known[next(iter(self._known))]
        self._go_on()


def _reckoned(choice: FleetChoice) -> LossFigures:
    """On a thread of its own. Raises LabError."""
    from lab.plugins import extension
    from lab.theory.extension import FleetLosses

    losses = extension(FleetLosses)
    if losses is None:
        raise LabError("this raidlab has no plugin that simulates fleets", hint="install the whole of it")
    return losses.what_if(
        arrays=choice.arrays,
        level=choice.level,
        members=choice.members,
        disk_tb=choice.disk_tb,
        afr_percent=choice.failing_percent,
        rebuild_hours=choice.rebuild_hours,
        scrub_interval_hours=choice.scrub_hours,
        spares=choice.spares,
        replenish_hours=choice.replaced_hours,
        years=choice.years,
    )


def _result_store(frontend: Frontend) -> ResultStore:
    from lab.results.store import ResultStore

    return ResultStore(frontend.client.host.state.results)


def _measured(store: ResultStore) -> tuple[ChosenRebuild, ...]:
    """The newest of each kind."""
    from lab.results.rebuild_rates import measured_rebuilds

    found: dict[str, ChosenRebuild] = {}
    for each in measured_rebuilds(store):
        under = f" under {each.under_workload}" if each.under_workload else ""
        label = f"{each.array}{under}, {each.experiment}"
        found.setdefault(label, ChosenRebuild(label, each.bytes_per_second))
    return tuple(found.values())
