"""One workload on one array, started and stopped from the app."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.errors import LabError
from tui import messages as happened
from tui.state import LoadView

if TYPE_CHECKING:
    from lab.session.load import Forecast, Load
    from tui.desk import Desk


class Loads:
    """Starts a load, hears of it, and stops it. At most one at a time."""

    def __init__(self, app: Desk) -> None:
        self._app = app
        self._load: Load | None = None

    def start(self, array: str, workload: str, runtime_seconds: float | None = None) -> bool:
        """Begin; False if another one still runs. Without a runtime it goes on until ``stop``."""
        from lab.session.load import Load, predict

        session = self._app.client.session
        if session is None or self._load is not None:
            return False
        client = self._app.client

        def post(message: happened.LabMessage) -> None:
            self._app.post_message(message)

        try:
            load = Load(
                session,
                array,
                workload,
                runtime_seconds=runtime_seconds,
                on_live=lambda interval: post(happened.LoadTicked(interval, client.machine_seconds())),
                on_phase=lambda phase: post(happened.LoadEntered(phase)),
                on_end=lambda outcome: post(happened.LoadEnded(outcome)),
            )
        except LabError as error:
            self._app.tell(error)
            return False
        self._load = load
        self._app.lab.load = LoadView(workload, array, runtime_seconds)
        self._app.operations.look_up(
            lambda session: predict(session, array, workload), on_done=self._keep, on_error=lambda _: None
        )
        load.start()
        self._app.show_soon()
        return True

    def stop(self) -> None:
        """Ask it to end; its figures come soon after."""
        if self._load is not None:
            self._load.stop()

    def hear(self, message: happened.LabMessage) -> None:
        """Messages that concern the load."""
        if isinstance(message, happened.LoadEnded):
            self._load = None
            if isinstance(message.outcome, LabError):
                self._app.tell(message.outcome)
        if isinstance(message, happened.SessionEnded):
            self._load = None

    def _keep(self, forecast: Forecast) -> None:
        if self._app.lab.load:
            self._app.lab.load = replace(self._app.lab.load, forecast=forecast)
