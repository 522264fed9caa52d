"""A user of the app without a terminal: presses keys, reads the screen, and waits for results of threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Markdown, OptionList

from tests.tui.fake_lab import FakeLab, StillClient
from tui.app import RaidlabApp
from tui.plan_screen import PlanScreen
from tui.state import LabState, MachinePhase

PATIENCE_SECONDS = 60.0
Found = TypeVar("Found", bound=Widget)


async def reached(is_reached: Callable[[], object], what: str) -> None:
    """Wait until a condition holds that threads of the app change."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_reached():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.002)


def flat(text: str) -> str:
    """The text as one line of words, to find sentences that are wrapped within frames."""
    return " ".join(text.replace("│", " ").split())


def is_parsing(app: RaidlabApp) -> bool:
    """Whether a text in Markdown is still being parsed."""
    texts = app.screen.query(Markdown)
    # The app's own workers wait for input from the user.
    workers = [work for work in app.workers if work.node is not app]
    return any(text.lock.is_locked for text in texts) or not all(work.is_finished for work in workers)


@dataclass
class User:
    """``fake_lab`` is unused if the client is a ``StillClient``."""

    app: RaidlabApp
    pilot: Pilot[object]
    fake_lab: FakeLab

    @property
    def lab(self) -> LabState:
        return self.app.lab

    @property
    def jobs(self) -> list[Future[Any]]:
        """The jobs that were submitted to a ``StillClient``."""
        assert isinstance(self.app.client, StillClient)
        return self.app.client.jobs

    @property
    def screen(self) -> Screen[Any]:
        return self.app.screen

    @property
    def text(self) -> str:
        """The text on the screen."""
        width, height = self.app.size
        lines = self.screen._compositor.render_strips()
        return "\n".join(strip.text[:width].rstrip() for strip in lines[:height])

    @property
    def notifications(self) -> list[str]:
        """The notifications, the newest last."""
        return [notification.message for notification in self.app._notifications]

    @property
    def words(self) -> str:
        """The text on the screen as one line of words."""
        return flat(self.text)

    @property
    def halves(self) -> tuple[str, str]:
        """Two frames side by side, each as one line of words."""
        lines = [line.split("││", 1) for line in self.text.splitlines()]
        return flat("\n".join(line[0] for line in lines)), flat("\n".join(line[-1] for line in lines))

    def at(self, kind: type[Found]) -> Found:
        """The screen in front, which must be of this kind."""
        assert isinstance(self.screen, kind), self.screen
        return self.screen

    def find(self, kind: type[Found], selector: str = "") -> Found:
        """The widget of this kind on the screen in front."""
        return self.screen.query_one(selector, kind) if selector else self.screen.query_one(kind)

    def sees(self, *words: str) -> None:
        """Assert that all of these texts are on the screen, on one line or wrapped."""
        text = self.text
        shown = (text, flat(text), *self.halves)
        assert [each for each in words if not any(each in form for form in shown)] == [], text

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        # The pilot considers a process idle if it has used no processor time, even if it was waiting for a processor.
        await reached(lambda: self.app._exit or not self.app.is_handling_input, "the keys are handled")
        await self.show()

    async def show(self) -> None:
        """Handle the queued messages, and update the screen."""
        await self.pilot.pause()
        self.app.show_now()
        await self.pilot.pause()

    async def choose(self, option: str) -> None:
        """Go to an option of the screen's first list."""
        options = self.find(OptionList)
        options.highlighted = options.get_option_index(option)
        await self.show()

    async def until(self, is_reached: Callable[[], object], what: str) -> None:
        """Wait until a condition holds that threads of the app change, and until the screen shows the result."""
        await reached(is_reached, what)
        await self.show()

    async def see(self, words: str) -> None:
        """Wait until the words are on the screen."""
        await self.until(lambda: words in self.text, words)

    async def look(self, count: int = 1) -> None:
        """Take ``count`` samples of the fake lab, and show them."""
        machine = self.fake_lab.machine
        await self.until(lambda: machine.stream_of_samples is not None, "the monitor asks for samples")
        for _ in range(count):
            self.fake_lab.tick()
            # One at a time: a newer sample in the queue replaces an older one.
            await reached(self._has_seen_all, f"the sample at {self.fake_lab.seconds}")
        await self.show()

    def _has_seen_all(self) -> bool:
        return self.lab.snapshot is not None and self.lab.snapshot.time_seconds >= self.fake_lab.seconds

    async def read(self, *keys: str) -> None:
        """Press keys, and wait until Markdown texts are shown too, which a thread parses."""
        await self.press(*keys)
        await self.until(lambda: not is_parsing(self.app), "the texts are parsed")

    async def idle(self) -> None:
        """Wait until all submitted jobs are done and shown."""
        done: list[object] = []
        self.app.look_up(lambda _: None, on_done=done.append, on_error=done.append)
        await self.until(lambda: bool(done), "the queue is empty")
        if isinstance(screen := self.screen, PlanScreen):
            # A plan can be confirmed only once it is shown. A plan that cannot be made is never shown.
            await self.until(lambda: screen.is_shown or not screen.is_attached, "the plan is on the screen")

    async def lose(self, hint: str = "see its console log") -> None:
        """Lose the machine, and wait until the app has noticed."""
        self.fake_lab.lose(hint)
        await self.until(lambda: self.lab.phase is MachinePhase.LOST, "the machine is lost")

    async def plan(self, *keys: str) -> PlanScreen:
        """Press keys that lead to a plan."""
        await self.press(*keys)
        await self.idle()
        return self.at(PlanScreen)
