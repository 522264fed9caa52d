"""What fleets lose, reckoned on threads while somebody turns knobs, by the part that simulates them (``lab.parts``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.results.store import ResultStore
    from tui.fleet import FleetChoice
    from tui.frontend import Frontend

KEPT_FIGURES = 1000


class ShownEstimate(Protocol):
    """A figure with the interval that covers the truth with 95 %."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class ShownLosses(Protocol):
    """What a fleet loses: ``lab.fleet.estimate.LossFigures``, as far as it is shown."""

    @property
    def trials(self) -> int: ...
    @property
    def losses_per_array_year(self) -> ShownEstimate: ...
    @property
    def loss_chance_per_array_year(self) -> ShownEstimate: ...
    @property
    def fleet_loss_chance(self) -> ShownEstimate: ...
    @property
    def nines_per_array_year(self) -> ShownEstimate: ...
    @property
    def lost_bytes_per_pb_year(self) -> ShownEstimate: ...
    @property
    def cause_losses(self) -> Mapping[str, float]: ...
    @property
    def counted(self) -> str: ...
    @property
    def mttdl_by_hand(self) -> str: ...
    @property
    def seldom(self) -> Mapping[str, ShownEstimate]: ...
    @property
    def mttdl_years(self) -> float: ...
    @property
    def losses_to_mttdl(self) -> float: ...


@dataclass(frozen=True, slots=True)
class ChosenRebuild:
    """Rebuilds of a stored result."""

    label: str
    bytes_per_second: float


class Fleets:
    """Reckons what choices lose, one at a time; what was asked for last comes first."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.rates: tuple[ChosenRebuild, ...] | None = None
        """Measured rebuilds; None: nobody has looked for them yet."""
        self._known: dict[FleetChoice, ShownLosses | LabError] = {}
        self._wanted: tuple[FleetChoice, ...] = ()
        self._is_busy = False

    def want(self, choices: Iterable[FleetChoice]) -> None:
        """Reckon these in this order, and nothing else that was wanted before."""
        self._wanted = tuple(choices)
        self._go_on()

    def figures(self, choice: FleetChoice) -> ShownLosses | LabError | None:
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

    def _keep(self, choice: FleetChoice, found: ShownLosses | LabError) -> None:
        self._is_busy = False
        self._known[choice] = found
        while len(self._known) > KEPT_FIGURES:
            del self._known[next(iter(self._known))]
        self._go_on()


def _reckoned(choice: FleetChoice) -> ShownLosses:
    """On a thread of its own. Raises LabError."""
    from lab.parts import added

    what_if = added("what if of fleets")
    if what_if is None:
        raise LabError("this raidlab has no part that simulates fleets", hint="install the whole of it")
    found: ShownLosses = what_if(
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
    return found


def _result_store(frontend: Frontend) -> ResultStore:
    from lab.results.store import ResultStore

    return ResultStore(frontend.client.host.state.results)


def _measured(store: ResultStore) -> tuple[ChosenRebuild, ...]:
    """The newest of each kind."""
    from lab.parts import added

    measured = added("measured rebuilds")
    found: dict[str, ChosenRebuild] = {}
    each: Any
    for each in measured(store) if measured else ():
        under = f" under {each.under_workload}" if each.under_workload else ""
        label = f"{each.array}{under}, {each.experiment}"
        found.setdefault(label, ChosenRebuild(label, each.bytes_per_second))
    return tuple(found.values())
