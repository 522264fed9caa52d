"""The app on a fake lab, without a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.widgets import Markdown

from tests.tui.fake_lab import FakeLab
from tui.app import RaidlabApp, Settings, save_settings
from tui.client import LabClient
from tui.look import UNICODE, Glyphs
from tui.plan_screen import PlanScreen

PATIENCE_SECONDS = 15.0
HERE = Path(__file__).parent
AppPilot = Pilot[object]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.tui)


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No clock, place or terminal of the computer shows in what the app paints."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("lab.adapt.spec.new_uuid", lambda: ":".join(["0123abcd"] * 4))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("RAIDLAB_CONFIG", str(tmp_path / "config"))


@pytest.fixture(scope="session", autouse=True)
def style_sheets_are_parsed_once() -> Iterator[None]:
    """Each app parses the same sheets anew, with the same variables as a rule: a fifth of a second."""
    parse, known = Stylesheet._parse_rules, {}

    def once(self: Stylesheet, *source: object, **more: object) -> list[RuleSet]:
        key = (source, *more.values(), frozenset(self._variables.items()))
        if key not in known:
            known[key] = parse(self, *source, **more)  # type: ignore[arg-type]
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", once)
        yield


@pytest.fixture
def fake_lab(tmp_path: Path) -> FakeLab:
    return FakeLab(tmp_path / "state")


AppMaker = Callable[..., RaidlabApp]


@pytest.fixture
def app_on(fake_lab: FakeLab, tmp_path: Path) -> Iterator[AppMaker]:
    """Makes apps on the fake lab; all are closed in the end."""
    made: list[RaidlabApp] = []

    def make(
        settings: Settings | None = None, *, glyphs: Glyphs = UNICODE, keys_file: Path | None = None
    ) -> RaidlabApp:
        file = tmp_path / "app.json"
        save_settings(file, settings or Settings(was_welcomed=True))
        app = RaidlabApp(
            "uml:",
            make_client=lambda post: LabClient("uml:", post, make_host=lambda: fake_lab.host, opener=fake_lab.open),
            settings_file=file,
            keys_file=keys_file,
            glyphs=glyphs,
        )
        made.append(app)
        return app

    yield make
    for app in made:
        app.client.close()


@asynccontextmanager
async def running(app: RaidlabApp, size: tuple[int, int] = (120, 40)) -> AsyncIterator[AppPilot]:
    """The app with its lab open."""
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.lab.is_open, "the lab is open")
        app.show_now()
        await pilot.pause()
        yield pilot


async def until(pilot: AppPilot, is_reached: Callable[[], bool], what: str) -> None:
    """Wait for something that the app's threads bring about, and until it is shown."""
    await reached(is_reached, what)
    await pilot.pause()


async def reached(is_reached: Callable[[], bool], what: str) -> None:
    """Wait for something that the app's threads bring about."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_reached():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.002)


async def looked(pilot: AppPilot, app: RaidlabApp, fake_lab: FakeLab, count: int = 1) -> None:
    """Let the fake lab look so many times, and the screens show it."""
    stream = lambda: fake_lab.machine.stream_of_samples is not None  # noqa: E731
    await until(pilot, stream, "the monitor asks for samples")
    for _ in range(count):
        fake_lab.tick()
        wanted = fake_lab.seconds
        # One at a time: of looks that wait in the queue only the newest is kept.
        await reached(lambda wanted=wanted: _has_seen(app, wanted), f"the look at {wanted}")  # type: ignore[misc]
    await pilot.pause()
    app.show_now()
    await pilot.pause()


async def read_out(pilot: AppPilot, app: RaidlabApp) -> None:
    """Show what is new, and wait until texts in Markdown stand there too: a thread parses them."""
    app.show_now()
    await pilot.pause()
    await until(pilot, lambda: not is_parsing(app), "the texts are parsed")


def is_parsing(app: RaidlabApp) -> bool:
    """Whether a text in Markdown is on its way to the screen."""
    texts = app.screen.query(Markdown)
    return any(text.lock.is_locked for text in texts) or not all(work.is_finished for work in app.workers)


def _has_seen(app: RaidlabApp, seconds: float) -> bool:
    return app.lab.look is not None and app.lab.look.time_seconds >= seconds


async def idle(pilot: AppPilot, app: RaidlabApp) -> None:
    """Wait until every job that was asked for is done and shown."""
    done: list[object] = []
    app.look_up(lambda _: None, on_done=done.append, on_error=done.append)
    await until(pilot, lambda: bool(done), "the queue is empty")
    app.show_now()
    await pilot.pause()
    if isinstance(screen := app.screen, PlanScreen):
        # Nobody can agree to it before; a plan that cannot be made is never shown.
        await until(pilot, lambda: screen.is_shown or not screen.is_attached, "the plan is on the screen")


@asynccontextmanager
async def asked_to_fail(app: RaidlabApp, fake_lab: FakeLab) -> AsyncIterator[tuple[AppPilot, PlanScreen]]:
    """A RAID 5, and the plan to fail its first disk on the screen."""
    fake_lab.show("raid5")
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("f")
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
        yield pilot, app.screen
