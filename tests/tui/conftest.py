"""The app on a fake lab, without a terminal."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from lab.results.store import ResultStore
from tests.tui.fake_lab import FakeLab, StillClient
from tests.tui.lessons import MINE
from tests.tui.results import keep
from tests.tui.talk import Talk
from tests.tui.user import User
from tests.unit.lessons.samples import TRANSLATION, write
from tui.app import RaidlabApp, Settings, save_settings
from tui.client import LabClient
from tui.look import UNICODE, Glyphs

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "stored(*results): the results in the fixture store")
    config.addinivalue_line("markers", "app(**how): how the app of the fixtures user and start is started")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.tui)


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The time zone, folders, terminal and speed of this computer do not change what the app paints."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("lab.adapt.spec.new_uuid", lambda: ":".join(["0123abcd"] * 4))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    # Notifications must outlive any delay of the test.
    monkeypatch.setattr("textual.app.App.NOTIFICATION_TIMEOUT", 3600.0)
    monkeypatch.setattr("tui.base_app._BAD_NEWS_SECONDS", 3600.0)
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("RAIDLAB_CONFIG", str(tmp_path / "config"))


@pytest.fixture(scope="session", autouse=True)
def style_sheets_are_parsed_once() -> Iterator[None]:
    """Each app would parse the same sheets again, which takes a fifth of a second."""
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


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> ResultStore:
    """The store of the app, with the marked results."""
    found = ResultStore(tmp_path / "state" / "results")
    keep(found, *(record for mark in request.node.iter_markers("stored") for record in mark.args))
    return found


@pytest.fixture
def lesson(tmp_path: Path) -> str:
    """The path of a lesson that the captured arrays pass."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return str(write(folder, MINE, sv=TRANSLATION))


@pytest.fixture
def size() -> tuple[int, int]:
    """Columns and rows; a test may be parametrised with other values."""
    return 120, 40


Start = Callable[..., AbstractAsyncContextManager[User]]


def marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of the markers ``app``; the nearest marker has precedence."""
    return {
        name: value for mark in reversed([*request.node.iter_markers("app")]) for name, value in mark.kwargs.items()
    }


@pytest.fixture
def start(request: pytest.FixtureRequest, fake_lab: FakeLab, tmp_path: Path, size: tuple[int, int]) -> Start:
    how = marked(request)
    return lambda **changes: started(fake_lab, tmp_path / "app.json", **{"size": size, **how, **changes})


@pytest.fixture
async def user(start: Start) -> AsyncIterator[User]:
    async with start() as user:
        yield user


@pytest.fixture
def talk(request: pytest.FixtureRequest, fake_lab: FakeLab) -> Iterator[Talk]:
    """The text mode on the fake lab, with the options of the markers ``app``."""
    how = marked(request)
    if shows := how.get("shows"):
        fake_lab.show(shows)
    made = Talk(fake_lab)
    if how.get("looks", 1):
        made.hear("is running.")
        made.look()
    yield made
    made.close()


@asynccontextmanager
async def started(
    fake_lab: FakeLab,
    settings_file: Path,
    *,
    size: tuple[int, int],
    shows: str = "",
    looks: int = 1,
    is_still: bool = False,
    waits: bool = True,
    keys_file: Path | None = None,
    glyphs: Glyphs = UNICODE,
    notifications: bool = False,
    was_welcomed: bool = True,
    **settings: Any,
) -> AsyncIterator[User]:
    """The app with its lab open, with the captured array ``shows``, after ``looks`` samples.

    ``is_still``: with a ``StillClient``. ``waits``: wait until the lab is open.
    """
    save_settings(settings_file, Settings(was_welcomed=was_welcomed, **settings))
    if shows:
        fake_lab.show(shows)

    def make_client(post: Callable[[Any], object]) -> LabClient:
        if is_still:
            return StillClient(post)
        return LabClient("uml:", post, host=fake_lab.host, opener=fake_lab.open)

    app = RaidlabApp("uml:", make_client=make_client, settings_file=settings_file, keys_file=keys_file, glyphs=glyphs)
    try:
        async with app.run_test(size=size, notifications=notifications) as pilot:
            user = User(app, pilot, fake_lab)
            if waits:
                await user.until(lambda: app.lab.is_open, "the lab is open")
                if looks and not is_still:
                    await user.look(looks)
            yield user
    finally:
        app.client.close()
