"""Every screen looks as it did when a person last looked at it.

After a wanted change: ``pytest tests/tui/test_pictures.py --snapshot-update``, then look at the changed files under
``__snapshots__`` with a browser before they are committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_textual_snapshot import SVGImageExtension, normalize_svg  # type: ignore[import-untyped]
from textual.widgets import Input

from tests.tui.conftest import AppMaker, AppPilot, is_parsing, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.pictures import PICTURES, SIZES, THEMES, Picture
from tui.app import RaidlabApp, Settings

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


_MOST_TRIES, _STILL_SECONDS = 20, 0.05


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
async def test_it_looks_as_it_did(
    picture: Picture, size: tuple[int, int], app_on: AppMaker, fake_lab: FakeLab, snapshot: SnapshotAssertion
) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    app = app_on(Settings(THEMES[0], picture.mode, was_welcomed=picture.was_welcomed))
    async with running(app, size) as pilot:
        await picture.prepare(pilot, app, fake_lab)
        if picture.mode == "run":
            await until(pilot, lambda: bool(app.sweeps.entries), "the sweeps are listed")
        for field in app.screen.query(Input):
            field.cursor_blink = False
            field._cursor_visible = True
        # The widgets are the same at every size: one size shows the colours of the other theme.
        for theme in THEMES if size == SIZES[-1] else THEMES[:1]:
            app.theme = theme
            app.show_now()
            assert await settled(pilot, app) == pictures(name=theme.removeprefix("raidlab-"))


async def settled(pilot: AppPilot, app: RaidlabApp) -> str:
    """The picture once it no longer changes: the footer is composed anew after everything else."""
    before: object = None
    for _ in range(_MOST_TRIES):
        await pilot.pause(_STILL_SECONDS)
        # To make a picture takes many times as long.
        now = app.screen._compositor.render_strips()
        if now == before and not is_parsing(app):
            picture: str = normalize_svg(app.export_screenshot(title="raidlab"))
            return picture
        before = now
    raise AssertionError("it never stands still")
